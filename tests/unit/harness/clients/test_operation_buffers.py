import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, Message

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.consumer_loop import ConsumerLoop
from highwater.harness.clients.operation_buffers import TAPE_ROWS, ReadBuffer, SendBuffer
from highwater.harness.clients.read_names import by_keys
from highwater.harness.clients.send_rate import ClientLifetime, RateLimiter, draws, lives
from highwater.harness.clients.transaction_buffer import TransactionBuffer
from highwater.harness.clients.transactional_producer import TransactionTimeouts
from highwater.harness.runs.history import read_stream
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.plan import Workload as Options
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.runtime import workload
from tests.support.commands import run_python

Rows = list[dict[str, object]]


def rows(run: Run, table: str = "history/ops") -> Rows:
    return [row for batch in read_stream(run.stream(table)) for row in batch.to_pylist()]


NOT_TOLD = -1001
"""How librdkafka writes the offset of a record that it was not told."""


def message(name: str, offset: int = NOT_TOLD, partition: int = 0) -> Message:
    return Message(
        topic="events", partition=partition, offset=offset, value=f"{name}|....".encode()
    )


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@pytest.mark.parametrize("rate", [0.5, 200.0, 3333.0])
@pytest.mark.parametrize("step_s", [0.001, 0.037, 0.9])
def test_a_rate_is_kept_whatever_the_steps(rate: float, step_s: float) -> None:
    clock = Hand()
    pace = RateLimiter(rate, clock)
    sent = 0
    while clock.now_ns < 60e9:
        clock.now_ns += int(step_s * 1e9)
        sent += pace.due()
    assert sent == pytest.approx(rate * clock.now_ns / 1e9, abs=1)


def test_a_stall_is_made_up_for_by_one_second_only() -> None:
    clock = Hand()
    pace = RateLimiter(100.0, clock)
    clock.now_ns = int(30e9)
    assert pace.due() == 100
    clock.now_ns += int(1e9)
    assert pace.due() == 100


def test_flat_out_never_waits() -> None:
    pace = RateLimiter(0.0, Hand())
    assert pace.due() > 0
    assert pace.wait_s() == 0.0


def test_a_slow_rate_waits_for_its_next_record() -> None:
    clock = Hand()
    pace = RateLimiter(50.0, clock)
    assert pace.due() == 0
    assert pace.wait_s() == pytest.approx(0.02)


def test_an_acknowledgement_becomes_a_row(tmp_path: Path) -> None:
    run, clock = Run(tmp_path), Hand()
    with Recorder(run, clock) as recorder:
        tape = SendBuffer(
            recorder, process="producer-0", topic=Topic(partitions=3), acks="1", prefix="p0"
        )
        clock.now_ns = 5
        first = tape.burst()
        clock.now_ns = 7
        second = tape.burst()
        second(1, None, message("p0-1", 41, partition=1))
        clock.now_ns = 9
        tape.turn()
        first(0, None, message("p0-0"))
        clock.now_ns = 11
        tape.turn()
        tape.close()
    common = {
        "process": "producer-0", "kind": "send", "phase": "run", "outcome": "ok",
        "topic": "events", "acks": "1", "leader_epoch": None, "error": None, "isolation": None,
    }  # fmt: skip
    assert rows(run) == [
        common | {
            "invoke_ns": 7, "complete_ns": 9, "partition": 1, "offset": 41, "value": "p0-1",
            "op": 1,
        },
        common | {
            "invoke_ns": 5, "complete_ns": 11, "partition": 0, "offset": None, "value": "p0-0",
            "op": 0,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(("acks", "offset"), [("0", None), ("1", 598)])
def test_an_offset_that_no_broker_told_is_not_recorded(
    acks: str, offset: int | None, tmp_path: Path
) -> None:
    run, clock = Run(tmp_path), Hand()
    with Recorder(run, clock) as recorder:
        tape = SendBuffer(recorder, process="producer-0", topic=Topic(), acks=acks, prefix="p0")
        tape.burst()(1600, None, message("p0-1600", 598))
        tape.turn()
        tape.close()
    [row] = rows(run)
    assert row["offset"] == offset


def test_what_was_never_answered_has_no_completion(tmp_path: Path) -> None:
    run, clock = Run(tmp_path), Hand()
    with Recorder(run, clock) as recorder:
        tape = SendBuffer(recorder, process="producer-0", topic=Topic(), acks="all", prefix="p0")
        answered = tape.burst()
        clock.now_ns = 3
        answered(0, KafkaError(KafkaError._MSG_TIMED_OUT), message("p0-0"))
        answered(1, KafkaError(KafkaError._PURGE_INFLIGHT), message("p0-1"))
        tape.refused(2, 1, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        tape.close()
    found = [(r["value"], r["outcome"], r["complete_ns"], r["error"]) for r in rows(run)]
    assert found == [
        ("p0-0", "info", 3, "_MSG_TIMED_OUT"),
        ("p0-1", "info", None, "_PURGE_INFLIGHT"),
        ("p0-2", "fail", 3, "MSG_SIZE_TOO_LARGE"),
    ]


def test_reads_are_recorded_as_the_client_returned_them(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with Recorder(run, Hand()) as recorder:
        tape = ReadBuffer(
            recorder, process="reader", phase="final", topic="events", isolation="read_committed"
        )
        tape.read([message("p0-0", 0), message("p1-0", 1)], 0)
        tape.read([], 0)
        alien = Message(topic="events", partition=0, offset=2, value=b"\xff\xfe|")
        tape.read([alien], 0)
    assert [(r["value"], r["offset"], r["acks"], r["op"]) for r in rows(run)] == [
        ("p0-0", 0, None, 1), ("p1-0", 1, None, 1), ("\\xff\\xfe", 2, None, 2)
    ]  # fmt: skip


def test_records_of_the_users_are_read_by_their_keys(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with Recorder(run, Hand()) as recorder:
        tape = ReadBuffer(
            recorder,
            process="reader",
            phase="final",
            topic="events",
            isolation="read_committed",
            names=by_keys,
        )
        named = Message(topic="events", partition=0, offset=0, key=b"a|b", value=b'{"id": "a|b"}')
        tape.read([named, message("fence-0-1", 1)], 0)
    assert [row["value"] for row in rows(run)] == ["a|b", "fence-0-1"]


def test_what_moves_a_reader_stands_before_what_it_reads_there(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with Recorder(run, Hand()) as recorder:
        tape = ReadBuffer(
            recorder, process="member-0", phase="run", topic="events", isolation="read_uncommitted"
        )
        tape.moved("subscribe", {0: None, 1: None}, within=False)
        tape.moved("rebalance", {1: None}, within=True)
        tape.moved("seek", {1: 7}, within=True)
        tape.read([message("p0-7", 7, partition=1)], 0)
        tape.read([message("p0-8", 8, partition=1)], 0)
        tape.moved("rebalance", {None: None}, within=True)
        tape.read([], 0)
        tape.moved("seek", {1: 9}, within=False)
    assert [
        (r["op"], r["kind"], r["partition"], r["offset"], r["isolation"]) for r in rows(run)
    ] == [
        (1, "subscribe", 0, None, None),
        (1, "subscribe", 1, None, None),
        (2, "rebalance", 1, None, None),
        (2, "seek", 1, 7, None),
        (2, "read", 1, 7, "read_uncommitted"),
        (3, "read", 1, 8, "read_uncommitted"),
        (4, "rebalance", None, None, None),
        (5, "seek", 1, 9, None),
    ]


def test_who_joins_a_group_says_of_which(tmp_path: Path) -> None:
    run = Run(tmp_path)
    shared: Any = {"topic": "events", "isolation": "read_committed", "group": "g"}
    with Recorder(run, Hand()) as recorder:
        reader = ReadBuffer(recorder, process="member-0", phase="run", **shared)
        reader.moved("subscribe", {0: None}, within=False)
        reader.moved("seek", {0: 7}, within=False)
        both = TransactionBuffer(recorder, process="producer-0", **shared)
        both.moved("subscribe", {0: None}, within=False)
        both.moved("seek", {0: 7}, within=False)
        both.close()
    assert [(r["process"], r["kind"], r["value"]) for r in rows(run)] == [
        ("member-0", "subscribe", "g"),
        ("member-0", "seek", ""),
        ("producer-0", "subscribe", "g"),
        ("producer-0", "seek", ""),
    ]


def test_a_transaction_is_one_operation_with_one_outcome(tmp_path: Path) -> None:
    run, clock = Run(tmp_path), Hand()
    with Recorder(run, clock) as recorder:
        tape = TransactionBuffer(
            recorder, process="producer-0", topic="events", isolation="read_committed"
        )
        tape.moved("subscribe", {0: None}, within=False)
        clock.now_ns = 5
        entry = tape.begin()
        tape.moved("rebalance", {0: None}, within=True)
        entry.read([message("p1-0", 3)])
        first = entry.send("p0-0", 1)
        lost = entry.send("p0-1", 0)
        first(None, message("p0-0", 8, partition=1))
        lost(KafkaError(KafkaError._MSG_TIMED_OUT), message("p0-1"))
        clock.now_ns = 9
        entry.end("fail", "_MSG_TIMED_OUT")
        entry = tape.begin()
        entry.send("p0-2", 0)
        entry.end("info", "_TIMED_OUT", answered=False)
        tape.close()
    found = [
        (
            r["op"],
            r["kind"],
            r["outcome"],
            r["value"],
            r["offset"],
            r["invoke_ns"],
            r["complete_ns"],
        )
        for r in rows(run)
    ]
    assert found == [
        (1, "subscribe", "ok", "", None, 0, 0),
        (2, "rebalance", "ok", "", None, 5, 9),
        (2, "read", "fail", "p1-0", 3, 5, 9),
        (2, "send", "fail", "p0-0", 8, 5, 9),
        (2, "send", "fail", "p0-1", None, 5, 9),
        (3, "send", "info", "p0-2", None, 9, None),
    ]


def test_transactions_are_on_disk_before_long(tmp_path: Path) -> None:
    run, clock = Run(tmp_path), Hand()
    with Recorder(run, clock) as recorder:
        tape = TransactionBuffer(
            recorder, process="producer-0", topic="events", isolation="read_committed"
        )
        entry = tape.begin()
        entry.send("p0-0", 0)
        entry.end("ok")
        tape.turn()
        assert rows(run) == []
        clock.now_ns = int(0.3e9)
        tape.turn()
        assert [row["value"] for row in rows(run)] == ["p0-0"]


def test_lives_follow_from_the_seed_and_half_of_them_end_by_a_crash() -> None:
    def drawn(seed: int) -> list[tuple[float, bool]]:
        found = itertools.islice(
            lives(threading.Event(), draws(Plan(kafka="4.3.1", seed=seed), "producer-0"), 5.0), 1000
        )
        return [(life._length_s, life._dies) for life in found]

    lengths, crashes = zip(*drawn(1), strict=True)
    assert drawn(1) == drawn(1) != drawn(2)
    assert sum(lengths) / 1000 == pytest.approx(5.0, rel=0.1)
    assert sum(crashes) == pytest.approx(500, abs=60)


def test_a_life_is_over_in_its_time_or_with_the_run() -> None:
    stop = threading.Event()
    short = ClientLifetime(stop, 1, length_s=0.0, dies=True)
    assert short.is_set()
    assert short.crashed
    assert short.named("producer-0") == "producer-0.1"
    long = ClientLifetime(stop, 0, length_s=3600.0, dies=True)
    assert not long.is_set()
    stop.set()
    assert long.is_set()
    assert not long.crashed, "the run's end is no crash"
    assert long.named("producer-0") == "producer-0"
    assert list(lives(stop, draws(Plan(kafka="4.3.1"), "producer-0"), 5.0)) == []


def test_patience_has_an_end_for_each_call_and_one_for_all_after_the_run() -> None:
    stop, now = threading.Event(), time.monotonic()
    patience = TransactionTimeouts(stop, 30.0, lambda: 2.0)
    assert patience.left_s(now) == pytest.approx(30.0, abs=1)
    assert patience.left_s(now - 40) < 0
    stop.set()
    assert patience.left_s(now) == pytest.approx(2.0, abs=0.5)
    assert patience.left_s(now + 100) == pytest.approx(2.0, abs=0.5)


def test_counts_add_up(tmp_path: Path) -> None:
    run = Run(tmp_path)
    recorder = Recorder(run, Clock())
    tape = SendBuffer(recorder, process="producer-0", topic=Topic(), acks="all", prefix="p0")
    answered = tape.burst()
    for number in range(TAPE_ROWS + 5):
        answered(number, None, message(f"p0-{number}", number))
        tape.turn()
    answered(-1, KafkaError(KafkaError._TRANSPORT), message("p0-x"))
    tape.close()
    recorder.close()
    recorder.close()
    assert recorder.counts() == {("send", "ok"): TAPE_ROWS + 5, ("send", "info"): 1}
    assert len(rows(run)) == TAPE_ROWS + 6


def test_a_fault_is_on_disk_when_it_is_recorded(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with Recorder(run, Clock()) as recorder:
        recorder.fault("kill", "inject", "broker 2 is killed", 2)
        [row] = rows(run, "events/faults")
    assert (row["fault"], row["phase"], row["broker"]) == ("kill", "inject", 2)


def test_observations_are_on_disk_before_long(tmp_path: Path) -> None:
    run, clock = Run(tmp_path), Clock()
    with Recorder(run, clock) as recorder:
        recorder.replica(broker=1, topic="events", partition=0, leo=4, hw=3)
        recorder.partition(topic="events", partition=0, leader=1, isr=[1, 2], time_ns=77)
        asked_ns = clock()
        while not (rows(run, "events/replicas") and rows(run, "events/partitions")):
            assert clock() - asked_ns < 2e9, "the rows were not written within 2 s"
        assert rows(run, "events/partitions")[0]["time_ns"] == 77


def test_every_table_exists_even_when_nothing_happened(tmp_path: Path) -> None:
    run = Run(tmp_path)
    Recorder(run, Clock()).close()
    run.seal()
    assert sorted(p.name for p in tmp_path.rglob("*.parquet")) == [
        "decisions.parquet", "faults.parquet", "log_lines.parquet", "ops.parquet",
        "partitions.parquet", "quorum.parquet", "replicas.parquet", "steps.parquet",
    ]  # fmt: skip


def test_a_closed_recorder_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    Recorder(Run(tmp_path), Clock()).close()
    assert threading.active_count() == before


DISK_FULL = """
import json, resource, sys
from pathlib import Path
from confluent_kafka import Message
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.harness.clients.operation_buffers import SendBuffer
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.plan import Workload as Options
limit = 1 << 20
recorder = Recorder(Run(Path(sys.argv[1])), Clock())
tape = SendBuffer(recorder, process="producer-0", topic=Topic(), acks="1", prefix="p0")
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
number = 0
try:
    while number < 1_000_000:
        message = Message(topic="events", partition=0, offset=number, value=b"p0|")
        tape.burst()(number, None, message)
        tape.turn()
        number += 1
    raised = None
except HarnessError as error:
    raised = error.message
again = []
for later in (recorder.check, recorder.close, lambda: recorder.fault("a", "b", "c")):
    try:
        later()
    except HarnessError as error:
        again.append(error.message)
print(json.dumps([raised, again, recorder.failed.is_set()]))
"""

MEMORY = """
import json, psutil, sys
from pathlib import Path
from confluent_kafka import Message
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.harness.clients.operation_buffers import SendBuffer
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.plan import Workload as Options
peaks = []
with Recorder(Run(Path(sys.argv[1])), Clock()) as recorder:
    tape = SendBuffer(recorder, process="producer-0", topic=Topic(), acks="1", prefix="p0")
    for _ in range(5):
        for number in range(100_000):
            value = b"p0-%d|" % number
            message = Message(topic="events", partition=0, offset=number, value=value)
            tape.burst()(number, None, message)
            tape.turn()
        peaks.append(psutil.Process().memory_info().rss)
print(json.dumps(peaks))
"""


def script(text: str, directory: Path) -> object:
    code, out, err = run_python(text, directory)
    assert code == 0, err
    return json.loads(out)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_at_once_and_keeps_what_was_written(tmp_path: Path) -> None:
    told = script(DISK_FULL, tmp_path)
    assert isinstance(told, list)
    message, later, failed = told
    assert "cannot be recorded any more: File too large" in message
    assert later == [message] * 3
    assert failed
    found = rows(Run(tmp_path))
    assert [row["offset"] for row in found] == list(range(len(found)))
    assert len(found) >= 4096


@pytest.mark.slow
def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    peaks = script(MEMORY, tmp_path)
    assert isinstance(peaks, list)
    assert peaks[-1] < 300e6
    assert peaks[-1] - peaks[1] < 20e6


def test_a_recorder_that_cannot_open_its_files_says_so(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("a file where a folder should be")
    with pytest.raises(HarnessError, match="cannot be recorded"):
        Recorder(Run(tmp_path), Clock())


def test_a_client_that_hangs_does_not_hide_why_the_run_was_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(workload, "_GRACE_S", 0.01)
    monkeypatch.setattr(ConsumerLoop, "run", lambda *_: ended.wait(60))
    run, plan = (
        Run(tmp_path),
        Plan(kafka="4.3.1", workload=Options(producers=0, consumers=1, delivery_timeout_s=0.1)),
    )
    run.logs.mkdir()
    try:
        with Recorder(run, Clock()) as recorder, pytest.raises(HarnessError, match="no disk"):  # noqa: SIM117 - the order is what is tested
            with workload.RunningWorkload(plan, "127.0.0.1:1", recorder, run):
                raise HarnessError("no disk")
        with Recorder(Run(tmp_path / "second"), Clock()) as recorder:  # noqa: SIM117 - for the same reason
            with pytest.raises(HarnessError, match=r"consumer-0 \(.*\) did not end"):
                with workload.RunningWorkload(plan, "127.0.0.1:1", recorder, run):
                    pass
    finally:
        ended.set()


def test_libraries_end_when_the_workload_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    opened = Mock(close=lambda: closed.append("libraries"))
    monkeypatch.setattr(workload, "open_libraries", lambda *_: opened)
    monkeypatch.setattr(workload, "Sender", Mock(side_effect=HarnessError("no such setting")))
    run = Run(tmp_path)
    run.logs.mkdir()
    with Recorder(run, Clock()) as recorder, pytest.raises(HarnessError, match="no such setting"):
        workload.RunningWorkload(Plan(kafka="4.3.1"), "127.0.0.1:1", recorder, run)
    assert closed == ["libraries"]
