"""Addresses of a cluster's processes: hosts in a loopback group, or ports of 127.0.0.1."""

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import Self

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
"""Ports that are below the range from which operating systems choose ports."""
_BLOCKS = _PORTS[::_BLOCK]
"""The first port of each block. Each cluster has one block."""


Connector = Callable[[tuple[str, int], float], socket.socket]
"""A function that opens a connection, which is then ready for requests. The arguments are the
address, and the limit in seconds for each step. The function may raise OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Host and port of one listener.

    Attributes:
        dial: opens a connection to the listener; the default is plain TCP.
    """

    host: str
    port: int
    dial: Connector = field(default=socket.create_connection, compare=False, repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address from ``host:port``, or from ``[host]:port`` for IPv6."""
        host, _, port = text.rpartition(":")
        return cls(host=host.removeprefix("[").removesuffix("]"), port=int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsemblePorts:
    """Ports of one ZooKeeper to which other ZooKeepers connect.

    Attributes:
        quorum: port to which followers connect while this ZooKeeper is the leader.
    """

    quorum: int = _QUORUM_PORT
    election: int = _ELECTION_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalAddresses:
    """Addresses at which nodes connect to each other, if they differ from the public addresses."""

    brokers: Mapping[int, Address]
    coordination: Mapping[int, Address]
    ensemble: Mapping[int, EnsemblePorts]


class AddressGroup:
    """Addresses of one cluster, reserved until ``close`` or the end of this process.

    On Linux, a cluster takes a free group 127.x.y.0/24 of loopback addresses. Every node has its
    own address with the well-known port. On macOS, all nodes share 127.0.0.1, and each node has its
    own port in a free block.

    Attributes:
        brokers: broker id (from 1) to address.
        peers: broker id to a second address of the broker, which only other brokers use.
        coordination: controller id to the address of that ZooKeeper or KRaft controller.
        ensemble: controller id to the ports on which that ZooKeeper listens for other ZooKeepers.
        ensemble_hosts: for each pair of ZooKeepers, a host for a relay between the two; empty if
            all nodes share 127.0.0.1.
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
        """Reserve a group such as ``127.2.3``: bind a socket to one of its addresses."""
        start = os.getpid() * 7
        for attempt in range(_GROUPS):
            high, low = divmod((start + attempt) % _GROUPS, 250)
            group = f"127.{high + 2}.{low + 2}"
            if self._claimed(f"{group}.1", _CLAIM_PORT):
                return group
        raise HarnessError("no free group of loopback addresses is left in 127.0.0.0/8")

    def _claim_ports(self, count: int) -> range:
        """Reserve a block of ports: bind the first port of the block."""
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
        """Bind a socket to an address, to reserve it. Return False if the address is in use."""
        claim = socket.socket()
        try:
            claim.bind((host, port))
        except OSError:
            claim.close()
            return False
        self._claim = claim
        return True

    def close(self) -> None:
        """Release the reserved addresses."""
        if self._claim is not None:
            self._claim.close()


Addresses = AddressGroup | InternalAddresses
"""Addresses of a cluster's nodes, for clients or for other nodes."""


def free_ports(count: int) -> list[int]:
    """Return ports on which no process listens, at any address of this machine.

    Raises:
        HarnessError: fewer than ``count`` ports are free.
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
    """Return the ids of a cluster's controllers or ZooKeepers; ``count`` is their number."""
    return tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + count))


def coordination_host(group: str, controller_id: int) -> str:
    """Return a ZooKeeper's or a controller's host in a group such as ``127.2.3``."""
    return f"{group}.{_COORDINATION_HOST + controller_id - FIRST_CONTROLLER}"


def require_free(address: Address, node: str) -> None:
    """Raise an error if another process listens on the address.

    Raises:
        HarnessError: another process uses the port. The message names the process, if the system
            shows it.
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
                f"{_by_process(address)}",
                hint="End that process, or start the run again to get other addresses.",
            ) from error


def _by_process(address: Address) -> str:
    covering = {address.host, "0.0.0.0", "::"}  # noqa: S104 - compared, never bound
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
