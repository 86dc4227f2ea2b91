"""The cluster drivers by name. A driver makes a site, which starts a cluster's nodes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.containers import driver as containers
from highwater.clusters.core.interfaces import PLAIN, NodeOptions
from highwater.clusters.local import driver as local
from highwater.clusters.nodes.site import Site
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.release import Release

DRIVERS: Final[Mapping[str, Callable[..., Site]]] = {
    "local": local.open_site,
    "docker": containers.open_site,
}
"""Driver name to a function that makes a site. The function's arguments are those of
``local.open_site``."""


def open_cluster(
    release: Release,
    directory: Path,
    *,
    brokers: int,
    broker_config: Mapping[str, str],
    wired: bool = False,
    clients_wired: bool = False,
    options: NodeOptions = PLAIN,
    driver: str = "local",
) -> RealCluster:
    """Start a cluster below ``directory`` (``replicas/``, ``logs/``, ``coordination/``).

    The function returns when every broker has registered.

    Args:
        release: from ``harness.releases.catalogue.release(name)``.
        directory: directory of the run. Log directories are ``directory/replicas/<broker id>`` from
            the start, so that the judge finds them even if the harness is killed.
        brokers: number of brokers; ids count from 1.
        broker_config: broker settings that override the driver's own.
        wired: whether nodes connect to each other through the relay. Then ``network`` is set.
        clients_wired: whether clients also connect to brokers through the relay. ``bootstrap`` then
            has the relay's addresses.
        options: properties of the nodes.
        driver: the driver's name.

    Raises:
        HarnessError: Java, the jars, Docker or an image is missing, a port is in use, the disk is
            full, or a node exited or was not ready in time. For a node, the message has the last
            lines of its log. All processes and containers are removed.
    """
    if brokers < 1:
        raise HarnessError(f"a cluster needs at least one broker, not {brokers}")
    site = find_driver(driver)(release, brokers=brokers, wired=wired, options=options)
    cluster = RealCluster(
        release,
        # Docker removes ".." from mounted paths, but nodes must get the same paths.
        directory.resolve(),
        site,
        broker_config=broker_config,
        wired=wired,
        clients_wired=clients_wired,
        options=options,
    )
    try:
        cluster.open()
    except BaseException:  # also after Ctrl-C: no process may continue
        cluster.close()
        raise
    return cluster


def find_driver(name: str) -> Callable[..., Site]:
    """Return the function that makes a driver's site.

    Raises:
        UsageError: no driver has that name; the hint lists all drivers.
    """
    if name not in DRIVERS:
        raise UsageError(f"there is no cluster driver {name!r}", hint=nearest(name, DRIVERS))
    return DRIVERS[name]


def require_driver(name: str, release: Release) -> None:
    """Raise an error if a driver does not exist, or cannot run the release.

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
