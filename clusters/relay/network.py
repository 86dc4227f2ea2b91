"""Puts the relay between the nodes of a cluster, and applies rules by topic and broker.

Every broker advertises an address of the relay to its peers, and has its own relay address for
each ZooKeeper, so that the relay knows which broker sends a request there. A request to another
broker or to a KRaft controller names its sender (``kafka_frames.sender``). The harness never
connects through the relay. Clients do so only on request (``clients``): then brokers advertise
another relay address to clients, and the relay knows a client by its client id. Releases before
0.10.2 have one listener for peers and clients (KIP-103): there clients always connect through the
relay, and without the request no rule applies to them.
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
        relay: sends orders to the relay's process.
        peers: broker id to the address at which other brokers reach that broker.
        coordination: broker id to controller id to the address at which the broker reaches that
            ZooKeeper or controller.
        controllers: on KRaft, controller id to the address at which other nodes reach it.
        voters: node numbers of the controllers or ZooKeepers between which the relay is.
        ensemble: pair of ZooKeepers to the host at which the first reaches the second; empty for a
            single ZooKeeper, on KRaft, and where the machine has no such hosts.
        clients: broker id to the address at which clients reach that broker through the relay;
            empty if clients connect directly.
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
        """Return a broker's setting that leads clients to the relay; {} if clients bypass it."""
        if not (self.clients and self._listeners):
            return {}
        external, internal = self.clients[broker], self.peers[broker]
        return {"advertised.listeners": f"EXTERNAL://{external},INTERNAL://{internal}"}

    def close(self) -> None:
        """End the relay's process."""
        self.relay.close()


class RelayNetwork:
    """The links of a cluster; it implements Network of ``clusters.core.interfaces``.

    Args:
        relay: relay of the cluster.
        brokers: ids of the brokers.
        topic_id: returns a topic's id in fetch requests; "" where brokers fetch by name.
        controllers: node numbers of ZooKeepers or KRaft controllers between which the relay is.
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
        """Apply rules to links during the ``with`` block; after it, all messages go on."""
        return self._relay.under(*rules)

    @contextlib.contextmanager
    def hw_held(self, topic: str, partition: int, *followers: int, above: int) -> Iterator[None]:
        """Hold responses to followers that carry a HW above an offset, during the block."""
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
        """Return the messages of one kind that the relay has held back so far."""
        return [row for row in self._relay.held_messages() if row["what"] == what]

    def await_held(self, what: str, *targets: int, since_ns: int = 0, limit_s: float) -> None:
        """Wait until the relay has held back a message of one kind to each of these nodes.

        Args:
            since_ns: only messages after this time of the monotonic clock count.

        Raises:
            WaitTimeoutError: this has not happened within the limit.
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
        """Act on single messages until ``release``; add the ids of the rule's topics."""
        ids = {self.topic_id(topic) for topic in rule.topics} - {""}
        return RelayMessages(self._relay, replace(rule, topics=rule.topics | ids))

    def clients(self) -> list[str]:
        """Return the clients whose connections pass the relay now."""
        return [name.removeprefix(CLIENT) for name in self._relay.clients()]

    def name_client(self, name: str, pid: int) -> None:
        """Treat a process, and processes that it starts, as the client ``name`` from now on."""
        self._relay.name_client(name, pid)

    def record_requests(self, topics: Collection[str], group: str) -> None:
        """Report to the watcher the clients' requests that write to topics or commit as a group.

        A call without topics ends this, and the names of processes are forgotten.
        """
        ids = {self.topic_id(topic) for topic in topics if topic} - {""}
        self._relay.record({*topics, *ids}, group)

    def watch(self, watcher: Callable[[Row], None] | None) -> None:
        """Call ``watcher`` for every message about replication, on the relay's own thread."""
        self._relay.watch(watcher)


class RelayMessages:
    """The messages that one rule acts on (CaughtMessages of ``clusters.core.interfaces``)."""

    def __init__(self, relay: Relay, rule: MessageRule) -> None:
        self._relay = relay
        self._number = relay.catch(rule)

    def events(self, *names: str) -> list[Row]:
        """Return the events so far, in order; only events with these names, if names are given."""
        rows = self._relay.events(self._number)
        return [row for row in rows if not names or row["event"] in names]

    @property
    def caught(self) -> int:
        """The number of messages that the rule has acted on so far."""
        return len(self.events("caught"))

    def await_event(self, event: str, *, limit_s: float, times: int = 1) -> None:
        """Wait until an event has happened ``times`` times to messages of the rule.

        Raises:
            WaitTimeoutError: this has not happened within the limit.
        """
        await_condition(
            lambda: len(self.events(event)),
            lambda count: count >= times,
            what=f"the wire to report {event} of a message",
            limit_s=limit_s,
            every_s=_WAIT_S,
        )

    def let_pass(self, *, lose: bool = False) -> None:
        """Let the held messages go on, or lose them; the rule still acts on later messages."""
        self._relay.let_pass(self._number, lose=lose)

    def release(self, cause: str = "order") -> None:
        """End the rule; held messages go on. May be called twice."""
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
