"""A coordinator's answer is explained on releases with a hazard that its log shows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa  # noqa: TC002
import pytest

from highwater.checkers.coordinators.contradictions import coordinator_contradiction
from highwater.checkers.explain.evidence.removed_groups import removed_group
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.run_files import RunFiles, stage
from tests.histories.journals import contradicted


@pytest.mark.parametrize(
    ("kafka", "group_goes", "aborted", "rule"),
    [
        ("4.0.0", True, False, "KAFKA-19163"),
        ("4.0.1", True, False, ""),
        ("4.0.0", False, False, ""),
        ("4.0.0", False, True, ""),
        ("3.9.0", False, True, "KAFKA-17507"),
        ("3.9.2", False, True, ""),
        ("3.9.0", False, False, ""),
    ],
)
def test_a_lacking_offset_is_explained_by_its_release_and_by_the_log(
    tmp_path: Path, kafka: str, rule: str, *, group_goes: bool, aborted: bool
) -> None:
    run = contradicted(
        tmp_path / "run", answer=None, group_goes=group_goes, aborted=aborted, kafka=kafka
    )
    case = RunFiles.of(run, "run")
    (tmp_path / "staged").mkdir()
    stage(case, tmp_path / "staged")
    found = coordinator_contradiction.find(cast("Any", SimpleNamespace(cases=(case,))))
    [row] = cast("pa.Table", found).to_pylist()
    assert row["copies"][0]["note"] == (
        "The coordinator of group events-group returned no offset for partition 0, but"
        " __consumer_offsets has offset 1."
    )
    chain = removed_group(observe(run), row)
    assert bool(chain.why_not) is not bool(rule)
    if rule:
        assert {link.rule for link in chain.links} == {rule}
