"""Puts the relay between the nodes of a cluster, and applies rules by topic and broker.

Every broker advertises an address of the relay to its peers, and has its own relay address for
each ZooKeeper, so that the relay knows which broker asks there. A request to another broker or to a
KRaft controller names its sender (``kafka_frames.sender``). The harness never passes through the
relay, and clients only where asked for: then brokers advertise another address of it to them, and a
client is known by its client id. Releases before 0.10.2 have one listener for all (KIP-103): there
clients always pass through it, and no rule concerns them unless they were asked for.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import astuple, replace
from typing import Any, Final

from highwater.clusters.core.addresses import Address
from highwater.clusters.nodes.site import Site
from highwater.clusters.relay.client import Relay
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import CLIENT, COORDINATION, RelayRule, Route, Users
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release

_WAIT_S: Final = 0.01
LISTENER_NAMES: Final = (0, 10, 2)
"""The first release with a separate listener for peers (KIP-103)."""

Row = dict[str, Any]


class Wiring:
    """The relay of one cluster: its addresses, and its process.

    Attributes:
        relay: sends orders to the process.
        peers: broker id to the address at which the other brokers reach it.
        coordination: broker id to controller id to the address at which it reaches that ZooKeeper
            or controller.
        controllers: controller id to the address at which other nodes reach it on KRaft.
        voters: node numbers of the controllers or ZooKeepers between which the relay stands.
        ensemble: pairs of ZooKeepers to the host at which the first reaches the second; empty for
            one alone, on KRaft, and where such hosts are missing.
        clients: broker id to the address at which clients reach it; empty if they do so directly.
    """

    def __init__(self, release: Release, site: Site, *, clients: bool = False) -> None:
        brokers = site.inside.brokers
        zookeeper = release.coordination == "zookeeper"
        self._listeners = site.public.brokers != brokers
        users: Users = "both" if clients and not self._listeners else "nodes"
        routes = [
            _route(site.wire_host(broker), address, server=broker, users=users)
            for broker, address in brokers.items()
        ]
        voters = site.inside.coordination
        numbers = {id_: id_ if len(voters) > 1 else COORDINATION for id_ in voters}
        askers = list(brokers) if zookeeper else list(brokers)[:1]
        routes += [
            _route(
                site.wire_host(broker),
                address,
                server=numbers[id_],
                source=broker if zookeeper else None,
                zookeeper=zookeeper,
            )
            for broker in askers
            for id_, address in voters.items()
        ]
        if clients and self._listeners:
            routes += [
                _route(site.wire_host(broker), address, server=broker, users="clients")
                for broker, address in site.public.brokers.items()
            ]
        self.ensemble = site.ensemble_hosts if zookeeper and len(voters) > 1 else {}
        apart = self.ensemble or not zookeeper
        self.voters = frozenset(numbers.values()) if apart else frozenset[int]()
        ways_of_peers = [
            Route(
                listen=(host, port),
                upstream=(voters[target].host, port),
                server=target,
                source=source,
                alias=f"{self.ensemble[target, source]}:{site.inside.ensemble[source].election}",
            )
            for (source, target), host in self.ensemble.items()
            for port in astuple(site.inside.ensemble[target])
        ]
        self.relay = Relay([*routes, *ways_of_peers])
        addresses = self.relay.addresses
        self.peers: Mapping[int, Address] = dict(zip(brokers, addresses, strict=False))
        ways = iter(addresses[len(brokers) :])
        by_asker = {broker: dict(zip(voters, ways, strict=False)) for broker in askers}
        self.controllers: Mapping[int, Address] = by_asker[askers[0]]
        self.coordination: Mapping[int, Mapping[int, Address]] = {
            broker: by_asker.get(broker, self.controllers) for broker in brokers
        }
        last = addresses[len(routes) - len(brokers) : len(routes)]
        before_clients = last if self._listeners else addresses
        self.clients: Mapping[int, Address] = (
            dict(zip(brokers, before_clients, strict=False)) if clients else {}
        )

    def client_listeners(self, broker: int) -> dict[str, str]:
        """Return the setting of a broker that leads clients to the relay, if they are to use it."""
        if not (self.clients and self._listeners):
            return {}
        external, internal = self.clients[broker], self.peers[broker]
        return {"advertised.listeners": f"EXTERNAL://{external},INTERNAL://{internal}"}

    def close(self) -> None:
        """End the process."""
        self.relay.close()


class RelayNetwork:
    """The links of a cluster; the Network of ``clusters.core.interfaces``.

    Args:
        relay: relay of the cluster.
        brokers: ids of the brokers.
        topic_id: returns the id by which brokers fetch a topic; "" where they use its name.
        controllers: node numbers of ZooKeepers or KRaft controllers between which it stands.
    """

    def __init__(
        self,
        relay: Relay,
        brokers: frozenset[int],
        topic_id: Callable[[str], str],
        *,
        controllers: frozenset[int] = frozenset((COORDINATION,)),
    ) -> None:
        self.nodes = brokers | {COORDINATION}
        self.controllers = controllers
        self.brokers = brokers
        self.topic_id = topic_id
        self._relay = relay

    def under(self, *rules: RelayRule) -> AbstractContextManager[None]:
        """Apply rules to links while the block lasts; afterwards everything goes on."""
        return self._relay.under(*rules)

    @contextlib.contextmanager
    def hw_held(self, topic: str, partition: int, *followers: int, above: int) -> Iterator[None]:
        """Hold every response to followers with a HW above an offset, while the block lasts."""
        names = frozenset(filter(None, (topic, self.topic_id(topic))))
        links = frozenset(
            (leader, follower)
            for leader in self.brokers
            for follower in followers
            if leader != follower
        )
        rule = RelayRule(
            kind="hold", links=links, what="hw", topics=names, partition=partition, above=above
        )
        with self._relay.under(rule):
            yield

    def held_messages(self, what: str) -> list[Row]:
        """Return the messages of one kind that were held back so far."""
        return [row for row in self._relay.held_messages() if row["what"] == what]

    def await_held(self, what: str, *targets: int, since_ns: int = 0, limit_s: float) -> None:
        """Wait until a message of one kind to each of these nodes has been held back.

        Args:
            since_ns: only messages since then, by the monotonic clock, count.

        Raises:
            WaitTimeoutError: it has not happened within the limit.
        """
        deadline = time.monotonic() + limit_s
        pause = threading.Event()
        while True:
            seen = {row["target"] for row in self.held_messages(what) if row["time_ns"] >= since_ns}
            if seen >= set(targets):
                return
            if time.monotonic() > deadline:
                raise WaitTimeoutError(
                    f"the wire has held no {what} message to {sorted(set(targets) - seen)}"
                    f" within {limit_s:g} s"
                )
            pause.wait(_WAIT_S)

    def catch(self, rule: MessageRule) -> "RelayMessages":
        """Act on single messages until ``release``; topics have their ids, too."""
        ids = {self.topic_id(topic) for topic in rule.topics} - {""}
        return RelayMessages(self._relay, replace(rule, topics=rule.topics | ids))

    def clients(self) -> list[str]:
        """Return the clients whose connections pass the relay now."""
        return [name.removeprefix(CLIENT) for name in self._relay.clients()]

    def name_client(self, name: str, pid: int) -> None:
        """Know a process, and what it starts, as a client of that name, from now on."""
        self._relay.name_client(name, pid)

    def record_requests(self, topics: Collection[str], group: str) -> None:
        """Tell the watcher of clients' requests that write to topics, or commit as a group.

        Without topics that ends, and names of processes are forgotten.
        """
        ids = {self.topic_id(topic) for topic in topics if topic} - {""}
        self._relay.record({*topics, *ids}, group)

    def watch(self, watcher: Callable[[Row], None] | None) -> None:
        """Call ``watcher`` for every message about replication, on the relay's own thread."""
        self._relay.watch(watcher)


class RelayMessages:
    """The messages that one rule acts on; the CaughtMessages of ``clusters.core.interfaces``."""

    def __init__(self, relay: Relay, rule: MessageRule) -> None:
        self._relay = relay
        self._number = relay.catch(rule)

    def events(self, *names: str) -> list[Row]:
        """Return the events so far, in their order; of these names, if any is given."""
        rows = self._relay.events(self._number)
        return [row for row in rows if not names or row["event"] in names]

    @property
    def caught(self) -> int:
        """The number of messages that it has acted on so far."""
        return len(self.events("caught"))

    def await_event(self, event: str, *, limit_s: float, times: int = 1) -> None:
        """Wait until an event has happened to messages of the rule so often.

        Raises:
            WaitTimeoutError: it has not, within the limit.
        """
        await_condition(
            lambda: len(self.events(event)),
            lambda count: count >= times,
            what=f"the wire to report {event} of a message",
            limit_s=limit_s,
            every_s=_WAIT_S,
        )

    def let_pass(self, *, lose: bool = False) -> None:
        """Let the messages in hand go on, or lose them; the rule acts on those to come."""
        self._relay.let_pass(self._number, lose=lose)

    def release(self, cause: str = "order") -> None:
        """End the rule; messages in hand go on. May be called twice."""
        self._relay.drop(self._number, cause=cause)


def _route(
    host: str,
    upstream: Address,
    *,
    server: int,
    source: int | None = None,
    users: Users = "nodes",
    zookeeper: bool = False,
) -> Route:
    return Route(
        listen=(host, 0),
        upstream=(upstream.host, upstream.port),
        server=server,
        source=source,
        users=users,
        zookeeper=zookeeper,
    )
