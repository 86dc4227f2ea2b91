"""Records that an administrator deleted are not lost, and others are."""

from pathlib import Path

from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from highwater.harness.runs.plan import Acks, Plan, Workload
from tests.support.run_builder import RunBuilder


def deleted(
    path: Path, *, below: int, fault: str = "delete-records", acks: Acks = "all"
) -> RunBuilder:
    """m0 to m3 are acknowledged, with acks=0 without offsets; the final read begins at offset 2.

    A consumer reads m0, but not m1.
    """
    run = RunBuilder(path, kafka="4.4.0", workload=Workload(acks=acks))
    run.plan = Plan(kafka="4.4.0", topic=run.topic, workload=run.workload, nemesis=(fault,))
    run.leader(1, 0, [1, 2, 3])
    for offset in range(4):
        run.send(f"m{offset}", None if acks == "0" else offset)
    run.read("m0", 0, process="consumer-0", phase="run")
    run.fault(fault, None, "records were deleted")
    removed = {"topic": "events", "partition": 0, "first": 0, "end": below}
    run.rows["events/faults"][-1]["removed"] = [removed]
    run.disk([1, 2, 3], [(offset, 0, f"m{offset}") for offset in range(4)])
    for offset in (2, 3):
        run.read(f"m{offset}", offset)
    run.fence(4)
    run.disk([1, 2, 3], [(4, 0, "fence-0")])
    return run


def test_deleted_records_are_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    runs = (
        deleted(tmp_path / "all", below=2),
        deleted(tmp_path / "one", below=1),
        deleted(tmp_path / "other", below=2, fault="kill"),
        deleted(tmp_path / "unanswered", below=2, acks="0"),
    )
    whole, one, other, unanswered = judge([run.write() for run in runs], spark)
    assert (whole.verdict, whole.ledger.replaced, whole.ledger.lost) == ("valid", 2, 0)
    assert "kept all 2 of 4 acknowledged records that were not deleted" in whole.headline
    assert (one.verdict, one.ledger.replaced, one.ledger.lost) == ("invalid", 1, 1)
    assert (other.ledger.replaced, other.ledger.lost) == (0, 2)
    assert (unanswered.ledger.replaced, unanswered.ledger.lost) == (1, 1)
