"""Measure the start of a cluster: ``python -m benchmarks.startup [RELEASE ...]``.

The cluster has three brokers and one controller or ZooKeeper (``--controllers 3``). It runs on each
driver that supports the release (``--driver`` names one). *Cold* is the first start. The cache then
has the jars (and the base image for containers), but no class archive and no node image. *Warm* is
the median of later starts. A warm start is compared with the boot time of its slowest node: from
the write of its settings to the node's log line about its start.
"""

import argparse
import contextlib
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from highwater.clusters.containers import images
from highwater.clusters.containers.daemon import connected
from highwater.clusters.core.interfaces import NodeOptions
from highwater.clusters.drivers import DRIVERS, open_cluster
from highwater.clusters.releases.jars import classpath
from highwater.harness.base.user_dirs import cache_directory
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import SAMPLE, release
from highwater.harness.releases.release import Release

BROKERS = 3
WARM_STARTS = 3
TARGET = 1.3
QUORUM_TARGET = 1.5
STARTED = re.compile(
    r"^(\S+)Z INFO .*started \(kafka\.server\.Kafka(?:Raft)?Server\)$", re.MULTILINE
)


class Start(NamedTuple):
    """The seconds of one start of the cluster, and of the boot of its slowest node."""

    cluster: float
    node: float


def start(driver: str, kafka: Release, controllers: int) -> Start:
    """Open a cluster, read the boot time of its nodes, and close the cluster."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as name:
        directory = Path(name)
        began = time.perf_counter()
        cluster = open_cluster(
            kafka,
            directory,
            brokers=BROKERS,
            broker_config={},
            options=NodeOptions(controllers=controllers),
            driver=driver,
        )
        took = time.perf_counter() - began
        with contextlib.closing(cluster):
            logs = [log for log in (directory / "logs").iterdir() if "zookeeper" not in log.name]
            return Start(took, max(boot(directory, log.stem) for log in logs))


def boot(directory: Path, node: str) -> float:
    """Return the seconds from the write of a node's settings to its log line about its start."""
    ready = (directory / "coordination" / f"{node}.properties").stat().st_mtime
    log = directory / "logs" / f"{node}.log"
    said = await_condition(
        lambda: STARTED.findall(log.read_text("utf-8")),
        bool,
        what=f"{node} to say that it has started",  # a broker may have registered before
        limit_s=10,
    )
    return datetime.fromisoformat(f"{said[0]}+00:00").timestamp() - ready


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """Let Highwater use a cache that has only jars, and new images, during the ``with`` block."""
    jars = cache_directory() / "jars"
    before, recipe = os.environ.get("XDG_CACHE_HOME"), images.RECIPE
    with tempfile.TemporaryDirectory(prefix="highwater-cache-") as name:
        folder = Path(name) / "highwater"
        folder.mkdir()
        (folder / "jars").symlink_to(jars)
        os.environ["XDG_CACHE_HOME"] = name
        images.RECIPE = f"benchmark-{os.getpid()}"
        try:
            yield
        finally:
            images.RECIPE = recipe
            os.environ.pop("XDG_CACHE_HOME")
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before


def measure(driver: str, kafka: Release, controllers: int) -> None:
    """Measure one cold start and some warm starts, and print a row."""
    with empty_cache():
        cold = start(driver, kafka, controllers)
        warm = [start(driver, kafka, controllers) for _ in range(WARM_STARTS)]
    cluster = statistics.median(each.cluster for each in warm)
    ratio = statistics.median(each.cluster / each.node for each in warm)
    target = TARGET if controllers == 1 else QUORUM_TARGET
    print(
        f"  {kafka.name:9} {driver:6} cold {cold.cluster:5.1f} s   warm {cluster:5.1f} s, "
        f"{ratio:.2f} of its slowest node's own boot (target at most {target:g})",
        flush=True,
    )


def forget_images(before: set[str]) -> None:
    """Remove the images that the benchmark built."""
    with connected() as client:
        for tag in sorted(tags() - before, reverse=True):
            client.images.remove(tag)


def tags() -> set[str]:
    """Return the names of all images."""
    with connected() as client:
        return {tag for image in client.images.list() for tag in image.tags}


def main(arguments: Sequence[str] = ()) -> None:
    """Measure each release on each driver that supports it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup")
    parser.add_argument("kafka", nargs="*", default=SAMPLE)
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--driver", choices=sorted(DRIVERS), action="append")
    options = parser.parse_args(arguments)
    drivers = options.driver or [*DRIVERS]
    before = tags() if "docker" in drivers else set()
    try:
        for kafka in map(release, options.kafka or SAMPLE):
            classpath(kafka)
            for driver in kafka.drivers:
                if driver in drivers:
                    measure(driver, kafka, options.controllers)
    finally:
        if "docker" in drivers:
            forget_images(before)


if __name__ == "__main__":
    main(sys.argv[1:])
