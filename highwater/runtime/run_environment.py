"""The software versions and the machine of a run, which are recorded with its results."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.nodes.jvm import java_version
from highwater.clusters.releases.jars import digests
from highwater.clusters.releases.software_level import Level, numbers
from highwater.harness.runs.store import Environment

_PACKAGES: Final = ("confluent-kafka", "kafka-python", "pyarrow", "pyspark")


def describe(
    cluster: Cluster, started_at_ns: int, *, outside: bool = False, tiered: bool = False
) -> Environment:
    """Return the versions and addresses of the cluster and of the harness.

    Args:
        started_at_ns: wall clock at time 0 of the history, in nanoseconds since the Unix epoch.
        outside: whether the cluster is external, so that its jars are not from Highwater.
        tiered: whether the brokers have a remote tier.
    """
    return Environment(
        started_at_ns=started_at_ns,
        highwater=_version("highwater"),
        python=platform.python_version(),
        platform=platform.platform(),
        java=java_version(),
        addresses={id_: broker.address for id_, broker in cluster.brokers.items()},
        coordination=cluster.release.coordination,
        truncation=_lowest(cluster).truncation.explanation,
        levels={id_: str(broker.level) for id_, broker in cluster.brokers.items()},
        digests={} if outside else digests(cluster.release, tiered=tiered),
        packages={name: _version(name) for name in _PACKAGES},
        git_commit=_commit(),
    )


def _lowest(cluster: Cluster) -> Level:
    levels = (broker.level for broker in cluster.brokers.values())
    return min(levels, key=lambda level: (level.release.number, numbers(level.protocol)))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str | None:
    """Return the git commit of Highwater's code; None for an installed package."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
