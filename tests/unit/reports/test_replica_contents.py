"""What a report says of each offset of a replica on disk."""

from pathlib import Path

from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run
from highwater.reports.replica_contents import RecordOnDisk, read_holdings
from tests.support.logdirs import Broker, batch, marker


def test_a_marker_is_named_and_has_no_id(tmp_path: Path) -> None:
    segment = b"".join(
        (
            batch(0, [(None, b"m0")], epoch=2),
            marker(1, producer=7, commit=True, epoch=2),
            marker(2, producer=7, commit=False, epoch=2),
        )
    )
    Broker(path=tmp_path / "replicas" / "1", broker=1).log("events-0", segment)
    run, missing = Run(tmp_path), list[str]()
    run.write("plan.json", Plan(kafka="4.4.0").to_json())
    [records] = read_holdings(run, ("events", 0), missing).values()
    assert missing == []
    values = ("m0", "commit marker", "abort marker")
    assert [*records.values()] == [RecordOnDisk(value=value, epoch=2) for value in values]
