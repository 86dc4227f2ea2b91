"""Check that a cluster is the intended cluster, before the harness changes it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.external.inventory import Inventory
from highwater.clusters.external.metadata import ClusterIdentity, query_identity
from highwater.clusters.external.security import dialer
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.releases.catalogue import CATALOGUE, Release, release

OLDEST: Final = (0, 10, 1)
"""The first release with cluster ids (KIP-78)."""

_END: Final = (99,)
FETCH: Final[dict[int, tuple[int, ...]]] = {
    3: (0, 10, 1), 5: (0, 11), 6: (1, 0), 7: (1, 1), 8: (2, 0), 10: (2, 1), 11: (2, 3),
    12: (2, 7), 13: (3, 1), 15: (3, 5), 16: (3, 7), 17: (3, 9), 18: (4, 1),
}  # fmt: skip
"""Fetch version to the first release that supports it (ApiKeys, and FetchRequest.json since 2.5).
No other request has a new version in so many releases."""


def identify(
    inventory: Inventory, confirm: str | None, own_topics: Sequence[str] = ()
) -> ClusterIdentity:
    """Read a cluster's identity, and compare its code with ``confirm``.

    Args:
        own_topics: Kafka's own topics to which the run's groups and transactions write.
    """
    identity = recognise(inventory)
    if confirm == identity.code:
        return identity
    cluster_has_code = f"the cluster at {inventory.bootstrap} has the code {identity.code}"
    code_identifies = f"The code identifies {identity.stands_for}."
    if own_topics:
        code_identifies += f" The run also writes to Kafka's own {' and '.join(own_topics)}."
    if confirm is None:
        raise UsageError(
            f"{cluster_has_code}. {code_identifies}",
            hint=f"To inject faults into this cluster, confirm it: --confirm {identity.code}",
        )
    if confirm == identity.cluster_id:
        raise UsageError(
            f"{cluster_has_code}; its id {confirm} is not enough,"
            f" because other clusters may have the same id. {code_identifies}",
            hint=f"To inject faults into this cluster, confirm it: --confirm {identity.code}",
        )
    raise UsageError(
        f"{cluster_has_code}, not {confirm}. {code_identifies}",
        hint="Check the inventory's bootstrap and the value of --confirm. The code also changes"
        " if a broker is down or has another address.",
    )


def recognise(inventory: Inventory) -> ClusterIdentity:
    """Read a cluster's identity, and check its brokers and its release."""
    kafka = release(inventory.kafka)
    if kafka.number < OLDEST:
        raise UsageError(
            f"Kafka {kafka.name} has no cluster ids, so Highwater cannot verify the cluster",
            hint="Cluster ids came with 0.10.1 (KIP-78).",
        )
    identity = _query_any(inventory)
    if missing := sorted(set(inventory.brokers) - set(identity.addresses)):
        raise UsageError(
            f"the cluster {identity.cluster_id} has no broker {missing[0]} now",
            hint=f"It has the brokers {', '.join(map(str, sorted(identity.addresses)))}.",
        )
    _check_release(kafka, identity)
    return identity


def _query_any(inventory: Inventory) -> ClusterIdentity:
    dial = dialer(inventory.client)
    failures = []
    for text in inventory.bootstrap.split(","):
        try:
            address = Address.parse(text.strip())
        except ValueError as error:
            raise UsageError(
                f"bootstrap {text!r} is not an address", hint="Write host:port,host:port."
            ) from error
        try:
            identity = query_identity(replace(address, dial=dial))
            return replace(identity, place=inventory.place)
        except UnreachableError as error:
            failures.append(error.message)
    raise HarnessError(
        f"no broker of the cluster responds: {'; '.join(failures)}",
        hint="Check bootstrap and [client] in the inventory.",
    )


def fitting_releases(identity: ClusterIdentity) -> list[Release]:
    """Return the releases that fit a cluster's Fetch version, and KRaft or ZooKeeper.

    If the catalogue has none, return the nearest older release.
    """
    oldest, newest = _bounds(identity)
    alike = [
        entry
        for entry in CATALOGUE.values()
        if OLDEST <= entry.number < (newest or _END)
        and (entry.coordination == "kraft") == identity.kraft
    ]
    return [entry for entry in alike if entry.number >= oldest] or alike[-1:]


def _bounds(identity: ClusterIdentity) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first release that has a version of Fetch, and the first that has a later one."""
    fetch = max(3, identity.fetch_version)
    oldest = max(first for version, first in FETCH.items() if version <= fetch)
    newer = [first for version, first in FETCH.items() if version > identity.fetch_version]
    return oldest, min(newer, default=())


def _check_release(kafka: Release, identity: ClusterIdentity) -> None:
    """Raise an error unless this release is one of ``fitting_releases``."""
    fitting = fitting_releases(identity)
    if kafka not in fitting:
        oldest, newest = _bounds(identity)
        written = ".".join(map(str, oldest))
        until = f" and older than {'.'.join(map(str, newest))}" if newest else ""
        kind = "KRaft" if identity.kraft else "ZooKeeper"
        raise UsageError(
            f"the brokers are not Kafka {kafka.name}, but {written} or newer{until}, on {kind}",
            hint=f"Releases that match: {', '.join(entry.name for entry in fitting) or 'none'}.",
        )
