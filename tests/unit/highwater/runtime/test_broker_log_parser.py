"""Lines that brokers of each generation wrote, and what is read off them."""

import time
from pathlib import Path

import pytest

from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.runtime import runner
from highwater.runtime.broker_log_parser import CONTROLLER, LINES_MAX, endings, log_lines
from highwater.runtime.run_status import StatusKeeper

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
            (
                "INFO [ReplicaFetcherThread-0-1]: Based on follower's leader epoch, leader"
                " replied with an"
                " offset 4 >= the follower's log end offset 3 in events-0. No"
                " truncation needed. (k)"
            ),
            "answer",
            0,
            4,
        ),
        (
            (
                "WARN [ReplicaFetcherThread-0-2]: Based on follower's leader epoch, leader"
                " replied with an"
                " unknown offset in events-4. High watermark 9 will be used for truncation. (k)"
            ),
            "answer",
            4,
            9,
        ),
        (
            (
                "INFO [ReplicaFetcher replicaId=2] Truncating partition events-1 with"
                " TruncationState(offset=12, completed=true) due to leader epoch and offset (k)"
            ),
            "answer",
            1,
            12,
        ),
        (
            "INFO [ReplicaFetcher] Truncating partition events-1 to local high watermark 3 (k)",
            "answer",
            1,
            3,
        ),
        (
            (
                "WARN [ReplicaFetcherThread-0-1], Replica 3 for partition [events,0]"
                " reset its fetch"
                " offset from 0 to current leader 1's latest offset 17 (k)"
            ),
            "range",
            0,
            17,
        ),
        (
            "INFO [Broker id=3] Follower events-0 starts at leader epoch 1 from offset 4 with (s)",
            "follower",
            0,
            4,
        ),
        (
            (
                "INFO [Broker id=3] Leader events-0 with topic id Some(x) starts at"
                " leader epoch 2 from"
                " offset 5 with partition epoch 3 (s)"
            ),
            "leader",
            0,
            5,
        ),
        (
            (
                "INFO Partition [events,0] on broker 1: events-0 starts at Leader"
                " Epoch 1 from offset"
                " 6. Previous Leader Epoch was: 0 (k)"
            ),
            "leader",
            0,
            6,
        ),
        (
            (
                "INFO [Partition events-0 broker=2] Log loaded for partition events-0"
                " with initial high"
                " watermark 4 (k)"
            ),
            "loaded",
            0,
            4,
        ),
        (
            "INFO Created log for partition [events,0] in /data/events-0 with properties {} (k)",
            "created",
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
        (
            (
                "WARN [OfflinePartitionLeaderSelector]: No broker in ISR is alive for [events,0]."
                " Elect leader 3 from live brokers 3. There's potential data loss. (k)"
            ),
            "unclean",
            0,
            None,
        ),
        (
            (
                "INFO [Controller id=1 epoch=3] Partition events-0 state changed to (Leader:-1,"
                "ISR:2,LeaderEpoch:3,ZkVersion:3,ControllerEpoch:3) after removing replica 2 from"
                " the ISR as part of transition to OfflineReplica (state.change.logger)"
            ),
            "offline",
            0,
            None,
        ),
        ("INFO [Kafka Server 1], shutting down (kafka.server.KafkaServer)", "stop", None, None),
        ("INFO Terminating process due to signal SIGTERM (o.a.k.c.u)", "stop", None, None),
        ("INFO [BrokerServer id=2] shutting down (kafka.server.BrokerServer)", "stop", None, None),
        ("ERROR Something broke (kafka.Whatever)", "error", None, None),
        (
            (
                "INFO [RemoteLogManager=3 partition=RGwv9Hw5R6SgsqFhdRV2xw:events-0] About to"
                " delete remote log segment RemoteLogSegmentId{topicIdPartition=RGwv9Hw5R6SgsqFhd"
                "RV2xw:events-0, id=ouhwQL68Rx2vKgepOPRGPQ} due to retention size 5000000 breach."
                " Log size after deletion will be 6000720. (o.a.k.s)"
            ),
            "expired",
            0,
            None,
        ),
        (
            (
                "INFO [RemoteLogManager=1 partition=V0z_0QNtToaOW0gXJvBP9Q:events-0] Found the"
                " logStartOffset: 136 for partition: V0z_0QNtToaOW0gXJvBP9Q:events-0 after becoming"
                " leader (o.a.k.s)"
            ),
            "remote-start",
            0,
            136,
        ),
        *(
            (
                (
                    "INFO [RemoteLogManager=3 partition=N7irhE3tQiqZfrcUeNucRg:events-0]"
                    f" {word} 000000000000000000{base:02}.log to remote storage{end}. (o.a.k.s)"
                ),
                word.lower(),
                0,
                base,
            )
            for word, end, base in (("Copying", "", 0), ("Copied", " with segment-id: R", 40))
        ),
        (
            (
                "INFO [UnifiedLog partition=events-0, dir=/a-1/replicas/3] Incremented log start"
                " offset to 2 due to segment deletion (o.a.k.s)"
            ),
            "log-start",
            0,
            2,
        ),
        (
            "INFO [Log partition=events-1, dir=/r/1] Incrementing log start offset to 88 (k.l.Log)",
            "log-start",
            1,
            88,
        ),
        (
            "INFO Incrementing log start offset of partition events-2 to 65 in dir /r/1 (k.l.Log)",
            "log-start",
            2,
            65,
        ),
        (
            (
                "INFO [UnifiedLog partition=events-0, dir=/replicas/2] Deleting segment LogSegment("
                "baseOffset=4, size=402, lastModifiedTime=1795967439267, largestRecordTimestamp="
                "1795881039269) due to log retention time 3600000ms breach based on the largest"
                " record timestamp in the segment (o.a.k.s)"
            ),
            "retention",
            0,
            4,
        ),
        (
            (
                "INFO [Log partition=events-0, dir=/replicas/2] Found deletable segments with base"
                " offsets [4,7] due to retention time 3600000ms breach (kafka.log.Log)"
            ),
            "retention",
            0,
            4,
        ),
        (
            (
                "INFO Attempting to recover abandoned future log for events-0 at Log("
                "dir=/2/events-0.c0-future, topic=events, partition=0, logEndOffset=3) and"
                " removing Log(dir=/1/events-0, topic=events, partition=0, logEndOffset=5) (k.l)"
            ),
            "replaced-by-copy",
            0,
            3,
        ),
        (
            (
                "ERROR [GroupMetadataManager brokerId=2] Error loading offsets from"
                " __consumer_offsets-0 (kafka.coordinator.group.GroupMetadataManager)"
            ),
            "unloaded",
            None,
            None,
        ),
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
    ("line", "leaders"),
    [
        (
            (
                "[ReplicaFetcherManager on broker 1] Added fetcher for partitions"
                " List([[events,2], initOffset 7 to broker BrokerEndPoint(3,127.0.0.13,9092)] ,"
                " [events-1, initOffset 8 to broker BrokerEndPoint(2,127.0.0.12,9092)] ) (k)"
            ),
            ("BrokerEndPoint(3", "BrokerEndPoint(2"),
        ),
        (
            (
                "[ReplicaFetcherManager on broker 1] Added fetcher to broker BrokerEndPoint(id=2,"
                " host=127.0.0.12:9092) for partitions Map(events-2 -> (offset=7, leaderEpoch=1),"
                " events-1 -> (offset=8, leaderEpoch=3)) (k)"
            ),
            ("id=2", "id=2"),
        ),
        (
            (
                "[ReplicaFetcherManager on broker 1] Added fetcher to broker 3 for partitions"
                " HashMap(events-2 -> InitialFetchState(Some(Pz),BrokerEndPoint(id=3,"
                " host=127.0.0.13:9092),2,7), events-1 -> InitialFetchState(Some(Qz),"
                "BrokerEndPoint[id=3, host=127.0.0.13, port=9092],2,8)) (k)"
            ),
            ("broker 3", "broker 3"),
        ),
    ],
)
def test_each_partition_of_a_line_about_fetchers(
    tmp_path: Path, line: str, leaders: tuple[str, str]
) -> None:
    (tmp_path / "broker-1.log").write_text(f"2026-11-21T05:00:01.500Z INFO {line}\n")
    rows = list(log_lines(tmp_path, "events", started_at_ns=STARTED_NS))
    assert [(row["kind"], row["partition"], row["offset"]) for row in rows] == [
        ("fetcher", 2, 7),
        ("fetcher", 1, 8),
    ]
    for row, leader in zip(rows, leaders, strict=True):
        assert leader in str(row["line"])


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


def test_of_a_controller_unclean_elections_matter_alone(tmp_path: Path) -> None:
    (tmp_path / "controller.log").write_text(
        "2026-11-21T05:00:01.500Z ERROR Something broke (k)\n"
        "2026-11-21T05:00:02.500Z INFO [QuorumController id=100] UNCLEAN partition change for"
        " events-2 with topic ID x: isr: [] -> [3], leader: -1 -> 3, leaderEpoch: 1 -> 2 (k)\n"
        "2026-11-21T05:00:02.600Z INFO [QuorumController id=100] UNCLEAN partition change for"
        " events-2 with topic ID x: elr: [2] -> [], partitionEpoch: 16 -> 17 (k)\n"
    )
    (row,) = log_lines(tmp_path, "events", started_at_ns=STARTED_NS)
    assert (row["kind"], row["broker"], row["partition"]) == ("unclean", CONTROLLER, 2)
    assert row["time_ns"] == 2_500_000_000


def test_what_several_controllers_tell_is_one_decision(tmp_path: Path) -> None:
    for number, epochs in ((100, "1 -> 2"), (101, "1 -> 2"), (102, "2 -> 3")):
        (tmp_path / f"controller-{number}.log").write_text(
            f"2026-11-21T05:00:0{number - 98}.500Z INFO [QuorumController id={number}] UNCLEAN"
            " partition change for events-2 with topic ID x: isr: [] -> [3], leader: -1 -> 3,"
            f" leaderEpoch: {epochs} (k)\n"
        )
    rows = [*log_lines(tmp_path, "events", started_at_ns=STARTED_NS)]
    assert [row["time_ns"] for row in rows] == [2_500_000_000, 4_500_000_000]


def test_a_broker_that_ends_itself_is_told_of_once(tmp_path: Path) -> None:
    """The words of 0.10.2.2, 0.11.0.2 and 4.3.1."""
    (tmp_path / "broker-1.log").write_text(
        "2026-11-21T05:00:01.000Z ERROR Error while responding to offset request (o.a.k)\n"
        "2026-11-21T05:00:02.000Z FATAL [ReplicaFetcherThread-0-4], Exiting because log truncation"
        " is not allowed for partition events-1-0 (kafka.server.ReplicaFetcherThread)\n"
        "2026-11-21T05:00:03.000Z FATAL Halting Kafka. (kafka.server.KafkaServerStartable)\n"
    )
    (tmp_path / "broker-2.log").write_text(
        "2026-11-21T04:59:59.000Z FATAL Halting Kafka. (kafka.server.KafkaServerStartable)\n"
    )
    (tmp_path / "broker-3.log").write_text(
        "2026-11-21T05:00:01.000Z ERROR Encountered fatal fault: no disk (o.a.k.ProcessTerminating)"
        "\n"
    )
    lines = log_lines(tmp_path, "events-1", started_at_ns=STARTED_NS)
    exiting = "Exiting because log truncation is not allowed for partition events-1-0"
    assert endings(lines) == [
        (
            f"broker 1 logged that it exits: [ReplicaFetcherThread-0-4], {exiting}"
            " (kafka.server.ReplicaFetcherThread)"
        ),
        (
            "broker 3 logged that it exits: "
            "Encountered fatal fault: no disk (o.a.k.ProcessTerminating)"
        ),
    ]


@pytest.mark.parametrize("moved_s", [0, -3600])
def test_the_lines_are_not_recorded_if_the_clock_of_the_observer_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved_s: int
) -> None:
    run, clock = Run(tmp_path), Clock()
    run.logs.mkdir()
    (run.logs / "broker-1.log").write_text(
        "[2026-11-21 05:00:01,000] INFO Truncating log events-0 to offset 3. (kafka.log.Log)\n"
    )
    keeper, recorder = StatusKeeper(run, lambda _: None), Recorder(run, clock)
    now_ns = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: now_ns() + moved_s * 1_000_000_000)
    keeper.phase("frozen")
    runner._seal(Plan(kafka="4.4.0"), run, recorder, clock, keeper)
    assert run.table("events/log_lines").num_rows == (0 if moved_s else 1)
    assert run.status().clock_step_s == pytest.approx(moved_s, abs=1)
    assert not run.status().problems
