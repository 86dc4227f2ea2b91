"""A record that two transactions of a group read: its coordinator knew nothing of transactions."""

from pathlib import Path

import pytest

from highwater.harness.releases.client_choice import AIOKAFKA, KAFKA_PYTHON, LIBRDKAFKA
from tests.histories.loops import GROUP, LOOPS
from tests.support.explained import finding
from tests.support.run_builder import RunBuilder


@pytest.mark.parametrize(
    ("kafka", "client", "begins", "second", "ended", "why_not"),
    [
        ("2.4.1", LIBRDKAFKA, 0, "producer-1", "later", ""),
        ("2.4.1", LIBRDKAFKA, None, "producer-1", "later", ""),
        ("2.8.2", LIBRDKAFKA, 0, "producer-1", "later", "From 2.5 on"),
        ("2.8.2", "java", 0, "producer-1", "later", "From 2.5 on"),
        ("2.8.2", AIOKAFKA, 0, "producer-1", "later", ""),
        ("4.4.0", KAFKA_PYTHON, 0, "producer-1", "later", ""),
        ("4.4.0", AIOKAFKA, 0, "producer-1", "before", "had ended"),
        ("2.4.1", LIBRDKAFKA, 2, "producer-1", "later", "did not begin to read before that record"),
        ("2.4.1", LIBRDKAFKA, 0, "producer-0", "later", "The same member read the record twice"),
        ("2.4.1", LIBRDKAFKA, 0, "producer-1", "before", "had ended"),
        ("2.4.1", LIBRDKAFKA, 0, "producer-1", "unknown", "It is not known when"),
    ],
)
def test_where_no_coordinator_waits_a_second_member_begins_where_the_first_did(
    tmp_path: Path,
    kafka: str,
    client: str,
    begins: int | None,
    second: str,
    ended: str,
    why_not: str,
) -> None:
    run = RunBuilder(tmp_path / "run", kafka=kafka, workload=LOOPS, client=client)
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(0, 0, "m0"), (1, 0, "m1")])
    run.join(GROUP, "producer-0")
    outcome = "info" if ended == "unknown" else "ok"
    run.transact("producer-0", 1, [("a", 2)], [("m0", 0), ("m1", 1)], outcome=outcome)
    run.join(GROUP, "producer-1")
    run.seek(0, begins, "producer-1")
    run.transact(second, 2, [("b", 3)], [("m0", 0), ("m1", 1)])
    reads = [row for row in run.rows["history/ops"] if row["kind"] == "read"]
    steps = [row for row in reads if row["value"] == "m1" and row["phase"] == "run"]
    if ended == "later":
        steps[0]["complete_ns"] = run.now_ns
    found = finding(run, "processed-twice", offset=1, value="m1", steps=steps)
    if why_not:
        assert found.verdict == "unexplained"
        assert why_not in found.because[-1].says
    else:
        rule = "before-KIP-447" if client == LIBRDKAFKA else "unfenced-client"
        assert [link.rule for link in found.because] == ["transaction", rule]
        where = "the beginning" if begins is None else "offset 0"
        assert f"producer-1 was assigned the partition, and continued to read from {where}:" in (
            found.because[-1].says
        )
