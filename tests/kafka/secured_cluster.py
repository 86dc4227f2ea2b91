"""Somebody's cluster behind a real sshd: brokers that speak SASL_SSL with SCRAM-SHA-512 alone.

The nodes are processes of this test, under the guard of the local driver; an inventory reaches them
by ssh, and on the other side by ``systemctl``, for which ``stand_ins/systemctl`` stands.
"""

import contextlib
import getpass
import json
import os
import shutil
import socketserver
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from highwater.clusters.core.addresses import Address, AddressGroup
from highwater.clusters.core.java_properties import to_properties
from highwater.clusters.external.identity import recognise
from highwater.clusters.external.inventory import Inventory
from highwater.clusters.local.driver import _sharing
from highwater.clusters.local.jvm_process import ChildProcess
from highwater.clusters.nodes import config_files, jvm
from highwater.clusters.releases.jars import classpath
from highwater.harness.base.errors import HarnessError, HighwaterError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release
from tests.kafka.external_cluster import ASK
from tests.support.free_ports import free_ports

EXAMPLES: Final = Path(__file__).parents[2] / "docs" / "examples" / "inventories"
STAND_INS: Final = Path(__file__).with_name("stand_ins")
SSHD: Final = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
PASSWORD: Final = "the-right-one"  # noqa: S105 - of a cluster that lives for a test
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_CONTROLLER: Final = 100
_BOOT_S: Final = 90.0
_STOP_S: Final = 60.0


def certificate(folder: Path, hosts: list[str]) -> tuple[Path, Path]:
    """A certificate for these addresses that signs itself, and it with its key."""
    folder.mkdir(exist_ok=True)
    cert, key, both = folder / "cert.pem", folder / "key.pem", folder / "both.pem"
    names = ",".join(f"IP:{host}" for host in hosts)
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kafka"]
    words += ["-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *words], check=True, capture_output=True)  # noqa: S607
    both.write_text(key.read_text() + cert.read_text())
    return cert, both


class Secured:
    """A controller and three brokers.

    Attributes:
        cert: what clients have to trust.
    """

    def __init__(self, kafka: str, directory: Path) -> None:
        self.kafka = release(kafka)
        self.directory = directory
        self.group = AddressGroup(3)
        hosts = [address.host for address in self.group.brokers.values()]
        self.cert, self._both = certificate(directory / "tls", hosts)
        self._processes: dict[int, ChildProcess] = {}
        self._runtime = jvm.Runtime(
            java=str(jvm.java()),
            jars=tuple(str(path) for path in classpath(self.kafka)),
            sharing=tuple(_sharing(self.kafka)),
        )
        cluster = config_files.kafka_uuid()
        for node in (_CONTROLLER, *self.group.brokers):
            self.data(node).mkdir()
            if node != _CONTROLLER:
                config_files.format_node(self.data(node), node, cluster)
            settings = to_properties(self._settings(node))
            self._file(node, "properties").write_text(settings, encoding="ascii")
        self._format_controller(cluster)

    def open(self) -> None:
        """Start all nodes at once."""
        for node in (_CONTROLLER, *self.group.brokers):
            self._launch(node)
        for node in self.group.brokers:
            self._await_port(node)

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.group.brokers.values()))

    @property
    def client(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "highwater",
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.cert),
        }

    @property
    def states(self) -> dict[int, str]:
        """Of the brokers, as the machine sees them."""
        return {node: self._processes[node].state for node in self.group.brokers}

    def data(self, node: int) -> Path:
        """A node's log directory."""
        return self.directory / f"data-{node}"

    def obey(self, line: str) -> str:
        """Do what an agent's line says; returns what went wrong."""
        verb, node = line.split()
        process = self._processes[int(node)]
        try:
            if verb in {"stop", "restart"} and not process.terminate(limit_s=_STOP_S):
                return f"broker {node} does not end"
            if verb in {"start", "restart"} and process.state == "running":
                return ""
            if verb in {"start", "restart"}:
                self._launch(int(node))
                self._await_port(int(node))
        except HighwaterError as error:
            return str(error)
        return ""

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.release()
        self.group.close()

    def _file(self, node: int, ending: str) -> Path:
        return self.directory / f"{node}.{ending}"

    def _settings(self, node: int) -> Mapping[str, str]:
        voters = {_CONTROLLER: self.group.coordination[_CONTROLLER]}
        if node == _CONTROLLER:
            return config_files.controller(
                self.kafka,
                node,
                voters[node],
                voters=voters,
                log_directory=self.data(node),
                overrides={},
            )
        address = self.group.brokers[node]
        login = f'{_SCRAM} username="broker" password="{PASSWORD}";'
        secured = {
            "listeners": f"SASL_SSL://{address}",
            "advertised.listeners": f"SASL_SSL://{address}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.cert),
        }
        return config_files.broker(
            self.kafka,
            node,
            public=address,
            inside=address,
            advertised=address,
            log_directories=[self.data(node)],
            coordination=voters,
            overrides=secured,
        )

    def _format_controller(self, cluster: str) -> None:
        """Let Kafka's own tool write the features, and the users with their passwords."""
        users = [
            f"--add-scram=SCRAM-SHA-512=[name={name},password={PASSWORD}]"
            for name in ("broker", "highwater")
        ]
        settings = str(self._file(_CONTROLLER, "properties"))
        command = self._command("kafka.tools.StorageTool", "format", "-t", cluster, "-c", settings)
        subprocess.run([*command, *users], check=True, capture_output=True, timeout=120)

    def _command(self, main: str, *words: str) -> list[str]:
        logging = jvm.write_logging(self.kafka, self.directory)
        return jvm.command(
            self._runtime, main, words, heap_mb=self.kafka.heap_mb, properties=logging
        )

    def _launch(self, node: int) -> None:
        process = ChildProcess(
            f"node-{node}",
            self._command("kafka.Kafka", str(self._file(node, "properties"))),
            log=self._file(node, "log"),
            directory=self.directory,
            environment=jvm.environment(),
        )
        self._processes[node] = process
        await_condition(lambda: process.pid, bool, what="a process", limit_s=60)
        self._file(node, "pid").write_text(str(process.pid))

    def _await_port(self, node: int) -> None:
        address = self.group.brokers[node]

        def dial() -> None:
            if self._processes[node].state == "down":
                tail = self._file(node, "log").read_text().splitlines()[-5:]
                raise HarnessError(f"node {node} ended: {tail}")
            _dial(address)

        await_condition(dial, what=f"broker {node} to listen", limit_s=_BOOT_S, passing=(OSError,))


class Staging:
    """The cluster, its machines' sshd, and the inventory of docs/examples that reaches it.

    Attributes:
        path: folder with the programs of the machine that Highwater runs on: its ``ssh``.
        cluster_id: as its brokers tell it.
        code: that confirms it.
    """

    def __init__(self, cluster: Secured, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.path = directory / "bin"
        self._ports = free_ports(3)
        self._prepare()
        identity = await_condition(
            lambda: recognise(Inventory.read(self.inventory())),
            what="the brokers to know each other",
            limit_s=_BOOT_S,
            passing=(HighwaterError,),
            every_s=0.5,
        )
        self.cluster_id, self.code = identity.cluster_id, identity.code

    @property
    def environment(self) -> dict[str, str]:
        """Of a highwater that finds the machines by their names."""
        return {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"}

    def inventory(self, *, hosts: str = "b{}.staging", **client: str) -> Path:
        """Write the example's, with this cluster's addresses, user and certificate."""
        inventory = tomllib.loads((EXAMPLES / "ssh-systemd.toml").read_text("utf-8"))
        inventory |= {"bootstrap": self.cluster.bootstrap, "kafka": self.cluster.kafka.name}
        inventory["client"] = self.cluster.client | client
        for broker, names in inventory["brokers"].items():
            names |= {"data": str(self.cluster.data(int(broker))), "host": hosts.format(broker)}
        path = self.directory / "staging.toml"
        path.write_text(as_toml(inventory), encoding="utf-8")
        return path

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Let an sshd answer while the block lasts."""
        if os.geteuid() == 0:  # sshd's own folder, which a system that boots makes
            Path("/run/sshd").mkdir(exist_ok=True)
        with (self.directory / "sshd.log").open("ab") as log:
            words = [str(SSHD), "-D", "-e", "-f", str(self.directory / "sshd_config")]
            sshd = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log)
        try:
            for port in self._ports:
                await_condition(
                    partial(_dial, Address(host="127.0.0.1", port=port)),
                    what=f"sshd to listen ({self.directory / 'sshd.log'} has what it said)",
                    limit_s=60,
                    passing=(OSError,),
                )
            yield
        finally:
            sshd.terminate()
            sshd.wait(10)

    def _prepare(self) -> None:
        """Write keys, both configurations, and the programs of both sides."""
        self.path.mkdir()
        there = self.directory / "there"
        shutil.copytree(STAND_INS, there)
        agent = f"exec {sys.executable} -S -c '{ASK}' {self.directory / 'agent'} \"$@\"\n"
        program(there / "agent", agent)
        for name in ("host", "user"):
            key = str(self.directory / name)
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key]
            subprocess.run(words, check=True)
        config = self.directory / "ssh_config"
        program(self.path / "ssh", f'exec {shutil.which("ssh")} -F {config} "$@"\n')
        config.write_text("".join(self._host(number) for number in (1, 2, 3)))
        keys = self.directory / "known_hosts"
        public = (self.directory / "host.pub").read_text()
        keys.write_text("".join(f"[127.0.0.1]:{port} {public}" for port in self._ports))
        path = f"{there}:{os.environ['PATH']}"
        lines = [
            *(f"Port {port}" for port in self._ports),
            "ListenAddress 127.0.0.1",
            f"HostKey {self.directory / 'host'}",
            f"AuthorizedKeysFile {self.directory / 'user.pub'}",
            f"PidFile {self.directory / 'sshd.pid'}",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "StrictModes no",
            "PermitRootLogin prohibit-password",
        ]
        for number, port in enumerate(self._ports, start=1):
            lines.append(f"Match LocalPort {port}")
            lines.append(f'  SetEnv "PATH={path}" NODE={number} MACHINES={self.directory}')
        (self.directory / "sshd_config").write_text("\n".join([*lines, ""]))

    def _host(self, number: int) -> str:
        return (
            f"Host b{number}.staging\n  HostName 127.0.0.1\n  Port {self._ports[number - 1]}\n"
            f"  User {getpass.getuser()}\n  IdentityFile {self.directory / 'user'}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.directory / 'known_hosts'}\n"
        )


def as_toml(tables: Mapping[str, Any]) -> str:
    """Write an inventory: top-level keys, tables, and the tables of brokers."""
    brokers = {f"brokers.{broker}": names for broker, names in tables["brokers"].items()}
    flat = {name: value for name, value in tables.items() if not isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in flat.items()]
    nested = {name: value for name, value in tables.items() if isinstance(value, dict)}
    for title, entries in ({**nested, **brokers} | {"brokers": {}}).items():
        if title != "brokers":
            lines.append(f"[{title}]")
        lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in entries.items()]
    return "\n".join([*lines, ""])


def _dial(address: Address) -> None:
    address.dial((address.host, address.port), 1.0).close()


def program(path: Path, text: str) -> None:
    """Write a program for /bin/sh."""
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


@contextlib.contextmanager
def staging(kafka: str, directory: Path) -> Iterator[Staging]:
    """A secured cluster of somebody's whose machines ssh reaches, until the block ends."""
    with contextlib.closing(Secured(kafka, directory)) as cluster:
        cluster.open()

        class Agent(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(cluster.obey(self.rfile.readline().decode()).encode())

        with socketserver.ThreadingUnixStreamServer(str(directory / "agent"), Agent) as server:
            threading.Thread(target=server.serve_forever, name="agent", daemon=True).start()
            try:
                theirs = Staging(cluster, directory)
                with theirs.served():
                    yield theirs
            finally:
                server.shutdown()
