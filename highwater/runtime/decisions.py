"""Record the harness's requests to controllers about topics, settings, replicas and leaders."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.clusters.nodes import kraft_features
from highwater.clusters.releases.software_level import Level
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.recorder import Recorder

ANSWERED: Final = "answered"
UNANSWERED: Final = "unanswered"
END: Final = "end"
MISSING: Final = "missing"
VOTES: Final = "votes"
"""Values in the table of requests to controllers, ``harness.runs.history.DECISIONS``."""


class _RecordedCluster:
    """A cluster that records its requests to controllers; other calls are unchanged."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._cluster = cluster
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the cluster
        return getattr(self._cluster, name)

    def configure(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic."""
        rows = [{"setting": name, "value": value} for name, value in changes.items()]
        with self._decisions("setting", topic, rows):
            self._cluster.configure(topic, changes)

    def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Add partitions to a topic."""
        rows = [
            {"partition": partition, "value": _listed(replicas)}
            for partition, replicas in added.items()
        ]
        with self._decisions("replicas", topic, rows):
            self._cluster.add_partitions(topic, added)

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], *, awaited: bool = True
    ) -> None:
        """Assign other replicas to a partition."""
        row = {"partition": partition, "value": _listed(replicas)}
        with self._decisions("replicas", topic, [row]):
            self._cluster.reassign(topic, partition, replicas, awaited=awaited)

    def cancel_reassignment(self, topic: str, partition: int) -> None:
        """Cancel a reassignment. The request names no replicas, so it is never judged."""
        self._recorder.decision(UNANSWERED, "replicas", topic, partition=partition)
        self._cluster.cancel_reassignment(topic, partition)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move leadership. The recorded row has no leader epoch: the request contains none."""
        with self._decisions("leader", topic, [{"partition": partition, "value": str(broker)}]):
            self._cluster.move_leader(topic, partition, broker)

    def finalize(self, level: Level) -> None:
        """Finalize the features of a software level."""
        features = kraft_features.features(kraft_features.source(level))
        with contextlib.ExitStack() as stack:
            for name, number in features.items():
                stack.enter_context(self._decisions("feature", name, [{"value": str(number)}]))
            self._cluster.finalize(level)

    def add_voter(self, controller_id: int) -> None:
        """Add a controller to the voters."""
        with self._decisions("voter", str(controller_id), [{"value": VOTES}]):
            self._cluster.add_voter(controller_id)

    def remove_voter(self, controller_id: int) -> None:
        """Remove a controller from the voters."""
        with self._decisions("voter", str(controller_id), [{"value": None}]):
            self._cluster.remove_voter(controller_id)

    @contextlib.contextmanager
    def _decisions(
        self, kind: str, subject: str, rows: Sequence[Mapping[str, object]]
    ) -> Iterator[None]:
        """Record the block's requests afterwards: as unanswered if the block raises an error."""
        evidence = UNANSWERED
        try:
            yield
            evidence = ANSWERED
        finally:
            for row in rows:
                self._recorder.decision(evidence, kind, subject, **row)


def recorded(cluster: Cluster, recorder: Recorder) -> Cluster:
    """Return a cluster whose requests to controllers are recorded."""
    return cast("Cluster", _RecordedCluster(cluster, recorder))


def record_topic(recorder: Recorder, topic: Topic, assignment: Sequence[Sequence[int]]) -> None:
    """Record the creation of a topic, with its settings and replicas."""
    recorder.decision(ANSWERED, "topic", topic.name)
    for name, value in topic.settings().items():
        recorder.decision(ANSWERED, "setting", topic.name, setting=name, value=value)
    for partition, replicas in enumerate(assignment):
        value = _listed(replicas)
        recorder.decision(ANSWERED, "replicas", topic.name, partition=partition, value=value)


def record_end(recorder: Recorder, probe: Probe, cluster: Cluster, topic: str) -> None:
    """Read a topic's state from ZooKeeper, and record this state.

    On KRaft record nothing, because the controllers' disks have this state. If ZooKeeper does not
    respond, record nothing.
    """
    if cluster.release.coordination == "kraft":
        return
    with contextlib.suppress(UnreachableError, NotImplementedError):
        state = probe.topic_state(topic)
        recorder.decision(END, "topic", topic, value=MISSING if state is None else None)
        if state is None:
            return
        for name, value in state.settings.items():
            recorder.decision(END, "setting", topic, setting=name, value=value)
        for partition, replicas in state.replicas.items():
            row = {"partition": partition, "value": _listed(replicas)}
            recorder.decision(END, "replicas", topic, **row)
        for partition, now in state.partitions.items():
            row = {"partition": partition, "value": str(now.leader), "epoch": now.leader_epoch}
            recorder.decision(END, "leader", topic, **row)


def _listed(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
