"""Put the relay (a proxy) between the nodes of a cluster.

Every broker advertises an address of the relay to other brokers. The relay must know the sender of
each request. A request to a broker or to a KRaft controller contains its sender
(``kafka_frames.sender``). A request to ZooKeeper does not. So each broker has its own relay address
for each ZooKeeper. The harness bypasses the relay. Clients connect through the relay only if
``clients`` is set. Brokers then advertise another relay address to clients, and the relay
identifies a client by its client id.

Releases before 0.10.2 have only one listener, for brokers and clients (KIP-103). Clients of such
releases always connect through the relay. Without ``clients``, no rule applies to them.
"""

from dataclasses import astuple
from typing import Final

from highwater.clusters.core.addresses import Address
from highwater.clusters.nodes.site import Site
from highwater.clusters.relay.client import Relay
from highwater.clusters.relay.rules import COORDINATION, Route, Users
from highwater.harness.releases.release import Release

LISTENER_NAMES: Final = (0, 10, 2)
"""The first release with a separate listener for other brokers (KIP-103)."""


class Wiring:
    """The relay of one cluster: its addresses, and its process.

    Attributes:
        relay: the object that sends commands to the relay's process.
        peers: broker id to the address at which other brokers reach that broker.
        coordination: broker id to controller id to the address at which the broker reaches that
            ZooKeeper or controller.
        controllers: on KRaft, controller id to the address at which other nodes reach it.
        voters: node numbers of the controllers or ZooKeepers that use the relay between them.
        ensemble: pair of ZooKeepers to the host at which the first reaches the second. Empty for a
            single ZooKeeper, on KRaft, and if the machine has no such hosts.
        clients: broker id to the address at which clients reach that broker through the relay.
            Empty if clients connect directly.
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
        addresses = [Address(host=host, port=port) for host, port in self.relay.addresses]
        self.peers: dict[int, Address] = dict(zip(brokers, addresses, strict=False))
        ways = iter(addresses[len(brokers) :])
        by_asker = {broker: dict(zip(voters, ways, strict=False)) for broker in askers}
        self.controllers: dict[int, Address] = by_asker[askers[0]]
        self.coordination: dict[int, dict[int, Address]] = {
            broker: by_asker.get(broker, self.controllers) for broker in brokers
        }
        last = addresses[len(routes) - len(brokers) : len(routes)]
        before_clients = last if self._listeners else addresses
        self.clients: dict[int, Address] = (
            dict(zip(brokers, before_clients, strict=False)) if clients else {}
        )

    def client_listeners(self, broker: int, internal: Address) -> dict[str, str]:
        """Return ``advertised.listeners`` with the relay's address for clients, if they use it.

        Args:
            internal: address for other brokers.
        """
        if not (self.clients and self._listeners):
            return {}
        external = self.clients[broker]
        return {"advertised.listeners": f"EXTERNAL://{external},INTERNAL://{internal}"}

    def close(self) -> None:
        """End the relay's process."""
        self.relay.close()


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
