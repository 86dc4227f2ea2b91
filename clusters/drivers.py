"""The cluster drivers, by their names in a plan."""

from collections.abc import Mapping
from typing import Final

from highwater.clusters.containers import driver as containers
from highwater.clusters.core.interfaces import Driver
from highwater.clusters.local import driver as local
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.release import Release

DRIVERS: Final[Mapping[str, Driver]] = {
    "local": local.open_cluster,
    "docker": containers.open_cluster,
}


def find_driver(name: str) -> Driver:
    """Return the driver with a name.

    Raises:
        UsageError: no driver has that name; the hint names the drivers that exist.
    """
    if name not in DRIVERS:
        raise UsageError(f"no cluster driver is called {name!r}", hint=nearest(name, DRIVERS))
    return DRIVERS[name]


def require_driver(name: str, release: Release) -> None:
    """Raise if a driver does not exist or cannot run the release.

    Raises:
        UsageError: the hint names the drivers that can run the release.
    """
    find_driver(name)
    if name not in release.drivers:
        raise UsageError(
            f"Kafka {release.name} cannot run on {name!r}: a broker in a container needs "
            "two listeners, which came with 0.10.2",
            hint=nearest(name, release.drivers),
        )
