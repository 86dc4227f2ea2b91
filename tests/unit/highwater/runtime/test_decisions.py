"""Answers of controllers are recorded, and requests without one; all else is as it was."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from highwater.clusters.core.interfaces import (
    Cluster,
    PartitionState,
    Probe,
    TopicState,
    UnreachableError,
)
from highwater.clusters.nodes import kraft_features
from highwater.clusters.releases.software_level import Level
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.history import DECISIONS_TABLE
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import Run
from highwater.runtime.decisions import record_end, record_topic, recorded

SECOND: Final = PartitionState(leader=2, leader_epoch=4, isr=(2, 3))
Patch = pytest.MonkeyPatch
Row = tuple[str, str, int | None, str | None, str | None, int | None]
"""Evidence, kind, partition, setting, value and epoch."""


@dataclass
class FakeCluster:
    """Does what it is asked, or does not answer."""

    coordination: str = "kraft"
    answers: bool = True
    topic: TopicState | None = None
    calls: list[str] = field(default_factory=list)

    @property
    def release(self) -> object:
        return SimpleNamespace(coordination=self.coordination)

    def configure(self, _topic: str, _changes: Mapping[str, str | None]) -> None:
        self._ask("configure")

    def add_partitions(self, _topic: str, _added: Mapping[int, Sequence[int]]) -> None:
        self._ask("add_partitions")

    def reassign(
        self, _topic: str, _partition: int, _replicas: Sequence[int], *, awaited: bool
    ) -> None:
        assert awaited
        self._ask("reassign")

    def cancel_reassignment(self, _topic: str, _partition: int) -> None:
        self._ask("cancel_reassignment")

    def move_leader(self, _topic: str, _partition: int, _broker: int) -> None:
        self._ask("move_leader")

    def finalize(self, _level: Level) -> None:
        self._ask("finalize")

    def add_voter(self, controller_id: int) -> None:
        self._ask(f"add_voter {controller_id}")

    def remove_voter(self, controller_id: int) -> None:
        self._ask(f"remove_voter {controller_id}")

    def end_session(self, broker: int) -> None:
        self._ask(f"end_session {broker}")

    def topic_state(self, _topic: str) -> TopicState | None:
        if not self.answers:
            raise UnreachableError("ZooKeeper does not answer")
        return self.topic

    def _ask(self, call: str) -> None:
        self.calls.append(call)
        if not self.answers:
            raise UnreachableError("no answer")


class Recording:
    """A cluster whose decisions are recorded in a run, and read again."""

    def __init__(self, folder: Path, subjects: Iterable[str] = ("events",)) -> None:
        self.run = Run(folder)
        self.subjects = {*subjects}
        self.fake = FakeCluster()
        self.recorder = Recorder(self.run, lambda: 7)
        self.cluster = recorded(cast("Cluster", self.fake), self.recorder)

    @property
    def probe(self) -> Probe:
        return cast("Probe", self.fake)

    def rows(self) -> list[Row]:
        self.recorder.close()
        names = ("evidence", "kind", "partition", "setting", "value", "epoch")
        table = self.run.table(DECISIONS_TABLE).to_pylist()
        assert {row["time_ns"] for row in table} <= {7}
        assert {row["subject"] for row in table} <= self.subjects
        return [cast("Row", tuple(row[name] for name in names)) for row in table]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


def test_answers_are_recorded(recording: Recording) -> None:
    recording.cluster.configure("events", {"a": "1", "b": None})
    recording.cluster.reassign("events", 3, [2, 1])
    recording.cluster.cancel_reassignment("events", 3)
    recording.cluster.add_partitions("events", {4: [1, 3], 5: [3, 2]})
    recording.cluster.move_leader("events", 0, 2)
    assert recording.rows() == [
        ("answered", "setting", None, "a", "1", None),
        ("answered", "setting", None, "b", None, None),
        ("answered", "replicas", 3, None, "2,1", None),
        ("unanswered", "replicas", 3, None, None, None),
        ("answered", "replicas", 4, None, "1,3", None),
        ("answered", "replicas", 5, None, "3,2", None),
        ("answered", "leader", 0, None, "2", None),
    ]


def test_requests_without_an_answer_are_recorded_as_such(recording: Recording) -> None:
    recording.fake.answers = False
    asks: list[Callable[[], None]] = [
        lambda: recording.cluster.configure("events", {"a": "1"}),
        lambda: recording.cluster.reassign("events", 0, [1]),
        lambda: recording.cluster.move_leader("events", 0, 2),
    ]
    for ask in asks:
        with pytest.raises(UnreachableError):
            ask()
    assert recording.rows() == [
        ("unanswered", "setting", None, "a", "1", None),
        ("unanswered", "replicas", 0, None, "1", None),
        ("unanswered", "leader", 0, None, "2", None),
    ]


@pytest.mark.parametrize("answers", [True, False])
def test_features_are_recorded(tmp_path: Path, *, answers: bool, monkeypatch: Patch) -> None:
    recording = Recording(tmp_path, subjects={"metadata.version", "group.version"})
    levels = {"metadata.version": 33, "group.version": 1}
    monkeypatch.setattr(kraft_features, "features", lambda _: levels)
    recording.fake.answers = answers
    with contextlib.nullcontext() if answers else pytest.raises(UnreachableError):
        recording.cluster.finalize(Level.from_settings(release("4.4.0"), {}))
    evidence = "answered" if answers else "unanswered"
    assert sorted(recording.rows()) == [
        (evidence, "feature", None, None, "1", None),
        (evidence, "feature", None, None, "33", None),
    ]


def test_voters_are_recorded(tmp_path: Path) -> None:
    recording = Recording(tmp_path, subjects={"101"})
    recording.cluster.remove_voter(101)
    recording.fake.answers = False
    with pytest.raises(UnreachableError):
        recording.cluster.add_voter(101)
    assert recording.fake.calls == ["remove_voter 101", "add_voter 101"]
    assert recording.rows() == [
        ("answered", "voter", None, None, None, None),
        ("unanswered", "voter", None, None, "votes", None),
    ]


def test_all_else_is_the_clusters_own(recording: Recording) -> None:
    recording.cluster.end_session(3)
    assert recording.fake.calls == ["end_session 3"]
    assert recording.rows() == []


def test_a_new_topic_has_settings_and_replicas(recording: Recording) -> None:
    topic = Topic(partitions=2)
    record_topic(recording.recorder, topic, [[1, 2], [2, 1]])
    first, *rest = recording.rows()
    assert first == ("answered", "topic", None, None, None, None)
    settings: dict[str | None, Any] = {row[3]: row[4] for row in rest if row[1] == "setting"}
    assert settings == topic.settings()
    assert rest[-2:] == [
        ("answered", "replicas", 0, None, "1,2", None),
        ("answered", "replicas", 1, None, "2,1", None),
    ]


def test_what_zookeeper_has_at_the_end(recording: Recording) -> None:
    recording.fake.coordination = "zookeeper"
    recording.fake.topic = TopicState(
        settings={"a": "1"}, replicas={0: (1, 2)}, partitions={0: SECOND}
    )
    record_end(recording.recorder, recording.probe, recording.cluster, "events")
    recording.fake.topic = None
    record_end(recording.recorder, recording.probe, recording.cluster, "events")
    recording.fake.answers = False
    record_end(recording.recorder, recording.probe, recording.cluster, "events")
    assert recording.rows() == [
        ("end", "topic", None, None, None, None),
        ("end", "setting", None, "a", "1", None),
        ("end", "replicas", 0, None, "1,2", None),
        ("end", "leader", 0, None, "2", 4),
        ("end", "topic", None, None, "missing", None),
    ]


def test_controllers_of_kraft_have_it_on_disk(recording: Recording) -> None:
    record_end(recording.recorder, recording.probe, recording.cluster, "events")
    assert recording.rows() == []
