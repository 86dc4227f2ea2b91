"""The resources of a test session: clusters, one Spark session, and a store of runs."""

import contextlib
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from highwater.api import JudgedRun, judge_all
from highwater.checkers.spark.session import SparkStarter
from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.drivers import open_cluster, require_driver
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Store
from highwater.runtime.cluster_pool import WARM_CONFIG, ClusterPool, is_whole
from highwater.runtime.preflight import check_plan
from highwater.testing.parametrize import Case

BROKERS: Final = 3
_WARM: Final = 2  # clusters of one release, because a story may need its own broker settings


class Laboratory:
    """A context manager that performs plans and provides clusters. It is not thread-safe.

    Only clusters of one release and driver run at the same time, so tests are sorted by release and
    driver.

    Args:
        say: called with a text when a slow step begins, such as the start of brokers.
    """

    def __init__(
        self, store: Path, directory: Path, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._say = say
        self._store = Store(store)
        self._directory = directory
        self._stop = threading.Event()
        self._spark: SparkStarter | None = None
        self._open: tuple[str, str] | None = None
        self._fleet: ClusterPool | None = None
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def perform(self, plan: Plan) -> JudgedRun:
        """Perform a plan on brokers and judge the run; Spark starts with the first brokers."""
        check_plan(plan)
        with _quiet():
            if self._spark is None:
                self._say(
                    f"Spark and the first brokers of Kafka {plan.kafka} start; the first time on "
                    "a machine, Highwater downloads the brokers' jars"
                )
                self._spark = SparkStarter()
            self._turn_to(plan.kafka, plan.driver)
            if self._fleet is None:
                self._fleet = ClusterPool(self._directory / "runs", warm=_WARM)
            run = self._fleet.execute(plan, self._store, stop=self._stop)
            (judged,) = judge_all([run], self._spark.session())
        return judged

    def cluster(self, case: Case) -> Cluster:
        """Return a healthy cluster of three brokers, if possible the previous test's."""
        with _quiet():
            self._turn_to(case.kafka, case.driver)
            if self._cluster is not None and not is_whole(self._cluster):
                self._cluster.close()
                self._cluster = None
            if self._cluster is None:
                self._say(f"{BROKERS} brokers of Kafka {case.kafka} start")
                self._cluster = self._boot(case)
        return self._cluster

    def _boot(self, case: Case) -> Cluster:
        require_driver(case.driver, case.release)
        folder = tempfile.mkdtemp(prefix=f"{case.kafka}-", dir=self._directory)
        return open_cluster(
            case.release,
            Path(folder),
            brokers=BROKERS,
            broker_config=WARM_CONFIG,
            driver=case.driver,
        )

    def _turn_to(self, kafka: str, driver: str) -> None:
        if self._open != (kafka, driver):
            self._clear()
        self._open = (kafka, driver)

    def _clear(self) -> None:
        if self._fleet is not None:
            self._fleet.close()
        if self._cluster is not None:
            self._cluster.close()
        self._fleet = self._cluster = None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings of Highwater's libraries, because pytest may treat them as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
