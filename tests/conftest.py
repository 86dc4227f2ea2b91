"""What tests share: one Spark session a process, started when the first test asks for it."""

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from checkers import session

# Times on a shared machine say nothing; examples are few because each is a whole judgement.
settings.register_profile(
    "highwater",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("highwater")


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return session.spark(driver_memory="1g")
