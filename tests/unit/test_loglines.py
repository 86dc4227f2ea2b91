"""Lines that brokers of each generation wrote, and what is read off them."""

from pathlib import Path

import pytest

from harness.loglines import LINES_MAX, log_lines

STARTED_NS = 1_795_237_200_000_000_000  # 2026-11-21T05:00:00Z


@pytest.mark.parametrize(
    ("line", "kind", "partition", "offset"),
    [
        ("INFO Truncating log events-0 to offset 3. (kafka.log.Log)", "truncation", 0, 3),
        (
            "INFO [Log partition=events-12, dir=/d] Truncating to offset 7 (kafka.log.Log)",
            "truncation",
            12,
            7,
        ),
        (
            "INFO [UnifiedLog partition=events-0, dir=/d] Truncating to offset 41 (o.a.k)",
            "truncation",
            0,
            41,
        ),
        ("INFO Truncating events-0 to 4 has no effect as the largest offset is 3.", "kept", 0, 4),
        (
            "INFO [UnifiedLog partition=events-0, dir=/d] Truncating to 0 has no effect as (x)",
            "kept",
            0,
            0,
        ),
        (
            "INFO [ReplicaFetcherThread-0-1]: leader replied with an offset 4 in events-0. No (k)",
            "follower",
            0,
            None,
        ),
        (
            "INFO [Broker id=3] Follower events-0 starts at leader epoch 1 from offset 4 with (s)",
            "follower",
            0,
            None,
        ),
        (
            "INFO [Broker id=3] Leader events-0 with topic id Some(x) starts at leader epoch 2 (s)",
            "leader",
            0,
            None,
        ),
        (
            "INFO [Selector]: Selected new leader and ISR {} for offline partition [events,0] (k)",
            "election",
            0,
            None,
        ),
        ("INFO [Partition events-0 broker=3] ISR updated to 3,1  and version (k)", "isr", 0, None),
        (
            "INFO Partition [events,0] on broker 1: Shrinking ISR for partition [events,0]",
            "isr",
            0,
            None,
        ),
        ("INFO [Kafka Server 1], started (kafka.server.KafkaServer)", "start", None, None),
        ("INFO [KafkaRaftServer nodeId=1] Kafka Server started (k)", "start", None, None),
        ("ERROR Something broke (kafka.Whatever)", "error", None, None),
    ],
)
def test_a_line_that_matters(
    tmp_path: Path, line: str, kind: str, partition: int | None, offset: int | None
) -> None:
    (tmp_path / "broker-2.log").write_text(f"2026-11-21T05:00:01.500Z {line}\n")
    (row,) = log_lines(tmp_path, "events", started_at_ns=STARTED_NS)
    assert (row["kind"], row["partition"], row["offset"]) == (kind, partition, offset)
    assert (row["broker"], row["time_ns"]) == (2, 1_500_000_000)
    assert row["topic"] == (None if partition is None else "events")


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-21T05:00:01.500Z INFO Truncating log other-0 to offset 3. (kafka.log.Log)",
        "2026-11-21T05:00:01.500Z INFO Nothing of note (kafka.log.Log)",
        "\tat kafka.server.ERROR(Trace.scala:1)",
        "",
    ],
)
def test_a_line_that_does_not(tmp_path: Path, line: str) -> None:
    (tmp_path / "broker-1.log").write_text(line + "\n")
    assert list(log_lines(tmp_path, "events", started_at_ns=STARTED_NS)) == []


def test_a_broker_in_a_loop_does_not_flood_the_run(tmp_path: Path) -> None:
    line = "2026-11-21T05:00:01.500Z ERROR again\n"
    (tmp_path / "broker-1.log").write_text(line * (LINES_MAX + 10))
    assert len(list(log_lines(tmp_path, "events", started_at_ns=STARTED_NS))) == LINES_MAX
