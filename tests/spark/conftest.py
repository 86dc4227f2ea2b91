"""Sparks of several kinds, and stores of several kinds; ``any_spark`` is each of them in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.harness.base.spark_options import SparkOptions
from tests.spark.beds import Cluster, connect, require_namespaces, standalone
from tests.spark.s3 import S3Store, s3

_SMALL = {"spark.executor.memory": "512m"}
_TWICE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The only folder of ours that Sparks of this session see."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Iterator[Cluster]:
    """A standalone cluster for tests that leave it whole."""
    require_namespaces()
    with standalone(tmp_path_factory.mktemp("cluster"), shared_store) as found:
        yield found


@pytest.fixture
def own_cluster(tmp_path: Path, shared_store: Path) -> Iterator[Cluster]:
    """A standalone cluster for one test, which may kill of it what it likes."""
    require_namespaces()
    with standalone(tmp_path, shared_store) as found:
        yield found


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Iterator[str]:
    """The URL of a Spark Connect server."""
    require_namespaces()
    with connect(tmp_path_factory.mktemp("connect"), shared_store) as url:
        yield url


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(kind, marks=pytest.mark.nightly)
        for kind in ("standalone", "speculation", "connect")
    ],
)
def any_spark(request: pytest.FixtureRequest) -> tuple[str, SparkOptions]:
    """A kind of Spark, and the options with which a session of it is had."""
    kind: str = request.param
    if kind == "connect":
        return kind, SparkOptions(remote=request.getfixturevalue("connect_url"))
    conf = _SMALL | (_TWICE if kind == "speculation" else {})
    url = request.getfixturevalue("cluster").url
    return kind, SparkOptions(master=url, driver_memory="512m", conf=conf)


@pytest.fixture(scope="session")
def s3_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Store]:
    """A bucket of a real S3 server."""
    with s3(tmp_path_factory.mktemp("s3")) as found:
        yield found
