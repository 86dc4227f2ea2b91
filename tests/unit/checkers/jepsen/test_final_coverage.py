"""Slots whose end no reader reached, against plain loops."""

from random import Random

import pytest

from highwater.checkers.jepsen import final_coverage
from highwater.checkers.jepsen.final_coverage import short
from tests.support.small_views import Row, numbered, view_of

Ends = list[tuple[str, int, int]]


def history(seed: int) -> list[Row]:
    dice = Random(seed)  # noqa: S311 - histories are no secrets
    rows: list[Row] = []
    for at in range(dice.randrange(2, 40)):
        kind = dice.choice(["send", "read", "read", "read", "seek"])
        offset = dice.choice([None, 0]) if kind == "seek" else dice.randrange(4)
        process = dice.choice(["p1", "p2"] if kind == "send" else ["c1", "c2"])
        outcome = dice.choice(["ok", "ok", "ok", "info", "fail"])
        row: Row = {"at": at, "op": at, "process": process, "kind": kind, "outcome": outcome}
        row |= {"topic": dice.choice(["t", "u"]), "partition": dice.randrange(2)}
        rows.append(row | {"offset": offset, "value": f"v{offset}", "invoke_ns": at})
    return numbered(rows)


def plain(rows: list[Row]) -> Ends:
    found = []
    for topic, partition in sorted({(row["topic"], row["partition"]) for row in rows}):
        some = [row for row in rows if (row["topic"], row["partition"]) == (topic, partition)]
        known = [row for row in some if row["kind"] != "seek" and row["outcome"] == "ok"]
        end = max((row["offset"] for row in known), default=-1)
        there = [row for row in known if row["offset"] == end]
        sought = {
            row["process"]: row["at"]
            for row in some
            if row["kind"] == "seek" and row["outcome"] != "fail" and row["offset"] is None
            if there and row["at"] > there[0]["at"]
        }
        reached = any(
            row["kind"] == "read" and row["at"] > sought.get(row["process"], row["at"])
            for row in there
        )
        if sought and not reached:
            found.append((topic, partition, end))
    return found


def test_ends_that_nobody_reached() -> None:
    for seed in range(200):
        rows = history(seed)
        expected = plain(rows)
        Random(seed).shuffle(rows)  # noqa: S311 - for the same reason
        assert short(view_of(rows)) == expected, seed


def test_the_foremost_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = next(rows for rows in map(history, range(200)) if len(plain(rows)) > 1)
    monkeypatch.setattr(final_coverage, "SHOWN_MAX", 1)
    assert short(view_of(rows)) == plain(rows)[:1]
