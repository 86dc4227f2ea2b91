"""Heal the faults that a journal lists, in the run itself, in its guard or in the next run.

Healing needs only the journal.
"""

import contextlib
import operator
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from highwater.clusters.admin.topic_config import GROUP, request
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.external.inventory import Command, Inventory
from highwater.clusters.external.journal import ClusterDamage, Journal
from highwater.clusters.external.metadata import MetadataView, answers
from highwater.clusters.external.security import dialer
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.interruptions import hold_signals
from highwater.harness.base.waiting import NotYetError, SteadyCondition, await_condition
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.cluster_facts import POSITIONS
from highwater.harness.releases.group_protocols import SHARE_BY_DEFAULT, SHARE_GROUP, SHARE_LOCK
from highwater.harness.releases.release import Release
from highwater.harness.runs.plan import group_of, share_group_of, transform_group_of

UP_LIMIT_S: Final = 180.0
_SESSION_LIMIT_S: Final = 30.0
_DELETE_LIMIT_S: Final = 60.0
_AWAY_S: Final = 3.0
"""A deleted topic must stay deleted for this number of seconds. By default, brokers create a topic
again when a client requests it, and our clients request it every second."""

_STEADY_S: Final = 5.0
"""The seconds that a resumed broker may need to notice the end of its session, or that a new
controller may need to send the changed metadata."""

_GROUPS: Final = (group_of, transform_group_of, share_group_of)
"""Functions that return the names of the groups of a run's topic."""

Say = Callable[[str], None]
"""A function that gets a line of text about each completed healing step."""


@dataclass(frozen=True, slots=True)
class ClusterHealer:
    """Heals one cluster.

    Attributes:
        addresses: the addresses of all brokers of the cluster.
        client: settings of librdkafka for access.
        locks: broker id to a lock, which is held while the broker is healed.
    """

    kafka: Release
    addresses: Mapping[int, Address]
    client: Mapping[str, str]
    locks: Mapping[int, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock), init=False
    )

    def heal(self, broker: int, cures: tuple[Command, ...]) -> None:
        """Run a broker's healing commands, unless the broker responds. Wait for its session.

        If two threads call this method, the second thread waits, and then finds the broker healed.
        No command is run twice.
        """
        with self.locks[broker]:
            self._heal(broker, cures)

    def _heal(self, broker: int, cures: tuple[Command, ...]) -> None:
        address = self.addresses[broker]
        if answers(address) and self._has_session(broker):
            return
        if any(cure.verb == "start" for cure in cures):
            self._await_session_end(broker)
        if cures and all(cure.verb == "restart" for cure in cures) and self._comes_up(broker):
            return
        failed: list[str] = []
        for cure in cures:
            with _noting(failed):  # a command may fail if an earlier run has healed the broker
                cure.run()
        try:
            self._await_up(broker)
        except WaitTimeoutError as error:
            raise HarnessError("\n".join([error.message, *failed])) from error

    def _comes_up(self, broker: int) -> bool:
        """Return whether a broker that is restarting becomes ready without a command."""
        try:
            self._await_up(broker)
        except WaitTimeoutError:
            return False
        return True

    def _await_up(self, broker: int) -> None:
        address = self.addresses[broker]
        await_condition(
            partial(self._require_up, broker),
            what=f"broker {broker} at {address} to respond and to have a session",
            limit_s=UP_LIMIT_S,
            every_s=0.1,
        )

    def _require_up(self, broker: int) -> None:
        if not answers(self.addresses[broker]):
            raise NotYetError("it does not respond")
        if not self._has_session(broker):
            raise NotYetError("it responds, but has no session")

    def _await_session_end(self, broker: int) -> None:
        """Wait for a broker's old session to end. Until then ZooKeeper refuses a new session.

        If no broker responds, wait for the longest usual session timeout. A KRaft broker needs no
        wait, because it repeats its registration.
        """
        if self.kafka.coordination == "kraft":
            return
        with contextlib.suppress(WaitTimeoutError):
            await_condition(
                self._live_brokers,
                lambda live: broker not in live,
                what=f"the session of broker {broker} to end",
                limit_s=_SESSION_LIMIT_S,
                passing=(UnreachableError,),
            )

    def _has_session(self, broker: int) -> bool:
        try:
            return broker in self._live_brokers()
        except UnreachableError:
            return False

    def _live_brokers(self) -> frozenset[int]:
        with contextlib.closing(self._view()) as view:
            return view.live_brokers()

    def settle(self) -> None:
        """Wait until every broker lists all brokers in its metadata, for some seconds.

        Until the controller notices the end of a broker's session, all metadata still lists that
        broker. In Kafka 0.10.2, the deletion of a topic with a replica on such a broker never ends
        (``from OfflineReplica to ReplicaDeletionIneligible failed``), and the controller creates no
        topics any more. A KRaft controller has no such problem: it remembers which broker must
        delete which replica.
        """
        if self.kafka.coordination == "kraft":
            return
        with contextlib.closing(self._view()) as view:
            await_condition(
                partial(view.unlisted, self.addresses),
                SteadyCondition(operator.not_, for_s=_STEADY_S),
                what=f"every broker to list all brokers for {_STEADY_S:g} s",
                limit_s=_SESSION_LIMIT_S,
            )

    def delete(self, topic: str) -> None:
        """Delete a run's topic, and wait until it stays deleted; then delete the run's groups.

        If the topic appears again, delete it again.
        """
        self.settle()
        bootstrap = ",".join(map(str, self.addresses.values()))
        settings = {"bootstrap.servers": bootstrap, "log_level": "0"}
        admin = AdminClient({**settings, **self.kafka.client, **self.client})
        with contextlib.closing(self._view()) as view:
            await_condition(
                partial(_delete, admin, view, topic),
                SteadyCondition[frozenset[str]](lambda seen: topic not in seen, for_s=_AWAY_S),
                what=f"topic {topic} to stay deleted for {_AWAY_S:g} s"
                " (is delete.topic.enable on? does a client still use it?)",
                limit_s=_DELETE_LIMIT_S,
                every_s=0.5,
                passing=(UnreachableError, KafkaException),
            )
            if POSITIONS in view.topics():  # a request would create it
                for group in (named(topic) for named in _GROUPS):
                    await_condition(
                        partial(_delete_group, admin, group),
                        what=f"the group {group} to be deleted (does a member still run?)",
                        limit_s=_DELETE_LIMIT_S,
                        every_s=0.5,
                    )
        if self.kafka.number >= SHARE_BY_DEFAULT:
            changes = dict.fromkeys((*SHARE_GROUP, SHARE_LOCK))
            with contextlib.suppress(HarnessError):  # not authorized: no run has changed them
                request(self.addresses, share_group_of(topic), changes, kind=GROUP)

    def _view(self) -> MetadataView:
        return MetadataView(self.kafka, self.addresses, frozenset(self.addresses))


def _delete(admin: AdminClient, view: MetadataView, topic: str) -> frozenset[str]:
    listed = view.topics()
    if topic not in listed:
        return listed
    [done] = admin.delete_topics([topic], operation_timeout=5, request_timeout=10).values()
    with contextlib.suppress(KafkaException):  # the topic is already deleted, or soon
        done.result()
    return listed


def _delete_group(admin: AdminClient, group: str) -> None:
    """Delete a consumer group of the harness, if it exists.

    Brokers before 1.1 cannot delete groups (KIP-229). There the group's committed offsets were
    deleted together with the topic.

    Raises:
        NotYetError: the group still has members.
    """
    [done] = admin.delete_consumer_groups([group], request_timeout=10).values()
    try:
        done.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.NON_EMPTY_GROUP:
            raise NotYetError("it has members") from error


def recover(journal: Journal, say: Say, healer: ClusterHealer | None = None) -> None:
    """Heal all faults that a journal lists. Signals are delayed until the healing ends.

    Raises:
        UsageError: the inventory is missing or broken.
        HarnessError: a fault could not be healed; it stays in the journal.
    """
    entry = journal.entry
    if not entry:
        return
    with hold_signals():
        _recover(journal, say, healer or _healer(entry))


def _recover(journal: Journal, say: Say, healer: ClusterHealer) -> None:
    entry = journal.entry
    failed: list[str] = []
    # Heal in parallel: a KRaft node that is broker and controller starts only with a quorum.
    with ThreadPoolExecutor(max(1, len(entry.wounds)), thread_name_prefix="heal") as pool:
        begun = {
            pool.submit(healer.heal, w.broker, w.cures): w.broker for w in entry.wounds.values()
        }
        for healed in as_completed(begun):
            with _noting(failed):
                healed.result()
                journal.record_healed(begun[healed])
                say(f"broker {begun[healed]} is healed")
    for topic in entry.topics:
        with _noting(failed):
            healer.delete(topic)
            journal.record_deleted(topic)
            say(f"the topic {topic} is deleted")
    if failed:
        raise unhealed_error(journal.entry, failed)


@contextlib.contextmanager
def _noting(failed: list[str]) -> Iterator[None]:
    try:
        yield
    except HarnessError as error:
        failed.append(error.message)


def unhealed_error(entry: ClusterDamage, failed: list[str]) -> HarnessError:
    """Return the error for a cluster that could not be healed."""
    then = f"highwater heal --inventory {entry.inventory}"
    return HarnessError(
        "\n".join(["some faults on the cluster could not be healed:", *failed]),
        hint=f"Run these commands:\n{entry.manual_steps()}\nThen run: {then}",
    )


def _healer(entry: ClusterDamage) -> ClusterHealer:
    inventory = Inventory.read(Path(entry.inventory))
    dial = dialer(inventory.client)
    addresses = {
        broker: replace(Address.parse(text), dial=dial) for broker, text in entry.addresses.items()
    }
    return ClusterHealer(release(inventory.kafka), addresses, inventory.client)
