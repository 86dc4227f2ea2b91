"""An offset that a coordinator may delete by its age is not lost."""

from typing import Any

import pytest

from highwater.checkers.groups.commits import foreign_offsets, offsets_retention_ns, wrong_offsets
from highwater.harness.runs.plan import Plan

MINUTE_NS = 60_000_000_000


def row(event: str, process: str, at_ns: int, offset: int | None) -> dict[str, Any]:
    return {
        "event": event,
        "process": process,
        "group": "g",
        "partition": 0,
        "offset": offset,
        "outcome": "ok",
        "invoke_ns": at_ns,
        "complete_ns": at_ns + 1,
    }


@pytest.mark.parametrize(
    ("after_ns", "answer", "kinds"),
    [
        (MINUTE_NS, None, []),
        (MINUTE_NS - 2, None, ["stale-commit", "lost-commit"]),
        (MINUTE_NS, 1, ["stale-commit"]),  # an offset that nobody committed
    ],
)
def test_a_commit_is_forgotten_after_its_time(
    after_ns: int, answer: int | None, kinds: list[str]
) -> None:
    plan = Plan(kafka="4.4.0", broker_config={"offsets.retention.minutes": "1"})
    rows = [row("commit", "member-0", 5, 3), row("committed", "member-1", 5 + after_ns, answer)]
    on_disk = {("g", 0): None}
    found = [finding.kind for finding in wrong_offsets(rows, on_disk, offsets_retention_ns(plan))]
    assert found == kinds
    kept = [
        finding.kind
        for finding in wrong_offsets(rows, on_disk, offsets_retention_ns(Plan(kafka="4.4.0")))
    ]
    assert kept == ["stale-commit", "lost-commit"]


@pytest.mark.parametrize(
    ("rows", "offsets"),
    [
        ([("committed", 5, 3)], [3]),
        ([("committed", 5, None), ("commit", 9, 1), ("committed", 15, 1)], []),
        ([("commit", 5, 3), ("committed", 9, 3)], []),
        ([("committed", 5, 3), ("commit", 9, 4), ("committed", 15, 4)], [3]),
    ],
)
def test_an_offset_that_nobody_has_committed_is_of_another_topic(
    rows: list[tuple[str, int, int | None]], offsets: list[int]
) -> None:
    journal = [row(event, "member-0", at_ns, offset) for event, at_ns, offset in rows]
    found = list(foreign_offsets(journal))
    assert [finding.offset for finding in found] == offsets
    assert all("committed no offset there" in finding.says for finding in found)
    assert not list(foreign_offsets([{**asked, "process": "reader"} for asked in journal]))
