"""Real clusters for tests: opened once a module, or one for a single test."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusters.cluster import Probe
from clusters.local import open_cluster
from clusters.real import RealCluster
from clusters.versions import SAMPLE, release

Opener = Callable[..., RealCluster]


@pytest.fixture(scope="module", params=SAMPLE)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """Three brokers of one release of each generation, shared by a module's tests."""
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    opened = open_cluster(release(request.param), directory, brokers=3, broker_config={})
    with contextlib.closing(opened):
        yield opened


@pytest.fixture
def probe(cluster: RealCluster) -> Iterator[Probe]:
    with contextlib.closing(cluster.probe()) as opened:
        yield opened


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    """Open small clusters of one's own; all are closed in the end."""
    with contextlib.ExitStack() as stack:

        def opened(name: str, folder: str = "run", **config: str) -> RealCluster:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            new = open_cluster(release(name), tmp_path / folder, brokers=1, broker_config=settings)
            return stack.enter_context(contextlib.closing(new))

        yield opened
