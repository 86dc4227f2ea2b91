"""What clients say of records fits the disks, where transactions hide some of them too."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.checkers.explain.consistency import contradictions
from highwater.checkers.explain.elections import wrong_elections
from highwater.checkers.explain.read_trace import observe
from highwater.checkers.explain.truncations import wrong_cuts
from highwater.harness.runs.history import STEPS, STEPS_TABLE
from highwater.harness.runs.plan import Workload
from highwater.harness.runs.store import StandingEnd
from tests.support.run_builder import MS, RunBuilder

TRANSACTIONS = Workload(idempotence=True, transactions=True)


def told(path: Path, outcome: str, workload: Workload = TRANSACTIONS) -> list[str]:
    """Between two committed records that are read stands a third, with this outcome, unread."""
    run = RunBuilder(path / "run", kafka="4.3.1", workload=workload)
    run.leader(1, 0, [1, 2, 3])
    for offset, (value, ended) in enumerate([("p0-0", "ok"), ("p0-1", outcome), ("p0-2", "ok")]):
        run.send(value, offset, outcome=ended)
        run.disk([1, 2, 3], [(offset, 0, value)])
        if value != "p0-1":
            run.read(value, offset)
            run.read(value, offset, process="consumer-0", phase="run")
    run.fence(3)
    run.disk([1, 2, 3], [(3, 0, "fence-0")])
    return [wrong.says for _, wrong in contradictions(observe(run.write()))]


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_readers_step_over_what_was_not_committed(tmp_path: Path, outcome: str) -> None:
    assert told(tmp_path, outcome) == []


@pytest.mark.parametrize(
    ("outcome", "workload"), [("ok", TRANSACTIONS), ("info", Workload()), ("ok", Workload())]
)
def test_readers_step_over_nothing_else(tmp_path: Path, outcome: str, workload: Workload) -> None:
    assert told(tmp_path, outcome, workload) == [
        (
            "The final reader received nothing at offset 1,"
            " but the disk of the leader, broker 1, holds p0-1."
        ),
        "consumer-0 read no record between offsets 0 and 2.",
    ]


@pytest.mark.parametrize(("lost", "wrong"), [("1 up to 2", 0), ("2 up to 2", 1)])
def test_what_a_fault_took_after_a_read_is_no_gap(tmp_path: Path, lost: str, wrong: int) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", workload=TRANSACTIONS)
    run.leader(1, 0, [1])
    for offset, value in ((0, "p0-0"), (2, "p0-2")):
        run.send(value, offset)
        run.read(value, offset, process="consumer-0", phase="run")
    run.tick(100)
    run.fault("power-failure", 1, f"broker 1 lost its power: events-0 lost {lost}")
    run.tick(100)
    run.fault("power-failure", 1, "broker 1 is healed", phase="heal")
    run.disk([1], [(0, 0, "p0-0"), (1, 0, "p0-5")])
    said = [one.says for _, one in contradictions(observe(run.write()))]
    assert said.count("consumer-0 read no record between offsets 0 and 2.") == wrong, said


@pytest.mark.parametrize("local", [[(2, 0, "p0-2")], []])
@pytest.mark.parametrize(("tiered", "wrong"), [(True, 0), (False, 1)])
def test_markers_may_be_in_the_remote_tier_alone(
    tmp_path: Path, local: list[tuple[int, int, str]], *, tiered: bool, wrong: int
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", workload=TRANSACTIONS)
    run.plan = msgspec.structs.replace(run.plan, tiered=tiered)
    run.leader(1, 0, [1])
    for offset, value in ((0, "p0-0"), (2, "p0-2")):
        run.send(value, offset)
        run.read(value, offset, process="consumer-0", phase="run")
    run.disk([1], local)
    wrong_links = [link.says for _, link in contradictions(observe(run.write()))]
    assert wrong_links.count("consumer-0 read no record between offsets 0 and 2.") == wrong


@pytest.mark.parametrize(
    ("lso", "wrong"), [(1, []), (2, ["The final reader received nothing at offset 1,"])]
)
def test_a_final_read_is_compared_up_to_where_the_last_stable_offset_stood(
    tmp_path: Path, lso: int, wrong: list[str]
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="3.3.2", workload=TRANSACTIONS)
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(0, 0, "p0-0")])
    run.send("p0-1", 1)
    run.fence(2, read=False)
    run.disk([1, 2, 3], [(1, 0, "p0-1"), (2, 0, "fence-0")])
    end = StandingEnd(partition=0, lso=lso, fence=2, seconds=5.0)
    run.status = msgspec.structs.replace(run.status, standing=(end,))
    said = [one.says for _, one in contradictions(observe(run.write()))]
    assert [one.partition(" but")[0] for one in said] == wrong


@pytest.mark.parametrize(
    ("epochs", "found"), [((0, -1, 0), []), ((1, -1, 0), [2]), ((0, 1, 1), []), ((1, 0, 0), [1])]
)
def test_a_record_of_a_format_without_epochs_does_not_make_them_fall(
    tmp_path: Path, epochs: tuple[int, ...], found: list[int]
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="1.1.1")
    run.leader(1, 0, [1, 2, 3])
    run.everywhere([(offset, epoch, f"p0-{offset}") for offset, epoch in enumerate(epochs)])
    told = [wrong.says for _, wrong in contradictions(observe(run.write()))]
    says = "On the disk of broker {} the leader epoch falls at offset {}."
    assert [one for one in told if "falls" in one] == [
        says.format(broker, at) for broker in (1, 2, 3) for at in found
    ]


def test_what_a_successor_logged_is_its_own(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.3.1").write()
    run.logs.mkdir(exist_ok=True)
    said = "2026-11-21T18:44:36.137Z FAIL [producer-0.1#producer-7] [thrd:x]: Disconnected"
    (run.logs / "clients.log").write_text(said + "\n")
    assert list(observe(run).clients) == ["producer-0.1"]


def test_a_fault_begins_when_its_step_is_taken(tmp_path: Path) -> None:
    """A restart is recorded when it is over; until then it was open."""
    run = RunBuilder(tmp_path / "run", kafka="4.3.1")
    run.now_ns = 10_000 * MS
    run.fault("restart", 1, "broker 1 was restarted")
    run.tick(5_000)
    run.fault("restart", 1, "broker 1 is healed", phase="heal")
    built = run.write()
    assert [(one.start_ns // MS, one.until_ns // MS) for one in observe(built).faults] == [
        (10_000, 15_000)
    ]
    strikes = [(4_000, 2), (6_000, 1), (12_000, 1)]
    rows = [
        {"time_ns": at * MS, "event": "strike", "fault": "restart", "broker": broker}
        for at, broker in strikes
    ]
    pq.write_table(pa.Table.from_pylist(rows, STEPS), built.parquet(STEPS_TABLE))
    assert [one.start_ns // MS for one in observe(built).faults] == [6_000]


@pytest.mark.parametrize(
    ("healing_s", "started_s", "wrong"),
    [(None, None, 1), (20, None, 0), (64, None, 1), (60, 30, 0)],
)
def test_a_broker_that_is_being_started_may_join_the_isr(
    tmp_path: Path, healing_s: int | None, started_s: int | None, wrong: int
) -> None:
    """A run on a cluster of one's own: its start command took a minute beside other work."""
    run = RunBuilder(tmp_path / "run", kafka="4.4.0")
    run.leader(1, 0, [1, 2, 3])
    run.tick(10_000)
    run.fault("kill", 3, "broker 3 is killed")
    run.tick(2_000)
    run.leader(1, 0, [1, 2])
    run.tick(48_000)
    run.leader(1, 0, [1, 2, 3])
    run.tick(5_000)
    run.fault("kill", 3, "broker 3 is healed", phase="heal")
    if started_s is not None:
        run.now_ns = started_s * 1_000 * MS
        run.log_line(3, "start", "starting (kafka.server.BrokerServer)")
    built = run.write()
    steps: list[dict[str, object]] = [
        {"time_ns": 9_000 * MS, "event": "strike", "step": 1, "fault": "kill", "broker": 3}
    ]
    if healing_s is not None:
        steps += [{"time_ns": healing_s * 1_000 * MS, "event": "heal", "step": 1}]
    pq.write_table(pa.Table.from_pylist(steps, STEPS), built.parquet(STEPS_TABLE))
    observed = observe(built)
    [trace] = observed.traces.values()
    found = [link for link in wrong_elections(observed, trace) if link.rule == "live_joins_only"]
    assert len(found) == wrong


@pytest.mark.parametrize(
    ("fault", "at_s", "wrong"),
    [("controller-disk-loss", 5, 0), ("controller-kill", 5, 1), ("controller-disk-loss", 20, 1)],
)
def test_a_controller_with_an_empty_disk_may_elect_from_an_older_isr(
    fault: str, at_s: int, wrong: int, tmp_path: Path
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="3.3.2-kraft")
    run.leader(2, 0, [1, 2, 3])
    run.tick(2_000)
    run.leader(2, 1, [2, 3])
    run.now_ns = at_s * 1_000 * MS
    run.fault(fault, None, "controller 100 is killed")
    run.now_ns = 10_000 * MS
    run.leader(1, 2, [1])
    observed = observe(run.write())
    [trace] = observed.traces.values()
    found = [link.rule for link in wrong_elections(observed, trace)]
    assert found == ["elections"] * wrong


def test_a_session_may_end_though_there_was_no_fault(tmp_path: Path) -> None:
    """A run at load 42: a broker that had every record was fenced before the first fault."""
    run = RunBuilder(tmp_path / "run", kafka="4.4.0")
    run.leader(1, 0, [1, 2, 3])
    run.observe_all(5, 5)
    run.tick(10_000)
    run.leader(1, 0, [1, 2])
    run.observe_all(5, 5)
    observed = observe(run.write())
    [trace] = observed.traces.values()
    assert not [*wrong_elections(observed, trace)]


@pytest.mark.parametrize(("cut", "wrong"), [(4, 0), (3, 1)])
def test_who_followed_somebody_that_was_gone_may_cut_by_the_epoch_before(
    tmp_path: Path, cut: int, wrong: int
) -> None:
    """A soak of 2.8.2: restarted in a rolling restart, while the leader that it found was shut."""
    run = RunBuilder(tmp_path / "run", kafka="2.8.2")
    led = "[Broker id={0}] Leader events-0 starts at leader epoch {1} from offset {2} with high"
    follows = (
        "[ReplicaFetcherManager on broker 1] Added fetcher to broker BrokerEndPoint(id={0},"
        " host=127.0.0.1:9092) for events-0 -> InitialFetchState(BrokerEndPoint(id={0},"
        " host=127.0.0.1:9092),{1},5"
    )
    run.leader(1, 0, [1, 2, 3])
    run.log_line(1, "leader", led.format(1, 0, 0), offset=0)
    run.observe_all(5, 4)
    for leader, epoch, offset in ((2, 1, 4), (3, 2, 9)):
        run.tick(5_000)
        run.leader(leader, epoch, [leader])
        run.log_line(leader, "leader", led.format(leader, epoch, offset), offset=offset)
        run.observe(leader, 9, 9)
        run.tick(5_000)
        run.log_line(1, "fetcher", follows.format(leader, epoch), offset=5)
    run.log_line(1, "truncation", f"Truncating to offset {cut} (kafka.log.Log)", offset=cut)
    observed = observe(run.write())
    [trace] = observed.traces.values()
    found = [one.says for one in wrong_cuts(trace, observed.software)]
    assert len(found) == wrong, found


@pytest.mark.parametrize(("began", "wrong"), [(0, 0), (1, 1)])
def test_who_led_without_a_record_may_cut_by_an_epoch_before(
    tmp_path: Path, began: int, wrong: int
) -> None:
    """A steered soak of 2.8.0: broker 1 led again, and wrote nothing, after epoch 2 had begun."""
    run = RunBuilder(tmp_path / "run", kafka="2.8.0")
    led = "[Broker id={0}] Leader events-0 starts at leader epoch {1} from offset {2} with high"
    for leader, epoch, offset in ((1, 0, 0), (2, 2, began), (1, 3, 1), (3, 4, 1)):
        run.leader(leader, epoch, [1, 2, 3])
        run.log_line(leader, "leader", led.format(leader, epoch, offset), offset=offset)
        run.observe(1, 1, 0)
        run.tick(5_000)
    follows = (
        "[ReplicaFetcherManager on broker 1] Added fetcher to broker 3 for events-0 ->"
        " InitialFetchState(BrokerEndPoint(id=3, host=127.0.0.1:9092),4,1"
    )
    run.log_line(1, "fetcher", follows, offset=1)
    run.observe(1, 1, 0)
    run.log_line(1, "truncation", "Truncating to offset 0 (kafka.log.Log)", offset=0)
    run.observe(3, 2, 1)
    observed = observe(run.write())
    [trace] = observed.traces.values()
    found = [link.says for link in wrong_cuts(trace, observed.software)]
    assert len(found) == wrong, found


@pytest.mark.parametrize(("unseen_ms", "wrong"), [(3_000, 0), (100, 1)])
def test_a_follower_that_was_paused_may_have_fetched_before_it_followed(
    tmp_path: Path, unseen_ms: int, wrong: int
) -> None:
    """A soak of 1.1.1: nobody observed when the follower got the record that it truncated."""
    run = RunBuilder(tmp_path / "run", kafka="1.1.1")
    run.leader(1, 0, [1, 2, 3])
    run.observe_all(1, 1)
    run.tick(unseen_ms)
    run.leader(2, 1, [2, 3])
    run.log_line(2, "leader", "events-0 starts at Leader Epoch 1 from offset 1.", offset=1)
    follows = "Added fetcher for [events-0, initOffset 1 to broker BrokerEndPoint(2"
    run.log_line(3, "fetcher", follows, offset=1)
    run.tick(1_000)
    run.observe(3, 2, 1)
    run.log_line(3, "truncation", "Truncating to offset 1 (kafka.log.Log)", offset=1)
    observed = observe(run.write())
    [trace] = observed.traces.values()
    found = [link.says for link in wrong_cuts(trace, observed.software)]
    assert len(found) == wrong, found


@pytest.mark.parametrize(("paused", "offset", "led_ms"), [(True, 0, 4_010), (False, 1, 0)])
def test_a_leader_that_was_paused_leads_when_it_is_resumed(
    tmp_path: Path, paused: bool, offset: int, led_ms: int
) -> None:
    """A steered soak of 0.10.2.2: elected while paused, it first followed the leader before it."""
    run = RunBuilder(tmp_path / "run", kafka="0.10.2.2")
    run.leader(1, 0, [1, 2, 3])
    run.send("p0-0", 0)
    run.observe_all(1, 0)
    if paused:
        run.fault("pause", 3, "broker 3 is paused")
    run.leader(2, 1, [2, 3])
    run.leader(3, 2, [3])
    run.tick(4_000)
    if paused:
        run.fault("pause", 3, "broker 3 is healed", phase="heal")
    run.tick()
    run.log_line(3, "truncation", "Truncating log events-0 to offset 0.", offset=0)
    run.log_line(3, "fetcher", "Added fetcher [events-0, initOffset 0 to broker 2", offset=0)
    [trace] = observe(run.write()).traces.values()
    start = trace.starts[-1]
    assert (start.broker, start.offset) == (3, offset)
    assert (start.led_ns - start.time_ns) // MS == led_ms


@pytest.mark.parametrize(("anew", "wrong"), [(0, 0), (None, 3)])
def test_who_leads_alone_may_begin_its_epoch_anew(
    tmp_path: Path, anew: int | None, wrong: int
) -> None:
    """A soak of 0.11.0.2: the only one in sync lost its segment, and led on in the same epoch."""
    run = RunBuilder(tmp_path / "run", kafka="0.11.0.2")
    run.leader(1, 6, [1])
    begins = "events-0 starts at Leader Epoch 6 from offset {}."
    run.log_line(1, "leader", begins.format(164), offset=164)
    run.tick(5_000)
    if anew is not None:
        run.log_line(1, "leader", begins.format(anew), offset=anew)
    run.everywhere([(0, 6, "p0-0")])
    observed = observe(run.write())
    starts = [start.offset for start in observed.traces[0].starts]
    assert starts == ([164] if anew is None else [164, anew])
    said = [one.says for _, one in contradictions(observed)]
    assert len([one for one in said if "the leader of that epoch began" in one]) == wrong
