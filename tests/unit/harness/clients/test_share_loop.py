"""A member of a share group: what it is given is recorded, in whatever order, and errors pass."""

import json
import logging
import threading
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import IllegalStateException, KafkaError, KafkaException, Message

from highwater.harness.clients.groups import share_loop
from highwater.harness.clients.groups.share_loop import ShareLoop
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run


def given(value: str, offset: int, partition: int = 0) -> Any:  # noqa: ANN401 - librdkafka's
    return Message(topic="events", partition=partition, offset=offset, value=value.encode())


class Polled:
    """Gives out lists of messages, raises errors, and then ends the run."""

    def __init__(self, stop: threading.Event, polls: list[Any]) -> None:
        self.stop = stop
        self.polls = polls
        self.calls: list[str] = []

    def __call__(self, settings: dict[str, Any]) -> Self:
        self.statistics = settings["stats_cb"]
        return self

    def subscribe(self, topics: list[str]) -> None:
        self.calls.append(f"subscribe {topics}")

    def poll(self, _timeout: float) -> list[Any]:
        if not self.polls:
            self.stop.set()
            return []
        answer = self.polls.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, list)
        return answer

    def close(self) -> None:
        self.calls.append("close")
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.mark.parametrize(("limit_s", "left"), [(5.0, ["close"]), (0.0, [])])
def test_a_member_records_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float, left: list[str]
) -> None:
    stop = threading.Event()
    refused = KafkaException(KafkaError(KafkaError._TRANSPORT))
    early = IllegalStateException("no poll now")
    fake = Polled(stop, [[given("b", 1), given("a", 0, 1)], [], refused, early, [given("a", 0)]])
    monkeypatch.setattr(share_loop, "ShareConsumer", fake)
    settings = {"group.id": "g", "logger": logging.getLogger("test")}
    plan, run = Plan(kafka="4.4.0", topic=Topic(partitions=2)), Run(tmp_path)
    with Recorder(run, Clock()) as recorder:
        member = ShareLoop(plan, recorder, settings, process="share-0")
        member.run(stop, lambda: limit_s)
        places = {
            "0": {"partition": 0, "desired": True, "broker": 2},
            "1": {"partition": 1, "desired": True, "broker": -1},
            "2": {"partition": 2, "desired": False, "broker": 1},
        }
        fake.statistics(json.dumps({"topics": {"events": {"partitions": places}}}))
        assert member.assigned == member.reading == {0}
        fake.statistics(json.dumps({"topics": {}}))
        assert member.assigned == frozenset()
    assert member.given == {0: 2, 1: 1}
    assert fake.calls == ["subscribe ['events']", *left]
    run.seal()
    rows = [
        (row["op"], row["kind"], row["partition"], row["offset"], row["value"])
        for row in run.table("history/ops").to_pylist()
    ]
    assert rows == [
        (1, "subscribe", 0, None, "g"),
        (1, "subscribe", 1, None, "g"),
        (2, "rebalance", None, None, ""),
        (2, "read", 0, 1, "b"),
        (2, "read", 1, 0, "a"),
        (3, "rebalance", None, None, ""),
        (3, "read", 0, 0, "a"),
    ]
