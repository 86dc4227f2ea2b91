"""Somebody's cluster, for tests of those who are only let in: its brokers obey shell commands.

``kill -STOP PID`` and the like are the machine's own. What starts a broker, or stops it in order,
is told by a line on a socket, as an agent of its machine would be.
"""

import contextlib
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from highwater.clusters.brokers.real_cluster import RealBroker, RealCluster
from highwater.clusters.core.addresses import Address
from highwater.clusters.drivers import open_cluster
from highwater.clusters.external.metadata import query_identity
from highwater.harness.base.errors import HighwaterError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release

ASK: Final = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
    "s.sendall((chr(32).join(sys.argv[2:]) + chr(10)).encode()); sys.exit(s.makefile().read() or 0)"
)


class Landlord:
    """A cluster, its agent, and what an inventory can say of it.

    Attributes:
        cluster_id: as its brokers tell it.
        code: that confirms it.
    """

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.socket = directory / "agent"
        identity = await_condition(
            partial(query_identity, Address.parse(cluster.brokers[1].address)),
            lambda seen: len(seen.addresses) == len(cluster.brokers),
            what="broker 1 to list every broker, of which the code is made",
            limit_s=60,
        )
        self.cluster_id, self.code = identity.cluster_id, identity.code
        self.note_pids()

    @property
    def commands(self) -> dict[str, str]:
        """As a person would write them."""
        agent = f"{sys.executable} -S -c '{ASK}' {self.socket}"
        return {
            "check": "test -r {pid}",
            "kill": "kill -KILL $(cat {pid})",
            "pause": "kill -STOP $(cat {pid})",
            "resume": "kill -CONT $(cat {pid})",
            "stop": f"{agent} stop {{id}}",
            "start": f"{agent} start {{id}}",
            "copy": "cp -r {data}/{topic}-* {data}/*checkpoint {into}",
        }

    def inventory(self, **changes: object) -> Path:
        """Write one; ``changes`` are top-level keys, and ``commands`` are those that change."""
        commands = self.commands | dict(changes.pop("commands", {}))  # type: ignore[call-overload]
        limits = dict(changes.pop("limits", {}))  # type: ignore[call-overload]
        head = {
            "bootstrap": self.cluster.bootstrap,
            "kafka": self.cluster.release.name,
            **changes,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in head.items()]
        lines += ["[commands]"]
        lines += [f"{verb} = {json.dumps(line)}" for verb, line in commands.items() if line]
        lines += ["[limits]", *(f"{verb} = {limit}" for verb, limit in limits.items())]
        for broker in self.cluster.brokers:
            data = self.cluster.directory / "replicas" / str(broker)
            lines += [f"[brokers.{broker}]", f'pid = "{self.pid(broker)}"', f'data = "{data}"']
        path = self.directory / "staging.toml"
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return path

    def pid(self, broker: int) -> Path:
        """The file that has a broker's process id."""
        return self.directory / f"{broker}.pid"

    def note_pids(self) -> None:
        """Write down what runs now."""
        for broker in self.cluster.brokers.values():
            assert isinstance(broker, RealBroker)
            if broker.pids:
                self.pid(broker.id).write_text(str(broker.pids[0]))

    def obey(self, line: str) -> str:
        """Do what a line says; returns what went wrong."""
        verb, broker = line.split()
        target = self.cluster.brokers[int(broker)]
        try:
            target.start() if verb == "start" else target.stop()
        except HighwaterError as error:
            return str(error)
        self.note_pids()
        return ""

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics, Kafka's own too."""
        return query_identity(Address.parse(self.cluster.brokers[1].address)).topics

    @property
    def states(self) -> set[str]:
        """Of all brokers, as the machine sees them."""
        return {broker.state for broker in self.cluster.brokers.values()}


@contextlib.contextmanager
def landlord(kafka: str, directory: Path) -> Iterator[Landlord]:
    """Three brokers of somebody's, until the block ends; topics are made as they are by default."""
    config = {"auto.create.topics.enable": "true"}
    cluster = open_cluster(release(kafka), directory / "theirs", brokers=3, broker_config=config)
    with contextlib.closing(cluster):
        theirs = Landlord(cluster, directory)

        class Agent(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(theirs.obey(self.rfile.readline().decode()).encode())

        with socketserver.ThreadingUnixStreamServer(str(theirs.socket), Agent) as server:
            threading.Thread(target=server.serve_forever, name="agent", daemon=True).start()
            try:
                yield theirs
            finally:
                server.shutdown()
