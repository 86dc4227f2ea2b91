"""Names by which brokers reach each other. Each broker looks them up in a hosts file of its own.

Java reads the file, which replaces DNS, at each lookup (``jdk.net.hosts.file``). The security
properties switch off Java's caches, so that a change has an effect at once. Kafka looks up a name
when it connects to a broker, and never on an open connection.
"""

import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SECURITY: Final = "networkaddress.cache.ttl=0\nnetworkaddress.cache.negative.ttl=0\n"
_LOOPBACK: Final = "127.0.0.1"


def name_of(broker: int) -> str:
    """Return the host name of a broker."""
    return f"broker-{broker}"


def why_not() -> str:
    """Return why brokers cannot have names on this machine; empty if they can."""
    return "" if sys.platform == "linux" else "needs an address for each broker, as on Linux"


def properties(directory: Path, broker: int, hosts: Mapping[str, str]) -> dict[str, str]:
    """Return Java's system properties for a broker with a hosts file, which a restart keeps.

    Args:
        directory: folder for the files.
        hosts: host name to address, for a broker without a hosts file.
    """
    security = directory / "lookups.security"
    security.write_text(_SECURITY, encoding="ascii")
    if not hosts_file(directory, broker).exists():
        write(directory, broker, hosts)
    return {
        "jdk.net.hosts.file": str(hosts_file(directory, broker)),
        "java.security.properties": str(security),
    }


def hosts_file(directory: Path, broker: int) -> Path:
    """Return the path of a broker's hosts file."""
    return directory / f"{name_of(broker)}.hosts"


def write(directory: Path, broker: int, hosts: Mapping[str, str]) -> None:
    """Replace a broker's hosts file atomically. The machine's own names are always in the file."""
    machine = {"localhost": _LOOPBACK, socket.gethostname(): _LOOPBACK, name_of(broker): _LOOPBACK}
    lines = [f"{address} {name}\n" for name, address in {**machine, **hosts}.items()]
    file = hosts_file(directory, broker)
    new = file.with_name(f"{file.name}.new")
    new.write_text("".join(lines), encoding="ascii")
    new.replace(file)
