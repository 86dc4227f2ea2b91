"""A group that was removed too early explains its coordinator's answer: on 4.0.0, and by a log."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa  # noqa: TC002
import pytest

from highwater.checkers.groups.coordinator_answers import coordinator_contradiction
from highwater.checkers.model.explain.evidence.removed_groups import removed_group
from highwater.checkers.model.explain.read_trace import observe
from highwater.checkers.run_files import RunFiles, stage
from tests.histories.journals import contradicted


@pytest.mark.parametrize(
    ("kafka", "group_goes", "explained"),
    [("4.0.0", True, True), ("4.0.1", True, False), ("4.0.0", False, False)],
)
def test_the_removal_explains_the_answer_on_4_0_0(
    tmp_path: Path, kafka: str, *, group_goes: bool, explained: bool
) -> None:
    run = contradicted(tmp_path / "run", answer=None, group_goes=group_goes, kafka=kafka)
    case = RunFiles.of(run, "run")
    (tmp_path / "staged").mkdir()
    stage(case, tmp_path / "staged")
    found = coordinator_contradiction.find(cast("Any", SimpleNamespace(cases=(case,))))
    [row] = cast("pa.Table", found).to_pylist()
    assert row["copies"][0]["note"] == (
        "The coordinator of group events-group had no offset for partition 0; __consumer_offsets"
        " has offset 1."
    )
    chain = removed_group(observe(run), row)
    assert bool(chain.why_not) is not explained
    assert [link.rule for link in chain.links if explained] == (
        ["removed-group", "KAFKA-19163", "removed-group"] if explained else []
    )
