"""The command ``highwater doctor``: check a machine or cluster for Highwater's requirements."""

import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from highwater.clusters.containers.images import docker_state
from highwater.clusters.external.identity import recognise
from highwater.clusters.external.inventory import Commands, Inventory
from highwater.clusters.external.metadata import ClusterIdentity
from highwater.clusters.nodes.jvm import java_version
from highwater.clusters.releases.jars import is_cached
from highwater.harness.base.errors import HighwaterError
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.installation import EXTRAS, absent, install_line, rival

_GIB: Final = 1 << 30
_MEMORY_GIB: Final = 4
_DISK_GIB: Final = 2
_PURPOSES: Final = {
    "run": "run and judge",
    "docker": "run in containers",
    "kubernetes": "use Kubernetes",
    "connect": "judge on Spark Connect",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of one check.

    Attributes:
        optional: whether runs work without the checked part.
        hint: the user's next action, or Highwater's; empty if no action is needed.
    """

    name: str
    ok: bool
    value: str
    hint: str = ""
    optional: bool = False

    @property
    def state(self) -> str:
        """The result in one word; no run is possible if a part is MISSING."""
        return "ok" if self.ok else "optional" if self.optional else "MISSING"

    def to_dict(self) -> dict[str, object]:
        """Return the object for JSON, in which ``value`` is called ``found``."""
        return {
            ("found" if name == "value" else name): value for name, value in asdict(self).items()
        }


def examine(store: Path) -> list[Diagnosis]:
    """Check everything that a run needs, without using the network or writing files."""
    return [
        Diagnosis(name="Python", ok=True, value=sys.version.split()[0]),
        *map(_extra, EXTRAS),
        *_rivals(),
        *([] if absent("run") else [_tried("Java", "", java_version)]),
        _loopback(),
        _memory(),
        _jars(),
        *([] if absent("docker") else _containers()),
        _chromium(),
        _disk(store),
    ]


def _extra(extra: str) -> Diagnosis:
    missing = absent(extra)
    return Diagnosis(
        name=f"libraries to {_PURPOSES[extra]}",
        ok=not missing,
        value=f"not installed: {', '.join(missing)}" if missing else f"[{extra}] is installed",
        hint=install_line(extra) if missing else "",
        optional=extra != "run",
    )


def _rivals() -> list[Diagnosis]:
    """Return an error if another distribution has a package named highwater; else nothing."""
    conflict = rival()
    return [Diagnosis(name="package", ok=False, value=conflict)] if conflict else []


def _containers() -> list[Diagnosis]:
    return [_tried("Docker", "", lambda: str(docker_state()), optional=True), _images()]


def examine_cluster(path: Path) -> list[Diagnosis]:
    """Check an external cluster without changing it."""
    inventory = Inventory.read(path)
    cluster = _tried("cluster", "", lambda: _code(recognise(inventory)))
    verbs = Commands.__struct_fields__
    lacking = [verb for verb in verbs if not inventory.can(verb)]
    if inventory.can("stop", "start"):  # stop and start together restart a broker
        lacking = [verb for verb in lacking if verb != "restart"]
    table = Diagnosis(
        name="commands",
        ok=not lacking,
        value=", ".join(inventory.commands.named()) or "none",
        hint=f"Faults that need {', '.join(lacking)} are not available." if lacking else "",
        optional=True,
    )
    if not inventory.can("check"):
        return [cluster, table]
    return [cluster, table, *(_checked(inventory, broker) for broker in inventory.brokers)]


def _code(identity: ClusterIdentity) -> str:
    return f"--confirm {identity.code} is the code of {identity.stands_for}"


def _checked(inventory: Inventory, broker: int) -> Diagnosis:
    def look() -> str:
        command = inventory.command("check", broker)
        command.run()
        return command.line

    return _tried(f"broker {broker}", "Fix the command, or the program that it needs.", look)


def _tried(name: str, hint: str, look: Callable[[], str], *, optional: bool = False) -> Diagnosis:
    try:
        return Diagnosis(name=name, ok=True, value=look(), optional=optional)
    except HighwaterError as error:
        return Diagnosis(
            name=name, ok=False, value=error.message, hint=error.hint or hint, optional=optional
        )


def _loopback() -> Diagnosis:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.11", 0))
    except OSError:
        addresses = "only the address 127.0.0.1 works; each broker gets its own port"
    else:
        addresses = "addresses in 127.0.0.0/8 work; each broker gets its own address"
    return Diagnosis(name="loopback", ok=True, value=addresses)


def _memory() -> Diagnosis:
    free = psutil.virtual_memory().available / _GIB
    return Diagnosis(
        name="memory",
        ok=free >= _MEMORY_GIB,
        value=f"{free:.1f} GiB free",
        hint="" if free >= _MEMORY_GIB else f"A cluster and Spark need {_MEMORY_GIB} GiB.",
    )


def _disk(store: Path) -> Diagnosis:
    place = store.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / _GIB
    return Diagnosis(
        name="disk space for the store",
        ok=free >= _DISK_GIB,
        value=f"{free:.1f} GiB free at {place}",
        hint="" if free >= _DISK_GIB else "Free disk space, or choose another folder with --store.",
    )


def _jars() -> Diagnosis:
    cached = [name for name, release in CATALOGUE.items() if is_cached(release)]
    missing = [name for name in CATALOGUE if name not in cached]
    return Diagnosis(
        name="Kafka jars",
        ok=True,
        value=_sorted_out(cached, missing, yet="not downloaded yet"),
        hint="Highwater downloads a release at its first run." if missing else "",
        optional=True,
    )


def _sorted_out(here: Sequence[str], missing: Sequence[str], *, yet: str) -> str:
    parts = [f"here: {', '.join(here)}"] if here else []
    parts += [f"{yet}: {', '.join(missing)}"] if missing else []
    return "; ".join(parts)


def _images() -> Diagnosis:
    """Report the base image, and the releases whose container images exist; build no image."""
    try:
        state = docker_state()
    except HighwaterError:
        return Diagnosis(name="images", ok=False, value="unknown without Docker", optional=True)
    missing = [n for n, kafka in CATALOGUE.items() if "docker" in kafka.drivers]
    missing = [name for name in missing if name not in state.releases]
    return Diagnosis(
        name="images",
        ok=True,
        value=f"base image: {state.base}; "
        + _sorted_out(state.releases, missing, yet="not built yet"),
        hint="Highwater builds a release's image at its first run in containers."
        if missing
        else "",
        optional=True,
    )


def _chromium() -> Diagnosis:
    browser = shutil.which("chromium")
    return Diagnosis(
        name="Chromium (tests only)",
        ok=browser is not None,
        value=browser or "none",
        hint="" if browser else "Debian: apt-get install chromium.",
        optional=True,
    )
