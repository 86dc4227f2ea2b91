"""Journals of members of groups: what is asked and answered is written down with its times."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Self

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from highwater.harness.clients.groups.journal import GroupJournal
from highwater.harness.clients.groups.share_journal import ShareJournal
from highwater.harness.clients.groups.share_member import ShareMember
from highwater.harness.clients.libraries.consumers.librdkafka_consumer import epoch_of
from highwater.harness.runs.history import GROUPS_TABLE
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import Run

COLUMNS = ("event", "outcome", "partition", "offset", "invoke_ns", "complete_ns")
FENCED = KafkaError(KafkaError.ILLEGAL_GENERATION)


def given(offset: int, partition: int = 0) -> Any:  # noqa: ANN401 - librdkafka's
    return Message(topic="events", partition=partition, offset=offset, value=b"m")


def place(offset: int, partition: int = 0) -> TopicPartition:
    return TopicPartition("events", partition, offset)


class Ticks:
    """A clock that counts how often it is asked."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


def written(path: Path, write: Callable[[Recorder], None]) -> list[tuple[Any, ...]]:
    """The rows that something writes."""
    run = Run(path)
    with Recorder(run, Ticks(), grouped=True) as recorder:
        write(recorder)
    run.seal()
    rows = run.table(GROUPS_TABLE).to_pylist()
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def test_commits_are_answered_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    def write(recorder: Recorder) -> None:
        journal = GroupJournal(recorder, process="member-0", group="g")
        for offset in (5, 7, 5, 9):
            journal.commits([place(offset)])
        assert journal.unanswered == {0}
        journal.answered(None, [place(5)])
        journal.answered(FENCED, [place(7)])
        journal.answered(None, [place(5), place(6)])  # nobody asked for the second one
        journal.ended(journal.clock(), crashed=True)
        assert not journal.unanswered

    assert written(tmp_path, write) == [
        ("commit", "ok", 0, 5, 1, 5),
        ("commit", "info", 0, 7, 2, 6),
        ("commit", "ok", 0, 5, 3, 7),
        ("commit", "info", 0, 9, 4, None),
        ("ended", "info", None, None, 8, 9),
    ]


def test_a_poll_is_a_row_for_each_run_of_rising_offsets(tmp_path: Path) -> None:
    polled = [given(4), given(1, 1), given(6), given(2), given(3)]
    rows = written(
        tmp_path, lambda recorder: GroupJournal(recorder, process="m", group="g").given(polled, 0)
    )
    assert [row[2:4] for row in rows] == [(0, 4), (0, 2), (1, 1)]


@pytest.mark.parametrize(
    ("data", "epoch"),
    [
        (b"CGMDv2:\x07\x01\x00\x00g\x00m\x00\x01", 263),
        (b"CGMDv2:\xff\xff\xff\xffg\x00m\x00\x01", None),
        (b"another", None),
        (b"", None),
    ],
)
def test_the_epoch_is_what_the_client_would_send(data: bytes, epoch: int | None) -> None:
    assert epoch_of(data) == epoch


def test_acknowledgements_are_answered_record_by_record(tmp_path: Path) -> None:
    error = KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def write(recorder: Recorder) -> None:
        journal = ShareJournal(recorder, process="share-0", group="g")
        journal.given([given(4), given(5)], 0)
        journal.answers("accept", [given(4), given(5)])
        journal.answers("reject", [given(6)])
        journal.answers("release", [given(7)])
        journal.refused(given(7))
        journal.answered({place(0): {4}}, None)
        journal.answered({place(0): {5, 8}}, error)
        journal.ended(journal.clock(), crashed=False)

    assert written(tmp_path, write) == [
        ("acquired", "ok", 0, 4, 0, 1),
        ("acquired", "ok", 0, 5, 0, 1),
        ("accept", "ok", 0, 4, 2, 5),
        ("accept", "info", 0, 5, 2, 6),
        ("reject", "info", 0, 6, 3, None),
        ("ended", "ok", None, None, 7, 8),
    ]


class Broker:
    """A share consumer that is given a record by each poll, then nothing."""

    def __init__(self, stop: threading.Event, polls: int) -> None:
        self.polls = polls
        self.calls: list[str] = []
        self._stop = stop

    def consumer(self, settings: dict[str, Any]) -> NoReturn:
        raise AssertionError(settings)

    def share_consumer(self, settings: dict[str, Any]) -> Self:
        self.calls.append(settings["share.acknowledgement.mode"])
        return self

    def set_acknowledgement_commit_callback(self, callback: Any) -> None:  # noqa: ANN401
        self.callback = callback

    def subscribe(self, topics: list[str]) -> None:
        self.calls.append(f"subscribe {topics}")

    def poll(self, _timeout: float) -> list[Any]:
        self.polls -= 1
        if self.polls < 0:
            self._stop.set()
            return []
        return [given(self.polls)]

    def acknowledge(self, message: Any, _type: Any) -> None:  # noqa: ANN401
        self.callback({place(0): {message.offset()}}, None)

    def commit_sync(self, _timeout: float) -> None:
        pass

    def close(self) -> None:
        self.calls.append("close")

    def drop(self) -> None:
        self.calls.append("drop")


@pytest.mark.parametrize(("number", "mode"), [(0, "explicit"), (1, "implicit")])
def test_a_member_that_drains_accepts_everything(tmp_path: Path, number: int, mode: str) -> None:
    plan = Plan(kafka="4.4.0", topic=Topic(), workload=Workload(share=2))
    draining, stop = threading.Event(), threading.Event()
    draining.set()

    broker = Broker(stop, 40)

    def write(recorder: Recorder) -> None:
        member = ShareMember(
            plan,
            recorder,
            lambda _: {"logger": logging.getLogger("test")},
            number=number,
            group="g",
            draining=draining,
            library=broker,
        )
        member.run(stop, lambda: 1.0)

    rows = written(tmp_path, write)
    assert broker.calls == [mode, "subscribe ['events']", "close"]
    answers = [row[:2] for row in rows if row[0] not in {"acquired", "ended"}]
    assert answers == [("accept", "ok" if number == 0 else "info")] * 40
