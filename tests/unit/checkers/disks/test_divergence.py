"""Replicas that differ are told from bytes that are misplaced beside damage."""

import struct
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from tests.support.run_builder import RunBuilder

pytestmark = pytest.mark.spark

MOVED, NEIGHBOUR, TO = 7, 6, 8


def moved(path: Path, *, damaged: bool) -> RunBuilder:
    """On broker 2 the last batch claims another record's offset, perhaps beside damage."""
    run = RunBuilder(path, kafka="4.3.1")
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(offset, 0, f"m{offset}") for offset in range(8)])
    batch = bytearray(run.disks[2, 0][MOVED])
    batch[:8] = struct.pack(">q", TO)  # under no checksum
    run.disks[2, 0][MOVED] = bytes(batch)
    if damaged:
        run.damage(2, NEIGHBOUR)
    run.fence(8)
    run.disk([1, 3], [(TO, 0, "fence-0")])
    return run


@pytest.mark.parametrize("damaged", [False, True])
def test_what_no_neighbour_confirms_on_a_damaged_disk_is_no_difference(
    damaged: bool, tmp_path: Path, spark: SparkSession
) -> None:
    (verdict,) = judge([moved(tmp_path / "run", damaged=damaged).write()], spark)
    found = {(one.kind, one.offset) for one in verdict.anomalies}
    if damaged:
        assert found == {("corrupt", NEIGHBOUR)}
    else:
        assert found == {("divergence", MOVED), ("divergence", TO)}
    assert verdict.verdict == "invalid"
