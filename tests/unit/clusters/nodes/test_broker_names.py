"""The hosts file of a broker: written at its first start, changed by faults, kept by restarts."""

import socket
from pathlib import Path

from highwater.clusters.nodes.broker_names import hosts_file, properties, write

HOSTS = {"broker-1": "127.5.5.11", "broker-2": "127.5.5.12"}


def resolved(folder: Path) -> dict[str, str]:
    lines = [line.split() for line in hosts_file(folder, 2).read_text("ascii").splitlines()]
    return {name: address for address, name in lines}


def test_a_broker_looks_names_up_in_its_own_file_and_keeps_no_answer(tmp_path: Path) -> None:
    flags = properties(tmp_path, 2, HOSTS)
    assert flags["jdk.net.hosts.file"] == str(hosts_file(tmp_path, 2))
    security = Path(flags["java.security.properties"]).read_text("ascii").splitlines()
    assert security == ["networkaddress.cache.ttl=0", "networkaddress.cache.negative.ttl=0"]
    own = {"localhost": "127.0.0.1", socket.gethostname(): "127.0.0.1"}
    assert resolved(tmp_path) == own | HOSTS


def test_a_restart_keeps_a_changed_file(tmp_path: Path) -> None:
    properties(tmp_path, 2, HOSTS)
    write(tmp_path, 2, {"broker-2": "127.5.5.12"})
    properties(tmp_path, 2, HOSTS)
    assert "broker-1" not in resolved(tmp_path)
    assert resolved(tmp_path)["broker-2"] == "127.5.5.12"
