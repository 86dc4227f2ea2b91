"""An external cluster. The harness makes only changes that it can undo from outside."""

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

from highwater.clusters.admin import topic_config, topics
from highwater.clusters.admin.administered import AdministeredCluster
from highwater.clusters.admin.probe import ClusterProbe
from highwater.clusters.brokers import freeze
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import Broker, Coordinator, Probe
from highwater.clusters.external.brokers import ExternalBroker
from highwater.clusters.external.healing import ClusterHealer, recover
from highwater.clusters.external.identity import identify, recognise
from highwater.clusters.external.inventory import Inventory, resolved
from highwater.clusters.external.journal import (
    ClusterDamage,
    Journal,
    folders_to_heal,
    journal_folder,
    topics_made,
)
from highwater.clusters.external.metadata import ClusterIdentity, MetadataView
from highwater.clusters.nodes.kraft_features import finalized_features
from highwater.clusters.releases.software_level import Level
from highwater.harness.base import interruptions
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.release import Release

_GUARD: Final = "highwater.clusters.external.guard"
_GUARD_ENDS_S: Final = 5.0
_LOG: Final = logging.getLogger("highwater.external")


def heal_leftovers(inventory: Path, say: Callable[[str], None] = _LOG.warning) -> int:
    """Heal the faults of killed runs with this inventory; return the number of healed clusters."""
    folders = folders_to_heal(inventory)
    for folder in folders:
        nothing = ClusterDamage(cluster_id="", inventory=str(inventory), addresses={})
        journal = Journal.locked(folder, nothing)
        try:
            recover(journal, say)
        finally:
            journal.release()
    return len(folders)


def delete_left_topics(path: Path, say: Callable[[str], None]) -> None:
    """Delete topics with the inventory's prefix that ended runs of this machine created.

    Other topics may belong to a run on another machine, and are not deleted.

    Args:
        say: gets a sentence about each topic.

    Raises:
        HarnessError: no broker responds, or a run is active on the cluster.
    """
    inventory = Inventory.read(path)
    identity = recognise(inventory)
    left = sorted(topic for topic in identity.topics if topic.startswith(inventory.prefix))
    if not left:
        return
    folder = journal_folder(identity.cluster_id)
    nothing = ClusterDamage(cluster_id=identity.cluster_id, inventory=str(path), addresses={})
    journal = Journal.locked(folder, nothing)
    healer = ClusterHealer(release(inventory.kafka), identity.addresses, inventory.client)
    made = topics_made(folder)
    try:
        for topic in left:
            if topic not in made:
                say(f"the topic {topic} is not deleted, because no run of this machine created it")
                continue
            healer.delete(topic)
            say(
                f"the topic {topic} is deleted; the run {made[topic].run} created it at"
                f" {made[topic].at}"
            )
    finally:
        journal.release()


def open_cluster(path: Path, confirm: str, directory: Path) -> "ExternalCluster":
    """Lock and open a cluster. First heal the faults that a killed run left.

    Raises:
        UsageError: the user has confirmed another cluster, or the inventory does not match it.
        HarnessError: no broker responds, another run is active on the cluster, or a ``check``
            command fails.
    """
    path = resolved(path)
    inventory = Inventory.read(path)
    heal_leftovers(path)
    identity = identify(inventory, confirm)
    entry = ClusterDamage(
        cluster_id=identity.cluster_id,
        inventory=str(path),
        addresses={broker: str(address) for broker, address in identity.addresses.items()},
    )
    journal = Journal.locked(journal_folder(identity.cluster_id), entry)
    with contextlib.ExitStack() as undo:
        undo.callback(journal.release)
        recover(journal, _LOG.warning)  # faults of a run with another inventory
        journal.entry = entry
        opened = ExternalCluster(inventory, identity, journal, directory)
        undo.pop_all()
        undo.callback(opened.close)
        opened.check()
        undo.pop_all()
    return opened


class ExternalCluster(AdministeredCluster):
    """A Cluster (``clusters.core.interfaces``) from an inventory. ``open_cluster`` opens it.

    The cluster uses only the brokers in the inventory, and changes only topics that it created.
    """

    def __init__(
        self, inventory: Inventory, identity: ClusterIdentity, journal: Journal, directory: Path
    ) -> None:
        self._inventory = inventory
        self._release = release(inventory.kafka)
        self.directory = directory.absolute()
        self.bootstrap = inventory.bootstrap
        self.client = {**self.release.client, **inventory.client}
        self.network = None
        self._addresses = identity.addresses
        self._journal = journal
        self._healer = ClusterHealer(self.release, identity.addresses, inventory.client)
        reading, self._hold = os.pipe()
        self._guard = _guard(journal, reading)
        os.close(reading)
        self._brokers: dict[int, ExternalBroker] = {
            broker: ExternalBroker(
                id=broker,
                host=identity.addresses[broker],
                inventory=inventory,
                journal=journal,
                healer=self._healer,
                hold=self._hold,
            )
            for broker in sorted(inventory.brokers)
        }
        self._closed = False
        interruptions.announce(self._steps_left)

    @property
    def release(self) -> Release:
        return self._release

    @property
    def brokers(self) -> Mapping[int, Broker]:
        return MappingProxyType[int, Broker](self._brokers)

    @property
    def controllers(self) -> Mapping[int, Coordinator]:
        """An empty mapping, because ZooKeeper and controllers are not accessible."""
        return MappingProxyType({})

    def check(self) -> None:
        """Check that no other run is active on the cluster, and that the commands would work."""
        self._refuse_others()
        for broker in self._brokers if self._inventory.can("check") else ():
            self._inventory.command("check", broker).run()

    def probe(self) -> Probe:
        return ClusterProbe(lambda _: self.release.wire, self._addresses, self._view())

    def finalize(self, level: Level) -> NoReturn:
        _refuse(f"brokers cannot be upgraded to {level}")

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Create a topic that ``close`` deletes.

        The topic's name shows other runs that this run is active.
        """
        if not name.startswith(self._inventory.prefix):
            _refuse(f"the name of the topic {name} must begin with {self._inventory.prefix}")
        with contextlib.closing(self._view()) as view:
            if name in view.topics():
                _refuse(f"the topic {name} already exists, and this run did not create it")
        self._journal.record_topic(name, self.directory)
        with contextlib.closing(self.probe()) as probe:
            topics.create_topic(self.release, self._addresses, probe, name, assignment, settings)
        self._refuse_others()

    def finalize_features(self, levels: Mapping[str, int]) -> None:
        """Raise HarnessError if a feature is below its level; only the owner changes features."""
        present = finalized_features(self._running())
        if lower := [name for name, level in levels.items() if present.get(name, 0) < level]:
            _refuse(f"the feature {lower[0]} is off, and cannot be changed")

    def configure_group(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Change the settings of a group of this run. ``ClusterHealer`` removes them."""
        if not group.startswith(tuple(f"{topic}-" for topic in self._journal.entry.topics)):
            _refuse(f"the settings {[*changes]} of group {group} cannot be changed")
        topic_config.request(self._running(), group, changes, kind=topic_config.GROUP)

    def configure_controllers(self, changes: Mapping[str, str | None]) -> NoReturn:
        _refuse(f"the controllers' settings {[*changes]} cannot be changed")

    def add_voter(self, controller_id: int) -> NoReturn:
        _refuse(f"controller {controller_id} is not accessible")

    remove_voter = add_voter

    def end_session(self, broker: int) -> None:
        _refuse(f"the session of broker {broker} is not accessible")

    def keep_session(self, broker: int) -> bool:
        _refuse(f"the session of broker {broker} is not accessible")

    def snapshot(self, topics: Collection[str], directory: Path) -> None:
        """Copy topics' replicas with the inventory's command, one broker after another.

        No client writes to the topics any more. Every process on the broker's machine can read the
        data that the broker has written. So a copy is complete although the broker runs.
        """
        for topic in topics:
            self._require_ours(topic)
        for broker in self._brokers.values():
            with tempfile.TemporaryDirectory(prefix="highwater-") as temporary:
                target = Path(temporary) / str(broker.id)
                target.mkdir()
                with self._quiesced(broker):
                    for topic in topics:
                        copy = self._inventory.command(
                            "copy", broker.id, topic=topic, into=str(target)
                        )
                        copy.run()
                freeze.copy_topics(Path(temporary), topics, directory)

    def freeze(self) -> Path:
        """Copy the replicas of this run's topics, if the inventory has a ``copy`` command.

        The brokers continue to run. A run that created no topic copies nothing.
        """
        replicas = self.directory / "replicas"
        if self._inventory.can("copy") and (topics := self._journal.entry.topics):
            self.snapshot(topics, replicas)
        return replicas

    def close(self) -> None:
        """Heal every broker, delete the topics, and unlock. Never raises an error.

        Faults that cannot be healed stay in the journal, and are logged to standard error. Signals
        are delayed until the end. Otherwise, after a second Ctrl-C, the guard would start to heal
        again.
        """
        if not self._closed:
            with interruptions.hold_signals():
                self._close()

    def _close(self) -> None:
        self._closed = True
        try:
            recover(self._journal, lambda _: None, self._healer)
        except HarnessError as error:
            _LOG.warning("%s", error)
        finally:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            os.close(self._hold)
            self._journal.release()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guard.wait(_GUARD_ENDS_S)
            interruptions.withdraw(self._steps_left)

    def _steps_left(self) -> str:
        return self._journal.entry.steps_left()

    @contextlib.contextmanager
    def _quiesced(self, broker: ExternalBroker) -> Iterator[None]:
        match self._inventory.copied:
            case "paused":
                broker.pause()
            case "stopped":
                broker.stop()
        try:
            yield
        finally:
            broker.heal()

    def _refuse_others(self) -> None:
        """Raise an error if another run, on any machine, has a topic with our prefix."""
        with contextlib.closing(self._view()) as view:
            topics = {topic for topic in view.topics() if topic.startswith(self._inventory.prefix)}
        if others := sorted(topics - set(self._journal.entry.topics)):
            raise HarnessError(
                "another run is active on the cluster, or a killed run left topics there:"
                f" {', '.join(others)}",
                hint="Wait until that run ends. If no run is active, highwater heal --inventory"
                " FILE deletes the topics that runs of this machine created.",
            )

    def _require_ours(self, topic: str) -> None:
        if topic not in self._journal.entry.topics:
            _refuse(f"the topic {topic} cannot be changed, because this run did not create it")

    def _running(self) -> dict[int, Address]:
        damaged = [id_ for id_, broker in self._brokers.items() if broker.state != "running"]
        return {id_: address for id_, address in self._addresses.items() if id_ not in damaged}

    def _paused(self, *_: int) -> AbstractContextManager[None]:
        """Raise HarnessError. A reassignment on KRaft never calls this method."""
        _refuse("brokers cannot be paused during an administrator's change")

    def _view(self, _: Mapping[int, Address] | None = None) -> MetadataView:
        return MetadataView(self.release, self._addresses, frozenset(self._inventory.brokers))


def _guard(journal: Journal, commands_end: int) -> "subprocess.Popen[bytes]":
    """Start the guard, which shares the journal's lock.

    If this process is killed, the guard heals the faults.
    """
    return subprocess.Popen(
        [sys.executable, "-m", _GUARD, str(journal.folder), str(commands_end), str(journal.lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
        pass_fds=(commands_end, journal.lock),
        start_new_session=True,  # so that a terminal's Ctrl-C does not reach the guard
    )


def _refuse(what: str) -> NoReturn:
    raise HarnessError(
        f"{what}, on an external cluster", hint="docs/external.md lists the possible changes."
    )
