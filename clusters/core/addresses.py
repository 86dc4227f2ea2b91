"""Addresses of a cluster's processes: in a loopback group, or ports of 127.0.0.1."""

import contextlib
import errno
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import Protocol, Self

import psutil

from highwater.clusters.relay.rules import FIRST_CONTROLLER
from highwater.harness.base.errors import HarnessError

BROKER_PORT = 9092
COORDINATION_PORT = 2181
PEERS_PORT = 9093
CONTROLLER_LISTENER = "CONTROLLER"
_CLAIM_PORT = 9091
_FIRST_BROKER_HOST = 10
_COORDINATION_HOST = 5
_RELAY_HOST = 100
_QUORUM_PORT, _ELECTION_PORT = 2888, 3888
_GROUPS = 250 * 250
_BLOCK = 128
_PORTS = range(20_000, 32_000)
"""Below those that systems give out themselves."""
_BLOCKS = _PORTS[::_BLOCK]
"""First ports of blocks of one cluster each."""


class Connector(Protocol):
    """Opens a connection that is ready for requests. May raise OSError."""

    def __call__(self, address: tuple[str, int], timeout_s: float, /) -> socket.socket:
        """Open the connection; each step takes no longer than the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Host and port of one listener.

    Attributes:
        dial: opens a connection to it; the default is plain TCP.
    """

    host: str
    port: int
    dial: Connector = field(default=socket.create_connection, compare=False, repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``host:port``, or ``[host]:port`` as an address of IPv6 is written."""
        host, _, port = text.rpartition(":")
        return cls(host=host.removeprefix("[").removesuffix("]"), port=int(port))


class Addresses(Protocol):
    """Addresses of a cluster's nodes, as clients or peers see them."""

    @property
    def brokers(self) -> Mapping[int, Address]:
        """Broker id (from 1) to address."""

    @property
    def coordination(self) -> Mapping[int, Address]:
        """Controller id to the address of each ZooKeeper or KRaft controller."""

    @property
    def ensemble(self) -> Mapping[int, "EnsemblePorts"]:
        """Controller id to the ports on which a ZooKeeper listens for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsemblePorts:
    """Ports of one ZooKeeper for the others: for followers while it leads, and for elections."""

    quorum: int = _QUORUM_PORT
    election: int = _ELECTION_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalAddresses:
    """Addresses at which the nodes find each other, where those differ from the public ones."""

    brokers: Mapping[int, Address]
    coordination: Mapping[int, Address]
    ensemble: Mapping[int, EnsemblePorts]


class AddressGroup:
    """Addresses of one cluster, claimed until ``close`` or the end of this process.

    Where all of 127.0.0.0/8 answers (Linux), a cluster takes a free group 127.x.y.0/24 and every
    node has its own address with the well-known port. Elsewhere (macOS) all share 127.0.0.1 and
    each has a port of a free block.

    Attributes:
        brokers: broker id (from 1) to address.
        peers: broker id to a second address, only for its peers.
        coordination: controller id to the address of a ZooKeeper or KRaft controller.
        ensemble: controller id to the ports on which a ZooKeeper listens for the others.
        ensemble_hosts: pairs of ZooKeepers to a host for a relay between them; empty where all
            share 127.0.0.1.
    """

    def __init__(self, brokers: int, controllers: int = 1) -> None:
        self._claim: socket.socket | None = None
        ids = range(1, brokers + 1)
        voters = controller_ids(controllers)
        group = self._claim_group() if _whole_loopback_answers() else None
        if group is not None:
            hosts = {i: broker_host(group, i) for i in ids}
            self.brokers = {i: Address(host=hosts[i], port=BROKER_PORT) for i in ids}
            self.peers = {i: Address(host=hosts[i], port=PEERS_PORT) for i in ids}
            self.coordination = {
                i: Address(host=coordination_host(group, i), port=COORDINATION_PORT) for i in voters
            }
            self.ensemble = {i: EnsemblePorts() for i in voters}
            pairs = permutations(voters, 2)
            self.ensemble_hosts = {
                pair: f"{group}.{_RELAY_HOST + number}" for number, pair in enumerate(pairs)
            }
        else:
            self.ensemble_hosts = {}
            ports = iter(self._claim_ports(2 * brokers + 3 * controllers))
            self.brokers = {i: Address(host="127.0.0.1", port=next(ports)) for i in ids}
            self.peers = {i: Address(host="127.0.0.1", port=next(ports)) for i in ids}
            self.coordination = {i: Address(host="127.0.0.1", port=next(ports)) for i in voters}
            self.ensemble = {
                i: EnsemblePorts(quorum=next(ports), election=next(ports)) for i in voters
            }

    def _claim_group(self) -> str:
        """Claim a group by a bound socket, which the system closes however this process ends."""
        start = os.getpid() * 7
        for attempt in range(_GROUPS):
            high, low = divmod((start + attempt) % _GROUPS, 250)
            group = f"127.{high + 2}.{low + 2}"
            if self._claimed(f"{group}.1", _CLAIM_PORT):
                return group
        raise HarnessError("no free loopback group is left in 127.0.0.0/8")

    def _claim_ports(self, count: int) -> range:
        """Claim a block of ports by its first, so that no other cluster takes them meanwhile."""
        assert count < _BLOCK, count
        for attempt in range(len(_BLOCKS)):
            first = _BLOCKS[(os.getpid() * 7 + attempt) % len(_BLOCKS)]
            ports = range(first + 1, first + 1 + count)
            if self._claimed("127.0.0.1", first):
                if all(map(_is_free, ports)):
                    return ports
                self.close()
        raise HarnessError(f"no free ports are left from {_BLOCKS.start} to {_BLOCKS.stop}")

    def _claimed(self, host: str, port: int) -> bool:
        """Bind the claim to an address; return whether it was free."""
        claim = socket.socket()
        try:
            claim.bind((host, port))
        except OSError:
            claim.close()
            return False
        self._claim = claim
        return True

    def close(self) -> None:
        """Release the group."""
        if self._claim is not None:
            self._claim.close()


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens now, at any address of this machine.

    Raises:
        HarnessError: there are not so many.
    """
    ports = (_PORTS[(os.getpid() * 7 + attempt) % len(_PORTS)] for attempt in range(len(_PORTS)))
    free = [*islice((port for port in ports if _is_free(port, host="")), count)]
    if len(free) < count:
        raise HarnessError(f"no free ports are left from {_PORTS.start} to {_PORTS.stop}")
    return free


def broker_host(group: str, broker_id: int) -> str:
    """Return a broker's host in a group such as ``127.2.3``."""
    return f"{group}.{_FIRST_BROKER_HOST + broker_id}"


def controller_ids(count: int) -> tuple[int, ...]:
    """Return the ids of so many controllers or ZooKeepers."""
    return tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + count))


def coordination_host(group: str, controller_id: int) -> str:
    """Return a ZooKeeper's or a controller's host in a group."""
    return f"{group}.{_COORDINATION_HOST + controller_id - FIRST_CONTROLLER}"


def require_free(address: Address, node: str) -> None:
    """Raise if another process listens on the address, and name that process.

    Raises:
        HarnessError: the port is taken; the message says by which process if that can be seen.
    """
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address.host, address.port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise HarnessError(f"{node} cannot use {address}: {error.strerror}") from error
            raise HarnessError(
                f"{node} cannot start: port {address.port} of {address.host} is in use"
                f"{_holder(address)}",
                hint="End that process, or start again to get other addresses.",
            ) from error


def _holder(address: Address) -> str:
    covering = {address.host, "0.0.0.0", "::"}  # noqa: S104 - we look for these, we bind nothing
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            same = local and local.port == address.port and local.ip in covering
            if same and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return ""


def _whole_loopback_answers() -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.255.1.1", 0))
        except OSError:
            return False
    return True


def _is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True
