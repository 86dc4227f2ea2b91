"""The cluster drivers, by their names in a plan."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater.clusters.core.interfaces import PLAIN, Cluster, Driver, NodeOptions
from highwater.clusters.local.driver import open_cluster
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.release import Release


def _in_containers(
    release: Release,
    directory: Path,
    *,
    brokers: int,
    broker_config: Mapping[str, str],
    wired: bool = False,
    clients_wired: bool = False,
    controllers: int = 1,
    options: NodeOptions = PLAIN,
) -> Cluster:
    """Open a cluster with the docker driver; the driver's libraries are imported only here."""
    from highwater.clusters.containers import driver  # noqa: PLC0415 - see above

    return driver.open_cluster(
        release,
        directory,
        brokers=brokers,
        broker_config=broker_config,
        wired=wired,
        clients_wired=clients_wired,
        controllers=controllers,
        options=options,
    )


DRIVERS: Final[Mapping[str, Driver]] = {"local": open_cluster, "docker": _in_containers}


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
