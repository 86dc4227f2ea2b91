"""What tests share: examples, a Spark session a process, and which of them may run side by side.

Nothing here needs Spark, which is imported where a test uses it.
"""

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.seeds import FIRST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.checkers.spark.session import SparkStarter

# Times on a shared machine say nothing; examples are few because each is a whole judgement.
settings.register_profile(
    "highwater",
    deadline=None,
    derandomize=not FIRST,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("highwater")

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
"""Compiling a query takes longer than a test's few rows; commands that tests start do compile."""

_STARTER = pytest.StashKey["SparkStarter"]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis draw from HIGHWATER_SEED too, where it is set."""
    if FIRST and config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(FIRST)


def pytest_report_header() -> list[str]:
    """Say by which seed the same examples are drawn again."""
    return [f"HIGHWATER_SEED={FIRST} draws these examples again"] if FIRST else []


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Processes share the tests by our groups."""
    from tests.support.xdist_groups import ByGroup  # noqa: PLC0415 - not every environment has pytest-xdist

    config.option.loadscopereorder = False
    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs Spark, and choose the order.

    One process has what needs Spark last, which starts meanwhile unless brokers are to have both
    cores. Several take a group each, and the next when they are done.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if hasattr(config, "workerinput"):
        from tests.support.xdist_groups import rank  # noqa: PLC0415 - for the same reason

        items.sort(key=lambda item: rank(item.nodeid.partition("::")[0]))
        return
    items.sort(key=lambda item: item.get_closest_marker("spark") is not None)
    chosen = config.getoption("markexpr")
    if (
        any("spark" in getattr(item, "fixturenames", ()) for item in items)
        and "not kafka" in chosen
    ):
        config.stash[_STARTER] = _starter()


def _starter() -> "SparkStarter":
    from highwater.checkers.spark.session import SparkStarter  # noqa: PLC0415 - it needs Spark
    from highwater.harness.base.spark_options import SparkOptions  # noqa: PLC0415 - beside it

    return SparkStarter(SparkOptions(driver_memory="1g", conf=_INTERPRETED))


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> "SparkSession":
    """The session of this process, small."""
    return (pytestconfig.stash.get(_STARTER, None) or _starter()).session()
