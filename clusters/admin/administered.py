"""Changes to a running cluster, as an administrator makes them. All drivers share this code."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from highwater.clusters.admin import elections, leadership, topic_config, topics
from highwater.clusters.admin.metadata import CoordinationView, ZooKeeperView
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import Probe
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.release import Release


class AdministeredCluster(ABC):
    """A base class for clusters: it has the methods of Cluster that an administrator would use."""

    @property
    @abstractmethod
    def release(self) -> Release:
        """Release of the brokers."""

    @abstractmethod
    def probe(self) -> Probe:
        """Return a new probe. It reads the state of replicas and leaders."""

    @abstractmethod
    def _view(self, brokers: Mapping[int, Address] | None = None) -> CoordinationView:
        """Return a view of the state in ZooKeeper or KRaft. It asks ``brokers``, by default all."""

    @abstractmethod
    def _running(self) -> dict[int, Address]:
        """Return the addresses of the brokers that are running."""

    @abstractmethod
    def _paused(self, *but: int) -> AbstractContextManager[None]:
        """Pause all running brokers except the ids ``but`` during the ``with`` block."""

    def _require_ours(self, topic: str) -> None:
        """Raise an error if this cluster does not allow the harness to change the topic.

        This base class allows changes of every topic.
        """
        del topic

    def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Add partitions, and wait until they are ready. ``added``: partition to broker ids."""
        self._require_ours(topic)
        running = self._running()
        with (
            contextlib.closing(self._view(running)) as view,
            contextlib.closing(self.probe()) as probe,
        ):
            topics.add_partitions(view, running, probe, topic, added)

    def delete_topic(self, topic: str) -> None:
        """Send DeleteTopics to a broker, which forwards it to the controller."""
        self._require_ours(topic)
        topics.delete_topic(self._running(), topic)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Send DeleteRecords to the partition's leader.

        The leader responds when all replicas have deleted the records.
        """
        self._require_ours(topic)
        with contextlib.closing(self.probe()) as probe:
            leader = probe.partition(topic, partition).leader
        topics.delete_records(self._running(), leader, topic, partition, before)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Put a broker first in the assignment, and elect the preferred leader."""
        self._change_leadership(leadership.move, topic, partition, broker)

    def set_next_leader(self, topic: str, partition: int, broker: int) -> None:
        """Reorder the assignment so that this broker is the next leader if the leader fails."""
        self._change_leadership(leadership.set_next_leader, topic, partition, broker)

    def _change_leadership(
        self, change: leadership.LeadershipChange, topic: str, partition: int, broker: int
    ) -> None:
        self._require_ours(topic)
        running = self._running()
        with contextlib.closing(self._view(running)) as view:
            change(view, running, self._paused, topic, partition, broker)

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], *, awaited: bool = True
    ) -> None:
        """Move the partition to these replicas; if ``awaited``, wait until they are in sync."""
        if not awaited:
            self._request_reassignment(topic, partition, replicas)
            return
        self._require_ours(topic)
        running = self._running()
        with contextlib.closing(self._view(running)) as view:
            leadership.assign(view, running, self._paused, topic, partition, replicas)

    def cancel_reassignment(self, topic: str, partition: int) -> None:
        """Cancel the partition's reassignment in progress."""
        self._request_reassignment(topic, partition, None)

    def _request_reassignment(
        self, topic: str, partition: int, replicas: Sequence[int] | None
    ) -> None:
        self._require_ours(topic)
        if not self.release.interrupts_reassignments:
            raise HarnessError(f"Kafka {self.release.name} has no AlterPartitionReassignments")
        running = self._running()
        with contextlib.closing(self._view(running)) as view:
            leadership.request(view, running, topic, partition, replicas)

    def configure(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Write the changed settings to ZooKeeper, or send them to the brokers."""
        self._require_ours(topic)
        running = self._running()
        with contextlib.closing(self._view(running)) as view:
            if isinstance(view, ZooKeeperView):
                topic_config.write(view, self.release, topic, changes)
            else:
                topic_config.request(running, topic, changes)

    def elect_unclean(self, topic: str, partition: int) -> None:
        """Request an election from the controller. On KRaft, a broker forwards the request."""
        self._require_ours(topic)
        candidates = self._running()
        with contextlib.closing(self._view()) as view:
            if isinstance(view, ZooKeeperView):
                controller = view.controller()
                candidates = {id_: candidates[id_] for id_ in candidates if id_ == controller}
        elections.elect_unclean(candidates, topic, partition)
