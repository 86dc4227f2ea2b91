"""Real clusters for tests: opened once a module, or one for a single test."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.containers.images import docker_state
from highwater.clusters.core.interfaces import Cluster, Probe
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import MODERN, release

EFFECTS: Final = Path(__file__).parents[2] / "docs" / "fault-effects.json"
"""For each fault and release, the drivers on which a test has seen its effect from outside."""

Opener = Callable[..., RealCluster]
OLDEST = "0.9.0.1"
SAMPLED = ("0.10.2.2", MODERN)
"""The oldest that both drivers have, and the newest; stories run on the whole sample."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Where HIGHWATER_EFFECTS is set, write the faults of tests that have passed to the file."""
    if report.when != "call" or not report.passed or not os.environ.get("HIGHWATER_EFFECTS"):
        return
    for name, value in report.user_properties:
        if name == "fault":
            fault, kafka, driver = str(value).split()
            effects = json.loads(EFFECTS.read_text("utf-8"))
            drivers = effects.setdefault(fault, {}).setdefault(kafka, [])
            drivers[:] = sorted({*drivers, driver})
            EFFECTS.write_text(json.dumps(effects, indent=1, sort_keys=True) + "\n", "utf-8")


@pytest.fixture(scope="session")
def docker() -> None:
    """A Docker daemon; where a submission is checked there must be one."""
    try:
        docker_state()
    except HarnessError as error:
        if os.environ.get("CI"):
            pytest.fail(f"container tests must run here: {error}")
        pytest.skip(str(error))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("local", OLDEST), id=OLDEST, marks=pytest.mark.nightly),
        pytest.param(("local", SAMPLED[0]), id=SAMPLED[0]),
        pytest.param(("docker", SAMPLED[1]), id=f"docker-{SAMPLED[1]}", marks=pytest.mark.docker),
        pytest.param(("local", SAMPLED[1]), id=SAMPLED[1], marks=pytest.mark.nightly),
        pytest.param(
            ("docker", SAMPLED[0]),
            id=f"docker-{SAMPLED[0]}",
            marks=[pytest.mark.docker, pytest.mark.nightly],
        ),
    ],
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers, shared by a module's tests; each driver and each release has its turn."""
    driver, name = request.param
    if driver == "docker":
        request.getfixturevalue("docker")
    directory = tmp_path_factory.mktemp(f"kafka-{name}")
    opened = open_cluster(release(name), directory, brokers=3, broker_config={}, driver=driver)
    with contextlib.closing(opened):
        yield opened


@pytest.fixture
def probe(cluster: Cluster) -> Iterator[Probe]:
    with contextlib.closing(cluster.probe()) as opened:
        yield opened


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    """Open small clusters of local processes; all are closed in the end."""
    with contextlib.ExitStack() as stack:

        def opened(name: str, folder: str = "run", **config: str) -> RealCluster:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            new = open_cluster(release(name), tmp_path / folder, brokers=1, broker_config=settings)
            return stack.enter_context(contextlib.closing(new))

        yield opened
