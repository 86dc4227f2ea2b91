"""What the model says of a random run: what was found in it follows from the rules, or not."""

from pathlib import Path
from random import Random
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.checkers.disks.time_lookups import LAST_OF_BATCH
from highwater.checkers.explain.reconcile import as_random
from highwater.harness.runs.history import LOG_LINES, record_value
from highwater.harness.runs.plan import Topic, Workload
from tests.histories.failover import failover
from tests.support import logdirs
from tests.support.explained import anomaly, finding, findings
from tests.support.judged import anomalies, verdict
from tests.support.run_builder import RunBuilder

M0123 = [(0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2"), (3, 0, "m3")]


def in_sync(run: RunBuilder) -> RunBuilder:
    """Broker 1 leads, and every replica was seen to hold one record."""
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(0, 0, "p0-0")])
    run.observe_all(1)
    return run


def wrong_traces(run: RunBuilder) -> list[str]:
    """The last rule of each finding about what brokers did, in a run without an anomaly."""
    return [one.because[-1].rule for one in findings(run) if one.kind == "trace"]


@pytest.mark.parametrize(
    ("last", "said"), [(2, ("explained", "elr")), (3, ("unexplained", "none"))], ids=["it", "not"]
)
def test_who_led_last_may_lead_again_when_nobody_is_in_sync(
    tmp_path: Path, last: int, said: tuple[str, str]
) -> None:
    run = failover(tmp_path / "run", Random(1), kafka="4.3.1")  # noqa: S311 - not for secrets
    elected = run.table("events/partitions").to_pylist()[1]
    line = (
        "UNCLEAN partition change for events-0 with topic ID x: isr: [] -> [2], leader: -1 -> 2,"
        f" leaderEpoch: 0 -> 1, lastKnownElr: [{last}] -> [], partitionEpoch: 4 -> 5"
    )
    row = {"time_ns": elected["time_ns"], "broker": 100, "kind": "unclean", "topic": "events",
           "partition": 0, "offset": None, "line": line}  # fmt: skip
    rows = [*run.table("events/log_lines").to_pylist(), row]
    pq.write_table(pa.Table.from_pylist(rows, LOG_LINES), run.parquet("events/log_lines"))
    done = run.table("history/ops").to_pylist()
    read = {each["value"] for each in done if each["phase"] == "final"}
    gone = [each for each in done if each["kind"] == "send" and each["value"] not in read]
    anomalies(
        run,
        *(
            {"kind": "lost-write", "topic": "events", "acks": "1", "partition": 0}
            | {name: each[name] for name in ("offset", "value")}
            for each in gone
        ),
    )
    found = as_random(run, verdict(kafka="4.3.1"))
    assert gone
    assert {(one.verdict, one.because[-1].rule) for one in found.findings} == {said}


@pytest.mark.parametrize(
    ("kafka", "min_isr", "wrong"), [("4.3.1", 2, 0), ("4.3.1", 1, 1), ("3.9.2", 2, 1)]
)
def test_while_the_isr_is_too_small_somebody_eligible_may_lead(
    tmp_path: Path, kafka: str, min_isr: int, wrong: int
) -> None:
    """The leader's death and the election may be one decision, so that no ISR of none is seen."""
    run = RunBuilder(tmp_path / "run", kafka=kafka, topic=Topic(min_insync_replicas=min_isr))
    for leader, epoch, isr in ((1, 0, [1, 2, 3]), (1, 0, [1]), (3, 1, [3])):
        run.leader(leader, epoch, isr)
        run.tick(5_000)
    run.everywhere(M0123)
    assert wrong_traces(run).count("elections") == wrong


@pytest.mark.parametrize(
    ("client", "error", "partition", "word"),
    [
        ("java:3.9.0", "TimeoutException", 0, "explained"),
        ("java:3.9.2", "TimeoutException", 0, "unexplained"),
        ("librdkafka", "_MSG_TIMED_OUT", 0, "unexplained"),
        ("java:3.9.0", "NotEnoughReplicasException", 0, "unexplained"),
        ("java:3.9.0", "TimeoutException", 1, "unexplained"),
    ],
)
def test_a_record_that_nobody_sent_was_in_the_buffer_of_an_expired_batch(
    tmp_path: Path, client: str, error: str, partition: int, word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="3.9.2", client=client)
    run.leader(1, 0, [1, 2, 3])
    run.send("m3", None, outcome="info", process="writer")
    run.rows["history/ops"][-1] |= {"error": error, "partition": partition}
    run.read("other", 0)
    run.disk((1, 2, 3), [(0, 0, "other")])
    found = findings(run, anomaly(run, "phantom", offset=0, value="other"))
    assert [each.verdict for each in found if each.kind == "phantom"] == [word]
    assert any("No producer sent" in each.because[0].says for each in found) is (
        word != "explained"
    )


@pytest.mark.parametrize(
    ("fault", "word"), [("controller-disk-loss", "explained"), ("controller-kill", "unexplained")]
)
def test_a_decision_is_lost_with_a_controller_s_disk(tmp_path: Path, fault: str, word: str) -> None:
    run = in_sync(RunBuilder(tmp_path / "run", kafka="4.4.0"))
    run.fault(fault, None, "the KRaft controller is killed")
    found = finding(run, "lost-decision", partition=None, value="topic events was created")
    assert found.verdict == word
    if word == "explained":
        assert [(link.rule, link.broker) for link in found.because] == [(fault, None)]


@pytest.mark.parametrize(
    ("kafka", "note", "word"),
    [
        ("3.7.2", LAST_OF_BATCH, "explained"),
        ("3.9.0", LAST_OF_BATCH, "unexplained"),
        ("2.8.2", LAST_OF_BATCH, "unexplained"),
        ("3.7.2", "another record", "unexplained"),
    ],
)
def test_a_batch_s_last_record_is_returned_for_the_largest_timestamp(
    tmp_path: Path, kafka: str, note: str, word: str
) -> None:
    run = in_sync(RunBuilder(tmp_path / "run", kafka=kafka))
    copy = {"broker": 1, "partition": 0, "offset": 2, "note": f"it returned offset 2, {note}."}
    found = finding(run, "wrong-lookup", offset=2, value=None, copies=[copy])
    assert found.verdict == word
    if word == "explained":
        assert [(link.rule, link.broker) for link in found.because] == [("KAFKA-16310", 1)]


@pytest.mark.parametrize(("struck", "wrong"), [(1, False), (3, True), (None, True)])
def test_what_a_leader_had_committed_before_it_lost_its_power_says_nothing(
    tmp_path: Path, struck: int | None, wrong: bool
) -> None:
    """Of a power failure of 4.4.0, whose leader was not seen between its election and the join."""
    run = RunBuilder(tmp_path / "run", kafka="4.4.0")
    run.leader(1, 1, [1])
    run.everywhere(M0123[:3])
    run.observe(1, 4)
    run.tick(3_000)
    if struck is not None:
        run.fault("power-failure", struck, "lost its power: events-0 lost 3 up to 4")
        run.rows["events/faults"][-1]["removed"] = [
            {"topic": "events", "partition": 0, "first": 3, "end": 4}
        ]
        run.tick(2_000)
        run.fault("power-failure", struck, "healed", phase="heal")
    run.leader(1, 2, [1])
    run.tick(500)
    run.leader(1, 2, [1, 2])
    run.observe(2, 3)
    run.tick(2_000)
    run.observe(2, 3)
    because = {link.rule for each in findings(run) for link in each.because}
    assert ("isr" in because) == wrong


@pytest.mark.parametrize(
    ("kafka", "api", "wiped", "wrong"),
    [
        ("3.9.2-zk", "AlterPartition", 3, False),
        ("3.9.2-zk", "AlterPartition", 2, True),
        ("3.9.2-zk", "Fetch", 3, True),
        ("3.9.2", "AlterPartition", 3, True),
        ("3.3.2", "AlterPartition", 3, False),
        ("3.4.1", "AlterPartition", 3, False),
        ("3.6.2", "AlterPartition", 3, True),
        ("3.7.2", "AlterPartition", 3, True),
        ("4.4.0", "AlterPartition", 3, True),
    ],
)
def test_before_kip_903_an_emptied_replica_may_join_by_a_late_request(
    tmp_path: Path, kafka: str, api: str, wiped: int, wrong: bool
) -> None:
    run = RunBuilder(tmp_path / "run", kafka=kafka)
    run.leader(1, 0, [1, 2])
    run.everywhere(M0123)
    run.observe_all(4)
    run.tick(100)
    run.fault("wipe", wiped, "the disk is empty: events-0 lost 0 up to 4")
    run.rows["events/faults"][-1]["removed"] = [
        {"topic": "events", "partition": 0, "first": 0, "end": 4}
    ]
    run.tick(5_000)
    run.fault("wipe", wiped, "healed", phase="heal")
    run.observe(3, 0, 0)
    run.tick(2_000)
    run.message(api, "broker-1")
    run.tick(5)
    run.leader(1, 0, [1, 2, 3])
    run.tick(2_000)
    run.observe(3, 0, 0)
    because = {link.rule for each in findings(run) for link in each.because}
    assert ("isr" in because) == wrong


@pytest.mark.parametrize(
    ("followed", "then_ms", "next_one", "word"),
    [
        (True, 0, "kept", "explained"),
        (True, 5_000, "kept", "unexplained"),
        (True, 5_000, "gone", "explained"),
        (True, 20_000, "gone", "unexplained"),
        (False, 0, "kept", "unexplained"),
    ],
)
def test_with_acks_0_what_is_under_way_may_go_with_its_client(
    tmp_path: Path, followed: bool, then_ms: int, next_one: str, word: str
) -> None:
    """A busy broker leaves more unread, up to the client's last record."""
    run = RunBuilder(tmp_path / "run", workload=Workload(acks="0"))
    run.leader(1, 0, [1, 2, 3])
    run.tick(5_000)
    run.send("gone", None)
    run.tick(then_ms)
    run.send("kept", None)
    run.send("later", None, process="producer-0.1" if followed else "producer-1")
    read = ["kept", "later"] if next_one == "kept" else ["later"]
    run.disk((1, 2, 3), [(offset, 0, value) for offset, value in enumerate(read)])
    assert finding(run, "lost-write", value="gone").verdict == word


@pytest.mark.parametrize(
    ("follows", "word"), [(2, "explained"), (3, "unexplained"), (None, "unexplained")]
)
def test_a_leader_begins_no_later_than_another_broker_follows_it(
    tmp_path: Path, follows: int | None, word: str
) -> None:
    """An upgrade of 0.10.2.2, which logs no begin: ten records were appended before it was seen."""
    run = RunBuilder(tmp_path / "run", kafka="0.10.2.2", workload=Workload(acks="1"))
    run.leader(1, 0, [1, 2, 3])
    run.observe(2, 3)
    run.tick(8_000)
    run.send("gone", 3)
    run.tick(20)
    if follows is not None:
        added = "Added fetcher for [events-0, initOffset 3 to broker BrokerEndPoint({},127.0.0.1,"
        run.log_line(1, "fetcher", added.format(follows), offset=3)
    run.tick(200)
    run.observe(2, 6)
    run.tick(20)
    run.leader(2, 1, [1, 2, 3])
    run.everywhere([*M0123[:3], (3, 1, "m4"), (4, 1, "m5"), (5, 1, "m6")])
    assert finding(run, "lost-write", offset=3, value="gone").verdict == word


@pytest.mark.parametrize(
    ("leo", "then", "begins", "word"),
    [
        (3, 3, 2, "explained"),
        (3, 3, 3, "explained"),
        (3, 4, 3, "explained"),
        (3, 5, 4, "explained"),
        (3, 4, 4, "unexplained"),
        (3, 4, -1, "unexplained"),
    ],
)
def test_with_acks_0_what_a_leader_wrote_goes_when_a_shorter_log_leads_later(
    tmp_path: Path, leo: int, then: int, begins: int, word: str
) -> None:
    """A soak of 3.7.2: the election was unclean, and 12 s later."""
    topic = Topic(unclean_leader_election=True)
    run = RunBuilder(tmp_path / "run", topic=topic, workload=Workload(acks="0"))
    run.leader(1, 0, [1, 2, 3])
    run.observe(1, leo)
    run.tick(8_000)
    run.send("gone", None)
    run.tick(100)
    run.observe(1, then)
    run.tick(12_000)
    if begins >= 0:
        said = f"Leader events-0 starts at leader epoch 1 from offset {begins}"
        run.log_line(2, "leader", said, offset=begins)
        run.leader(2, 1, [2])
        run.tick(8_000)
    run.send("later", None)
    run.disk((1, 2, 3), M0123[:begins] if begins >= 0 else M0123[:leo])
    assert finding(run, "lost-write", value="gone").verdict == word


@pytest.mark.parametrize(
    ("decision", "then", "wrong"), [(7, [], 0), (6, [], 1), (7, [3], 1), (7, [3, 1], 0)]
)
def test_a_leader_may_have_joined_by_a_decision_of_which_no_broker_heard(
    tmp_path: Path, decision: int, then: list[int], wrong: int
) -> None:
    """Numbered 5 is the last that was said; a decision that was seen, a smaller ISR, is no such.

    The same ISR may be seen twice: an upgrade from 3.9.2 to 4.2.1 on a busy machine.
    """
    run = RunBuilder(tmp_path / "run", kafka="4.3.1")
    run.leader(1, 0, [1, 2, 3])
    run.tick(5_000)
    run.leader(3, 1, [1, 3])
    said = "[Partition events-0 broker=3] ISR updated to 3,1  and version updated to 5"
    run.log_line(3, "isr", said)
    run.tick(5_000)
    if then:
        run.leader(3, 1, then)
        run.tick(5_000)
    begins = (
        f"Leader events-0 starts at leader epoch 2 from offset 4 with partition epoch {decision}"
    )
    run.log_line(2, "leader", begins, offset=4)
    run.leader(2, 2, [1, 2])
    run.everywhere(M0123)
    assert wrong_traces(run).count("elections") == wrong


@pytest.mark.parametrize(("moved_s", "word"), [(4, "explained"), (None, "unexplained")])
@pytest.mark.parametrize("begin_s", [1, 20])
def test_a_record_stands_twice_after_a_change_of_leader_also_at_a_run_s_begin(
    tmp_path: Path, begin_s: int, moved_s: int | None, word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="2.8.2")
    run.leader(1, 0, [1, 2, 3])
    run.tick(begin_s * 1000)
    if moved_s:
        run.leader(2, 1, [1, 2, 3])
    run.everywhere([(0, 0, "p0-0")])
    run.disk([1, 2, 3], [(1, 0, "p0-0")])
    run.read("p0-0", 1)
    assert finding(run, "duplicate", value="p0-0").verdict == word


@pytest.mark.parametrize(
    ("fault", "client", "word"),
    [
        ("misroute-client", "producer-0", "explained"),
        ("lose-answers", "producer-0", "explained"),
        ("slow-client", "producer-0", "unexplained"),
        ("misroute-client", "producer-01", "unexplained"),
    ],
)
def test_a_record_stands_twice_when_a_fault_kept_responses_from_its_client(
    tmp_path: Path, fault: str, client: str, word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0")
    run.leader(1, 0, [1, 2, 3])
    run.tick(20_000)
    run.fault(fault, None, f"connections of {client} to broker 1 reach broker 2")
    run.tick(5_000)
    run.everywhere([(0, 0, "p0-0"), (1, 0, "p0-0")])
    run.fault(fault, None, "the client is healed", phase="heal")
    assert finding(run, "duplicate", value="p0-0").verdict == word


@pytest.mark.parametrize(
    ("moved", "idempotence", "word"),
    [
        (True, False, "explained"),
        (False, False, "unexplained"),
        (True, True, "unexplained"),
    ],
)
def test_a_record_stands_behind_a_later_one_when_its_first_attempt_was_refused(
    tmp_path: Path, moved: bool, idempotence: bool, word: str
) -> None:
    work = Workload(idempotence=idempotence)
    run = RunBuilder(tmp_path / "run", kafka="3.9.2", workload=work)
    run.leader(1, 0, [1, 2, 3])
    run.tick(20_000)
    if moved:
        run.leader(2, 1, [1, 2, 3])
    steps = [
        {"process": "p0", "outcome": "ok", "invoke_ns": at, "complete_ns": at + 50, "value": value}
        for at, value in ((run.now_ns, "p0-0"), (run.now_ns + 10, "p0-1"))
    ]
    run.everywhere([(0, 1, "p0-1"), (1, 1, "p0-0")])
    assert finding(run, "nonmonotonic-send", value="p0-1", steps=steps).verdict == word


@pytest.mark.parametrize(
    ("kafka", "stays_ms", "idempotence", "word"),
    [
        ("0.10.2.2", 0, False, "explained"),
        ("0.10.2.2", 3_000, False, "unexplained"),
        ("0.10.0.1", 0, False, "unexplained"),
        ("0.11.0.2", 0, False, "unexplained"),
        ("0.10.2.2", 0, True, "unexplained"),
    ],
    ids=["left", "stayed", "before KAFKA-3703", "since KAFKA-5587", "idempotent"],
)
def test_a_broker_of_0_10_2_may_swap_the_last_requests_of_a_client_that_left(
    tmp_path: Path, kafka: str, stays_ms: int, idempotence: bool, word: str
) -> None:
    """A soak of 0.10.2.2, in which producers were replaced every five seconds."""
    work = Workload(acks="0", idempotence=idempotence)
    run = RunBuilder(tmp_path / "run", kafka=kafka, workload=work)
    run.leader(1, 0, [1, 2, 3])
    run.tick(20_000)
    run.send("p0-0", None)
    run.send("p0-1", None)
    run.tick(stays_ms)
    run.send("p0-2", None)
    run.tick(20_000)
    run.send("p0-3", None, process="producer-0.1")
    run.disk((1, 2, 3), [(0, 0, "p0-1"), (1, 0, "p0-0"), (2, 0, "p0-2"), (3, 0, "p0-3")])
    steps = [
        {"process": "producer-0", "outcome": "ok", "invoke_ns": 20_001_000_000 + 5_000_000 * at,
         "complete_ns": 20_005_000_000 + 5_000_000 * at, "value": f"p0-{at}"}
        for at in (0, 1)
    ]  # fmt: skip
    said = finding(run, "nonmonotonic-send", value="p0-1", steps=steps)
    assert said.verdict == word
    assert ([link.rule for link in said.because] == ["connection-end"]) is (word == "explained")


@pytest.mark.parametrize(
    ("given_up", "word"),
    [("14:13:45", "explained"), ("14:13:39", "unexplained"), ("14:13:51", "unexplained")],
    ids=["between", "before", "after"],
)
@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("clients.log", "{}.000 REQTMOUT [producer-0#producer-1] Timed out 1 in-flight"),
        (
            "java-clients.log",
            "2026-01-01T{}.000Z INFO [Producer clientId=producer-0] Disconnecting from node 1 due",
        ),
        (
            "java-clients.log",
            "2026-01-01T{}.000Z INFO [Producer clientId=producer-0, x=t] Node 1 disconnected.",
        ),
    ],
    ids=["librdkafka", "java", "java-transactional"],
)
def test_a_request_that_waited_at_its_broker_may_be_overtaken_on_the_next_connection(
    tmp_path: Path, log: str, line: str, given_up: str, word: str
) -> None:
    """A soak of 3.3.2 on a busy machine: with acks=0 no client waits for a broker."""
    run = RunBuilder(tmp_path / "run", kafka="3.3.2", workload=Workload(acks="0"))
    run.leader(1, 0, [1, 2, 3])
    run.tick(20_000)
    run.send("p0-0", None)
    run.tick(10_000)
    run.send("p0-1", None)
    run.disk((1, 2, 3), [(0, 0, "p0-1"), (1, 0, "p0-0")])
    steps = [
        {"process": "producer-0", "outcome": "ok", "invoke_ns": at, "complete_ns": at + 1_000_000,
         "value": value}
        for at, value in ((20_001_000_000, "p0-0"), (30_006_000_000, "p0-1"))
    ]  # fmt: skip
    row = {"kind": "nonmonotonic-send", "topic": "events", "partition": 0, "value": "p0-1"}
    built = run.write()  # a run that began at 14:13:20
    anomalies(built, row | {"steps": steps})
    built.logs.mkdir(exist_ok=True)
    (built.logs / log).write_text(f"{line.format(given_up)}\n", encoding="utf-8")
    found = as_random(built, verdict(kafka="3.3.2")).findings
    [said] = [one for one in found if one.kind == "nonmonotonic-send"]
    assert said.verdict == word
    assert ([link.rule for link in said.because] == ["connection-end"]) is (word == "explained")


@pytest.mark.parametrize(
    ("epochs", "word"), [((1, 2), "explained"), ((1, 1), "unexplained")], ids=["new", "same"]
)
def test_an_idempotent_producer_in_a_new_epoch_is_not_known_again(
    tmp_path: Path, epochs: tuple[int, int], word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="3.3.2", workload=Workload(idempotence=True))
    run.leader(1, 0, [1, 2, 3])
    run.tick(5_000)
    run.fault("pause", 1, "broker 1 is paused")
    run.send("p0-0", None, outcome="info")
    run.tick(5_000)
    run.fault("pause", 1, "broker 1 is healed", phase="heal")
    twice = [
        logdirs.batch(offset, [(None, b"p0-0|")], producer=(5, epoch, 0))
        for offset, epoch in enumerate(epochs)
    ]
    for broker in (1, 2, 3):
        run.disks[broker, 0] = twice
    assert finding(run, "duplicate", value="p0-0").verdict == word


Number = tuple[int, int, int]
DRIVER = "./my-driver"
NUMBERS = [
    pytest.param(DRIVER, (7, 0, 4), (7, 0, 5), "explained", id="anew"),
    pytest.param(DRIVER, (-1, -1, -1), (-1, -1, -1), "explained", id="without a number"),
    pytest.param("librdkafka", (7, 0, 4), (7, 0, 5), "unexplained", id="known client"),
]


def numbered(path: Path, client: str, *records: tuple[str, Number]) -> RunBuilder:
    """A run of idempotent producers, with records on all disks in this order."""
    work = Workload(idempotence=True)
    run = RunBuilder(path / "run", kafka="4.4.0", client=client, workload=work)
    run.leader(1, 0, [1, 2, 3])
    run.tick(5_000)
    run.send(records[0][0], 0)
    for broker in (1, 2, 3):
        run.disks[broker, 0] = [
            logdirs.batch(offset, [(None, record_value(name, 32))], producer=number)
            for offset, (name, number) in enumerate(records)
        ]
    return run


def word_on_their_order(run: RunBuilder, later_ns: int = 10) -> str:
    """The model's word about p0-0, which was sent before p0-1, and stands behind it."""
    steps = [
        {"process": "p0", "outcome": "ok", "invoke_ns": at, "complete_ns": at + 50, "value": name}
        for at, name in ((run.now_ns, "p0-0"), (run.now_ns + later_ns, "p0-1"))
    ]
    return finding(run, "nonmonotonic-send", value="p0-1", steps=steps).verdict


@pytest.mark.parametrize(
    ("client", "first", "again", "word"),
    [*NUMBERS, pytest.param(DRIVER, (7, 0, 4), (7, 0, 4), "unexplained", id="same number")],
)
def test_a_record_that_a_driver_s_library_numbered_anew_is_no_broker_s_duplicate(
    tmp_path: Path, client: str, first: Number, again: Number, word: str
) -> None:
    run = numbered(tmp_path, client, ("p0-0", first), ("p0-0", again))
    assert finding(run, "duplicate", value="p0-0").verdict == word


@pytest.mark.parametrize(
    ("client", "first", "second", "word"),
    [
        *NUMBERS,
        pytest.param(DRIVER, (7, 0, 4), (8, 0, 0), "explained", id="another producer id"),
        pytest.param(DRIVER, (7, 0, 4), (7, 1, 0), "explained", id="a later epoch"),
        pytest.param(DRIVER, (7, 0, 5), (7, 0, 4), "unexplained", id="not in its order"),
    ],
)
def test_records_in_the_order_of_a_driver_s_numbers_are_no_broker_s_fault(
    tmp_path: Path, client: str, first: Number, second: Number, word: str
) -> None:
    run = numbered(tmp_path, client, ("p0-1", first), ("p0-0", second))
    assert word_on_their_order(run) == word


@pytest.mark.parametrize(
    ("client", "idempotence", "moved_ms", "word"),
    [
        pytest.param(DRIVER, False, 100, "explained", id="while it was on its way"),
        pytest.param(DRIVER, False, -100, "explained", id="seen just after the answer"),
        pytest.param(DRIVER, False, -5_000, "unexplained", id="after the answer"),
        pytest.param(DRIVER, False, 20_000, "unexplained", id="long before"),
        pytest.param(DRIVER, True, 100, "unexplained", id="idempotent"),
        pytest.param("librdkafka", False, 100, "unexplained", id="known client"),
    ],
)
def test_a_driver_may_send_again_when_another_partition_has_a_new_leader(
    tmp_path: Path, client: str, idempotence: bool, moved_ms: int, word: str
) -> None:
    topic, work = Topic(partitions=2), Workload(idempotence=idempotence)
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", client=client, workload=work, topic=topic)
    run.leader(1, 0, [1, 2, 3])
    run.leader(2, 0, [2, 3, 1], partition=1)
    run.tick(30_000)
    run.rows["events/partitions"] += [
        row | {"time_ns": run.now_ns - moved_ms * 1_000_000, "leader": 3, "leader_epoch": 1}
        for row in run.rows["events/partitions"][1:]
    ]
    run.send("p0-0", 0)
    number = (7, 0, 0) if idempotence else (-1, -1, -1)
    for broker in (1, 2, 3):
        run.disks[broker, 0] = [
            logdirs.batch(offset, [(None, record_value("p0-0", 32))], producer=number)
            for offset in (0, 1)
        ]
    assert finding(run, "duplicate", value="p0-0").verdict == word


@pytest.mark.parametrize(
    ("client", "later_ns", "word"),
    [
        pytest.param(DRIVER, 10, "explained", id="before the answer"),
        pytest.param(DRIVER, 60, "unexplained", id="after the answer"),
        pytest.param("librdkafka", 10, "unexplained", id="known client"),
    ],
)
def test_a_driver_that_numbers_nothing_keeps_no_order_of_sends_in_flight(
    tmp_path: Path, client: str, later_ns: int, word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", client=client, workload=Workload())
    run.leader(1, 0, [1, 2, 3])
    run.tick(5_000)
    run.send("p0-1", 0)
    run.send("p0-0", 1)
    assert word_on_their_order(run, later_ns) == word


def test_the_second_copy_of_a_record_may_stand_behind_later_records(tmp_path: Path) -> None:
    numbers = (("p0-0", (7, 0, 4)), ("p0-1", (7, 0, 5)), ("p0-0", (7, 0, 6)))
    assert word_on_their_order(numbered(tmp_path, DRIVER, *numbers)) == "explained"


@pytest.mark.parametrize(
    ("client", "number", "earlier", "process", "word"),
    [
        pytest.param(DRIVER, (7, 0, 4), True, "p0", "explained", id="as another"),
        pytest.param(DRIVER, (-1, -1, -1), True, "p0", "unexplained", id="without a number"),
        pytest.param(DRIVER, (7, 0, 4), False, "p0", "unexplained", id="of a later one"),
        pytest.param(DRIVER, (7, 0, 4), True, "p1", "unexplained", id="another producer"),
        pytest.param("librdkafka", (7, 0, 4), True, "p0", "unexplained", id="known client"),
    ],
)
def test_a_record_that_was_answered_with_the_offset_of_an_earlier_one_was_taken_for_that(
    tmp_path: Path, client: str, number: Number, earlier: bool, process: str, word: str
) -> None:
    run = numbered(tmp_path, client, ("p0-9", number))
    [send] = run.rows["history/ops"]
    send["process"] = "p0"
    run.tick(100 if earlier else -100)
    run.send("p0-5", 0, process=process)
    assert finding(run, "lost-write", value="p0-5", offset=0).verdict == word


@pytest.mark.parametrize(
    ("client", "number", "process", "word"),
    [
        pytest.param(DRIVER, (7, 0, 5), "p0", "explained", id="as another"),
        pytest.param(DRIVER, (-1, -1, -1), "p0", "unexplained", id="without a number"),
        pytest.param(DRIVER, (7, 0, 5), "p1", "unexplained", id="another producer"),
        pytest.param("librdkafka", (7, 0, 5), "p0", "unexplained", id="known client"),
    ],
)
def test_a_copy_may_be_answered_with_the_offset_of_the_record_that_it_is_taken_for(
    tmp_path: Path, client: str, number: Number, process: str, word: str
) -> None:
    run = numbered(tmp_path, client, ("p0-0", (7, 0, 4)), ("p0-1", number))
    run.send("p0-1", 1, process=process)
    steps = [
        {
            "process": "p0", "kind": "send", "outcome": "ok", "invoke_ns": run.now_ns,
            "complete_ns": run.now_ns + 50, "partition": 0, "offset": 1, "value": "p0-0",
        },
        {"process": "consumer-0", "kind": "read", "offset": 1, "value": "p0-1"},
    ]  # fmt: skip
    assert finding(run, "inconsistent-offsets", offset=1, steps=steps).verdict == word


@pytest.mark.parametrize(
    ("magic", "cut", "words"),
    [(1, 2, {"explained"}), (1, 3, {"unexplained"}), (2, 2, {"unexplained"})],
)
def test_sets_of_before_0_11_may_overlap_where_a_follower_was_cut(
    tmp_path: Path, magic: int, cut: int, words: set[str]
) -> None:
    """Broker 2 holds a set of its own, and fetches on in the midst of one of broker 1's."""
    run = RunBuilder(tmp_path / "run", kafka="0.10.2.2", workload=Workload(compression="gzip"))
    run.leader(1, 0, [1, 2, 3])
    for value in ("p0-0", "p0-1", "p0-2", "p0-3"):
        run.send(value, None, outcome="info")
    run.log_line(2, "truncation", f"Truncating log to offset {cut}.", offset=cut)
    sets = [
        logdirs.batch(base, [(None, f"{one}|".encode()) for one in values], codec=1, magic=magic)
        for base, values in ((0, ["p0-0", "p0-1"]), (1, ["p0-2", "p0-3"]))
    ]
    run.disks[2, 0] = sets
    note = "its offsets do not fit between its neighbours'"
    copy = {"broker": 2, "partition": 0, "offset": 2, "note": note}
    found = findings(run, anomaly(run, "corrupt", offset=2, copies=[copy]))
    assert {one.verdict for one in found if one.kind in {"corrupt", "books"}} == words


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("followed_s", "word"), [(9.0, "explained"), (5.0, "unexplained"), (None, "unexplained")]
)
def test_who_leads_no_more_may_answer_until_it_follows(
    tmp_path: Path, followed_s: float | None, word: str, again: bool
) -> None:
    """Broker 1 sleeps for 3 s; broker 2 is elected meanwhile; 1 answers with acks=1 5 s later."""
    run = RunBuilder(tmp_path / "run", kafka="0.10.2.2", workload=Workload(acks="1"))
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(0, 0, "p0-0")])
    run.tick(1_000)
    run.fault("pause", 1, "broker 1 is paused")
    run.observe_all(1)
    run.tick(1_500)
    run.leader(2, 1, [2, 3])
    run.tick(500)
    if again:
        run.leader(2, 2, [2])
    run.tick(1_000)
    run.fault("pause", 1, "broker 1 is healed", phase="heal")
    run.now_ns = int(8e9)
    run.send("p0-1", 1)
    if followed_s:
        run.now_ns = int(followed_s * 1e9)
        run.log_line(1, "truncation", "Truncating log to offset 1.", offset=1)
    assert finding(run, "lost-write", offset=1, value="p0-1").verdict == word


@pytest.mark.parametrize(
    ("says", "word"),
    [
        ("broker 1 lost its power: events-0 lost 1 up to 2", "explained"),
        ("broker 1 lost its power: all its records had been flushed", "unexplained"),
    ],
)
def test_who_lost_its_power_begins_to_lead_with_what_is_left(
    tmp_path: Path, says: str, word: str
) -> None:
    """To 0.10.2 no broker writes where it begins, and its last LEO was seen before the fault."""
    run = RunBuilder(tmp_path / "run", kafka="0.10.2.2", workload=Workload(acks="all"))
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(0, 0, "p0-0")])
    run.send("p0-1", 1)
    run.observe_all(2)
    run.tick(2_000)
    run.leader(1, 0, [1])
    run.tick(2_000)
    run.fault("power-failure", 1, says)
    run.leader(-1, 1, [1])
    run.tick(2_000)
    run.fault("power-failure", 1, "broker 1 is healed", phase="heal")
    run.leader(1, 2, [1])
    run.send("p0-2", 1)
    run.observe(1, 2)
    run.disk([1, 2, 3], [(1, 2, "p0-2")])
    assert finding(run, "lost-write", offset=1, value="p0-1").verdict == word


@pytest.mark.parametrize(("cut_ms", "word"), [(2_000, "explained"), (None, "unexplained")])
def test_who_appended_it_may_lead_again_without_it_after_a_cut(
    tmp_path: Path, cut_ms: int | None, word: str
) -> None:
    """Broker 1 appends, follows, is cut, and is elected by itself; to 0.10.2 it says not where."""
    run = RunBuilder(
        tmp_path / "run",
        kafka="0.10.0.1",
        workload=Workload(acks="1"),
        topic=Topic(unclean_leader_election=True),
    )
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(0, 0, "p0-0")])
    run.send("p0-1", 1)
    run.observe_all(2)
    run.tick(1_000)
    run.leader(2, 1, [1, 2, 3])
    if cut_ms:
        run.tick(cut_ms)
        run.log_line(1, "truncation", "Truncating log to offset 1.", offset=1)
    run.tick(3_000)
    run.observe(1, 1)
    run.leader(1, 2, [1])
    run.tick(1_000)
    run.send("p0-2", 1)
    run.disk([1, 2, 3], [(1, 2, "p0-2")])
    assert finding(run, "lost-write", offset=1, value="p0-1").verdict == word


@pytest.mark.parametrize(("heard_s", "word"), [(9.0, "explained"), (5.0, "unexplained")])
def test_who_leads_no_more_takes_records_of_acks_0_until_it_hears(
    tmp_path: Path, heard_s: float, word: str
) -> None:
    """Broker 2 is elected at 2 s; a record is sent at 8 s; nobody tells its producer of it."""
    run = in_sync(RunBuilder(tmp_path / "run", kafka="1.1.1", workload=Workload(acks="0")))
    run.now_ns = int(2e9)
    run.leader(2, 1, [2, 3])
    run.log_line(2, "leader", "events-0 starts at Leader Epoch 1 from offset 1.", offset=1)
    run.now_ns = int(8e9)
    run.send("p0-1", None)
    run.now_ns = int(heard_s * 1e9)
    run.log_line(1, "fetcher", "Added fetcher for events-0, initOffset 1 to broker 2", offset=1)
    run.disk([1, 2, 3], [(1, 0, "p0-2")])
    assert finding(run, "lost-write", value="p0-1").verdict == word


@pytest.mark.parametrize(
    ("died", "seen", "wrong"), [(True, False, 0), (True, True, 1), (False, False, 1)]
)
def test_who_was_killed_between_its_cut_and_its_first_fetch_followed_nobody(
    tmp_path: Path, died: bool, seen: bool, wrong: int
) -> None:
    run = in_sync(RunBuilder(tmp_path / "run", kafka="0.9.0.1"))
    run.tick(5_000)
    run.log_line(2, "truncation", "Truncating log events-0 to offset 1.", offset=1)
    run.tick(3_000)
    if seen:
        run.observe(2, 1)
    run.tick(2_000)
    if died:
        run.log_line(2, "start", "[Kafka Server 2], started")
    run.log_line(2, "truncation", "Truncating log events-0 to offset 1.", offset=1)
    run.log_line(2, "fetcher", "Added fetcher for partitions [events,0], initOffset 1", offset=1)
    assert len(wrong_traces(run)) == wrong


@pytest.mark.parametrize(("made", "wrong"), [(True, 0), (False, 1)])
def test_a_replica_that_is_made_anew_has_no_hw(tmp_path: Path, made: bool, wrong: int) -> None:
    """It was taken away, and comes again; to 0.10.2 a follower cuts its log to its own HW."""
    run = in_sync(RunBuilder(tmp_path / "run", kafka="0.10.2.2"))
    run.tick(5_000)
    if made:
        run.log_line(2, "created", "Created log for partition [events,0] in /data/events-0 with")
    run.log_line(2, "truncation", "Truncating log events-0 to offset 0.", offset=0)
    run.log_line(2, "fetcher", "Added fetcher for partitions [events,0], initOffset 0", offset=0)
    assert len(wrong_traces(run)) == wrong


@pytest.mark.parametrize(("seen", "wrong"), [((3,), 0), ((3, 4), 1)])
def test_who_starts_again_may_hold_more_than_was_seen_before(
    tmp_path: Path, seen: tuple[int, ...], wrong: int
) -> None:
    """Broker 1 wrote two more before it ended; it asks its leader while its log does not grow."""
    run = in_sync(RunBuilder(tmp_path / "run", kafka="1.1.1"))
    run.tick(1_000)
    run.leader(2, 1, [2, 3])
    run.log_line(2, "leader", "events-0 starts at Leader Epoch 1 from offset 1.", offset=1)
    run.tick(5_000)
    run.log_line(1, "start", "[KafkaServer id=1] started")
    run.log_line(1, "fetcher", "Added fetcher for events-0, initOffset 1 to broker 2", offset=1)
    for leo in seen:
        run.tick(500)
        run.observe(1, leo)
    run.tick(500)
    run.log_line(1, "truncation", "Truncating to offset 1", offset=1)
    assert len(wrong_traces(run)) == wrong


@pytest.mark.parametrize(("began", "wrong"), [(4, 0), (3, 0), (2, 1)])
def test_who_was_frozen_may_have_written_more_than_was_seen(
    tmp_path: Path, began: int, wrong: int
) -> None:
    """A random run on 4.3.1: a leader, frozen and deposed, takes what waits for it when it wakes.

    Its log was last seen to end at 1; its fetcher begins at 4, and its leader's ended at 3.
    """
    run = in_sync(RunBuilder(tmp_path / "run", kafka="4.3.1"))
    run.tick(6_000)
    run.leader(2, 1, [2])
    run.log_line(2, "leader", "events-0 starts at leader epoch 1 from offset 3", offset=3)
    run.tick(2_000)
    run.log_line(1, "fetcher", "Added fetcher to broker 2 for events-0", offset=began)
    run.tick(400)
    run.log_line(1, "answer", "Truncating partition events-0 with (offset=3", offset=3)
    run.log_line(1, "truncation", "Truncating to offset 3", offset=3)
    assert len(wrong_traces(run)) == wrong


@pytest.mark.parametrize(
    ("own", "word"), [("twice", "explained"), ("other", "unknown")], ids=["twice", "once"]
)
def test_a_replica_may_keep_the_first_of_two_that_its_producer_knows_one_of(
    tmp_path: Path, own: str, word: str
) -> None:
    """A soak of 0.11.0.2: the retry had the answer, and the fork has both."""
    run = RunBuilder(tmp_path / "run", kafka="0.11.0.2")
    run.leader(1, 0, [1, 2, 3])
    run.tick(5_000)
    run.send("twice", 3)
    run.send("other", 4)
    run.tick(5_000)
    run.log_line(2, "leader", "events-0 starts at Leader Epoch 1 from offset 0.", offset=0)
    run.leader(2, 1, [2])
    run.log_line(3, "fetcher", "Added fetcher for [events-0, initOffset 4", offset=4)
    now = [(offset, 1, f"p0-{offset}") for offset in range(4)]
    for offset, _, value in now:
        run.send(value, offset)
    run.disk((1, 2), now)
    run.disk((3,), [now[0], (1, 0, "twice"), now[2], (3, 0, own)])
    found = finding(run, "divergence", offset=1, copies=[{"broker": 3, "value": "twice"}])
    assert found.verdict == "explained" if word == "explained" else found.because[-1].rule == word


@pytest.mark.parametrize(("start", "rule"), [(0, "exact_epochs"), (2, "unknown")])
def test_a_replica_may_keep_what_was_sent_before_anybody_looked(
    tmp_path: Path, start: int, rule: str
) -> None:
    """A fetcher of 0.11.0.2 had ended with "Out of order offsets found", and truncated nothing."""
    run = RunBuilder(tmp_path / "run", kafka="0.11.0.2")
    run.send("early", 1)
    run.leader(1, 0, [1, 2, 3])
    run.tick(10_000)
    line = f"events-0 starts at Leader Epoch 1 from offset {start}."
    run.log_line(2, "leader", line, offset=start)
    run.leader(2, 1, [2])
    run.log_line(3, "fetcher", "Added fetcher for [events-0, initOffset 4", offset=4)
    now = [(offset, 1, f"p0-{offset}") for offset in range(4)]
    for offset, _, value in now:
        run.send(value, offset)
    run.disk((1, 2), now)
    run.disk((3,), [now[0], (1, 0, "early")])
    found = finding(run, "divergence", offset=1, copies=[{"broker": 3, "value": "early"}])
    assert found.because[-1].rule == rule


@pytest.mark.parametrize(("joined", "word"), [(True, "explained"), (False, "unexplained")])
def test_whoever_joined_the_isr_while_nobody_looked_was_elected_from_it(
    tmp_path: Path, *, joined: bool, word: str
) -> None:
    """A soak of 2.4.1: ZooKeeper was away, and the observer blind."""
    run = RunBuilder(tmp_path / "run", kafka="2.4.1", workload=Workload(acks="1"))
    run.leader(1, 0, [1])
    run.tick(5_000)
    if joined:
        run.log_line(1, "isr", "ISR updated to [1,2] and zkVersion updated to [9]")
    run.tick(1_000)
    run.send("gone", 1)
    run.tick(100)
    says = "events-0 starts at leader epoch 1 from offset 1"
    run.log_line(2, "leader", says, offset=1)
    run.leader(2, 1, [2])
    run.everywhere([(0, 0, "p0-0")])
    assert finding(run, "lost-write", value="gone", offset=1).verdict == word


@pytest.mark.parametrize(("decision", "word"), [(14, "explained"), (13, "unexplained")])
def test_whoever_joined_by_an_unobserved_decision_was_elected_from_the_isr(
    tmp_path: Path, decision: int, word: str
) -> None:
    """A soak of 4.0.2: broker 1 was in the ISR for 60 ms, then led (acks=1)."""
    run = RunBuilder(tmp_path / "run", kafka="4.0.2", workload=Workload(acks="1"))
    run.leader(2, 5, [2, 3])
    run.log_line(2, "isr", "[Partition events-0 broker=2] ISR updated to 2,3,1  and version "
                           "updated to 10")  # fmt: skip
    run.tick(5_000)
    run.leader(2, 5, [2])
    run.tick(1_000)
    run.leader(2, 5, [2, 3])
    run.tick(1_000)
    run.send("gone", 1)
    run.tick(100)
    says = f"Leader events-0 starts at leader epoch 6 from offset 1 with partition epoch {decision}"
    run.log_line(1, "leader", says, offset=1)
    run.leader(1, 6, [3, 1])
    run.everywhere([(0, 0, "p0-0")])
    assert finding(run, "lost-write", value="gone", offset=1).verdict == word


@pytest.mark.parametrize(
    ("was", "after_ms", "acks", "word"),
    [
        (1, 3_000, "0", "explained"),
        (2, 3_000, "0", "unexplained"),
        (1, 30_000, "0", "unexplained"),
    ],
    ids=["its leader's", "another's", "long before"],
)
def test_a_broker_hangs_up_on_acks_0_when_it_leads_another_partition_no_more(
    tmp_path: Path, was: int, after_ms: int, acks: Literal["0"], word: str
) -> None:
    """A soak of 0.10.2.2 that moved the leader of the partition beside it."""
    run = RunBuilder(tmp_path / "run", topic=Topic(partitions=2), workload=Workload(acks=acks))
    run.leader(1, 0, [1, 2, 3])
    run.leader(was, 0, [1, 2, 3], partition=1)
    run.tick(20_000)
    run.leader(3, 1, [1, 2, 3], partition=1)
    run.tick(after_ms)
    run.send("gone", None)
    run.tick(20_000)
    run.send("kept", None)
    run.disk((1, 2, 3), [(0, 0, "kept")])
    assert finding(run, "lost-write", value="gone").verdict == word


def _back(path: Path, *, unclean: bool = True) -> RunBuilder:
    """Broker 2 led in epoch 1; then broker 1 led again, with an older fork that is longer."""
    run = RunBuilder(
        path / "run",
        kafka="0.11.0.2",
        topic=Topic(unclean_leader_election=unclean),
        workload=Workload(acks="1"),
    )
    run.leader(1, 0, [1])
    old = [(offset, 0, f"p0-{offset}") for offset in range(4)]
    for offset, _, value in old:
        run.send(value, offset)
    run.tick(8_000)
    run.log_line(2, "leader", "events-0 starts at Leader Epoch 1 from offset 1.", offset=1)
    run.leader(2, 1, [2])
    run.tick(1_000)
    for offset in (1, 2):
        run.send(f"p1-{offset - 1}", offset)
    run.tick(8_000)
    run.log_line(1, "leader", "events-0 starts at Leader Epoch 2 from offset 4.", offset=4)
    run.leader(1, 2, [1])
    run.tick(8_000)
    run.disk((1, 2), old[:1])
    run.disk((1,), old[1:])
    return run


@pytest.mark.parametrize(
    ("unclean", "action", "word"),
    [
        (True, "kill", "explained"),
        (False, "kill", "unexplained"),
        (False, "elect-unclean", "explained"),
    ],
)
def test_who_is_elected_uncleanly_may_have_an_older_fork_that_is_longer(
    tmp_path: Path, *, unclean: bool, action: str, word: str
) -> None:
    """A soak of 0.11.0.2: the leader changed to and fro, each time uncleanly. Or by hand."""
    run = _back(tmp_path, unclean=unclean)
    run.plan = msgspec.structs.replace(run.plan, schedule={"steps": [{"action": action}]})
    assert finding(run, "lost-write", value="p1-1", offset=2).verdict == word


@pytest.mark.parametrize(("cut", "rule"), [(4, "exact_epochs"), (2, "unknown")])
def test_a_follower_may_keep_a_newer_fork_than_its_leader_has(
    tmp_path: Path, cut: int, rule: str
) -> None:
    """Up to 1.1 its leader answers with the end of what came before (KIP-279)."""
    run = _back(tmp_path)
    run.log_line(2, "fetcher", "Added fetcher for [events-0, initOffset 4", offset=4)
    run.log_line(2, "truncation", f"Truncating log events-0 to offset {cut}.", offset=cut)
    run.disk((2,), [(1, 1, "p1-0"), (2, 1, "p1-1"), (3, 1, "p1-2")])
    run.send("p1-2", None, outcome="info")
    found = finding(run, "divergence", offset=2, copies=[{"broker": 2, "value": "p1-1"}])
    assert found.because[-1].rule == rule


@pytest.mark.parametrize(
    ("kafka", "cut", "word"),
    [
        ("0.11.0.2", 3, "explained"),
        ("0.11.0.2", 4, "unexplained"),
        ("2.0.1", 3, "unexplained"),  # a follower asks exactly, and no gap is there
    ],
)
def test_a_cut_in_the_midst_of_a_batch_leaves_a_gap(
    tmp_path: Path, kafka: str, cut: int, word: str
) -> None:
    """A soak of 0.11.0.2: all of the batch goes, and the log's end is where it was to be cut."""
    run = RunBuilder(tmp_path / "run", kafka=kafka)
    run.leader(1, 0, [1, 2, 3])
    run.log_line(2, "truncation", f"Truncating log events-0 to offset {cut}.", offset=cut)
    run.everywhere(M0123[:2])
    for offset, _, value in M0123[2:]:
        run.send(value, offset)
    run.disk((1, 3), M0123[2:])
    run.disk((2,), M0123[3:])
    told = findings(run, anomaly(run, "divergence", offset=2))
    assert [one.verdict for one in told if one.kind == "divergence"] == [word]
    gaps = [one for one in told if one.kind == "books" and "gap" in one.because[-1].says]
    assert bool(gaps) is (word == "unexplained")


def test_the_last_answers_of_who_leads_no_more_come_when_it_has_heard(tmp_path: Path) -> None:
    """A soak of 0.11.0.2 whose broker heard nobody for 4 s: acknowledged 12 ms after it knew."""
    run = RunBuilder(tmp_path / "run", kafka="0.11.0.2", workload=Workload(acks="1"))
    run.leader(3, 14, [1, 2, 3])
    run.tick(8_000)
    run.log_line(2, "leader", "events-0 starts at Leader Epoch 15 from offset 1.", offset=1)
    run.leader(2, 15, [1, 2])
    run.tick(4_000)
    run.log_line(3, "fetcher", "Added fetcher for [events-0, initOffset 3", offset=3)
    run.tick(2)
    run.send("gone", 2)
    run.tick(20_000)
    run.disk((1, 2, 3), [(0, 14, "p0-0"), (1, 15, "p0-1"), (2, 15, "p0-2")])
    assert finding(run, "lost-write", value="gone", offset=2).verdict == "explained"


@pytest.mark.parametrize(
    ("left", "start", "word"),
    [
        (9_000, 1, "explained"),
        (9_000, 0, "unexplained"),  # the record is behind the beginning of the log
        (3_000, 1, "unexplained"),  # no more than was sent: the size may be right
    ],
)
def test_a_record_was_deleted_by_a_leader_that_counted_too_much(
    tmp_path: Path, left: int, start: int, word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.3.1")
    run.plan = msgspec.structs.replace(run.plan, tiered=True)
    run.leader(1, 0, [1, 2, 3])
    run.send("m0", 0)
    run.everywhere([(1, 0, "m1")])
    run.tick(1_000)
    run.leader(2, 1, [1, 2, 3])
    run.tick(100)
    said = f"due to retention size 2000 breach. Log size after deletion will be {left}."
    run.log_line(2, "expired", f"About to delete remote log segment S {said}")
    run.log_line(2, "log-start", f"Incremented log start offset to {start} due to", offset=start)
    run.fence(2)
    run.disk([1, 2, 3], [(2, 1, "fence-0")])
    lost = finding(run, "lost-write", offset=0, value="m0")
    assert lost.verdict == word
    if word == "explained":
        assert [link.rule for link in lost.because] == [
            *("acks=all", "elections", "counted-twice", "counted-twice")
        ]
        assert "has 9,000 bytes without that segment" in lost.because[2].says


@pytest.mark.parametrize(("taken", "wrong"), [(True, False), (False, True)])
def test_what_was_taken_from_a_follower_says_nothing_of_when_it_joined(
    tmp_path: Path, *, taken: bool, wrong: bool
) -> None:
    run = in_sync(RunBuilder(tmp_path / "run", kafka="4.4.0"))
    run.leader(1, 0, [1, 2])
    run.observe(1, 5, 5)
    run.tick(20_000)
    run.leader(1, 0, [1, 2, 3])
    run.tick(3_000)
    if taken:
        run.fault(
            "bit-flip", 3, "one bit is flipped on broker 3; cut there, events-0 lost 1 up to 5"
        )
        run.tick(2_000)
        run.fault("bit-flip", 3, "broker 3 is healed", phase="heal")
    run.tick(2_000)
    run.observe(3, 1)
    says = [link.says for found in findings(run) for link in found.because]
    assert any("below the leader's HW" in each for each in says) is wrong


@pytest.mark.parametrize(("broker", "word"), [(1, "explained"), (2, "unexplained")])
def test_a_bit_that_was_flipped_explains_a_damaged_disk(
    tmp_path: Path, broker: int, word: str
) -> None:
    run = in_sync(RunBuilder(tmp_path / "run", kafka="3.9.2"))
    says = f"one bit is flipped on broker {broker}; cut there, events-0 lost 3 up to 4"
    run.fault("bit-flip", broker, says)
    copy = {"broker": 1, "partition": 0, "offset": 3}
    assert finding(run, "corrupt", offset=3, copies=[copy]).verdict == word
