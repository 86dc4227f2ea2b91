"""What tests share: one Spark session a process, which starts while the other tests run."""

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from checkers.session import SparkStarter

# Times on a shared machine say nothing; examples are few because each is a whole judgement.
settings.register_profile(
    "highwater",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("highwater")

_STARTER = pytest.StashKey[SparkStarter]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what needs Spark last, and start Spark now, unless brokers are to have both cores."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is not None)
    chosen = config.getoption("markexpr")
    if (
        any("spark" in getattr(item, "fixturenames", ()) for item in items)
        and "not kafka" in chosen
    ):
        config.stash[_STARTER] = SparkStarter(driver_memory="1g")


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> SparkSession:
    """The session of this process, small."""
    starter = pytestconfig.stash.get(_STARTER, None) or SparkStarter(driver_memory="1g")
    return starter.session()
