"""Clusters that several runs use one after the other, each run with its own topic.

A cluster's start lasts almost as long as a story. So runs share a cluster if they differ only in
settings of topics or clients, such as acks, min.insync.replicas and unclean election. Stories share
a cluster if their broker settings are equal.
"""

import contextlib
import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from msgspec.structs import replace

from highwater.clusters.brokers.freeze import copy_metadata_logs
from highwater.clusters.core.interfaces import PLAIN, Cluster, NodeOptions, UnreachableError
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.nemesis.schedules.cluster_needs import wired
from highwater.nemesis.stories.registry import find_story
from highwater.nemesis.stories.story import NOTHING
from highwater.runtime.preflight import check_plan
from highwater.runtime.run_status import Progress, StatusKeeper
from highwater.runtime.runner import boot, conduct, node_options

WARM_CONFIG: Final[Mapping[str, str]] = {
    "auto.leader.rebalance.enable": "false"  # by default every 5 minutes, even during a run
}

_WHOLE_S: Final = 5.0


@dataclass(frozen=True, slots=True, order=True)
class ClusterKey:
    """The settings of a plan that determine its cluster; plans with equal keys can share one."""

    kafka: str
    driver: str
    brokers: int
    broker_config: tuple[tuple[str, str], ...]
    wired: bool = False
    clients_wired: bool = False
    levels: tuple[object, ...] = ()
    controllers: int = 1
    options: NodeOptions = PLAIN

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return the key of the cluster that a plan can run on."""
        settings = tuple(sorted(plan.broker_settings().items()))
        levels = (plan.to, plan.protocol, plan.format)
        wires = wired(plan), plan.wire_clients
        shape = plan.controllers, node_options(plan)
        return cls(plan.kafka, plan.driver, plan.brokers, settings, *wires, levels, *shape)


class ClusterPool:
    """Running clusters. The pool starts a cluster for a plan, and keeps at most ``warm`` clusters.

    A pool is a context manager; its exit stops every broker. A pool is not thread-safe.
    """

    def __init__(self, directory: Path, *, warm: int = 1) -> None:
        self._directory = directory
        self._warm = warm
        self._clusters: dict[ClusterKey, Cluster] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(
        self,
        plan: Plan,
        store: Store,
        *,
        stop: threading.Event,
        progress: Progress = lambda _: None,
        name: str | None = None,
    ) -> Run:
        """Perform a run like ``highwater.runtime.runner.execute``, but on a cluster of the pool.

        Each run has its own topic (``events-1``, ``events-2``, …). After an error the pool closes
        the cluster, and the next plan gets a new one. If a controller loses its disk in a run, or
        the story of a run spoils the cluster, no other run uses the cluster.
        """
        check_plan(plan)
        number = next(self._numbers)
        topic = replace(plan.topic, name=f"{plan.topic.name}-{number}")
        program = plan.program
        if program is not None and program.out:
            program = replace(program, out=f"{program.out}-{number}")
        plan = replace(plan, topic=topic, program=program)
        needs = find_story(plan.story).needs if plan.story is not None else NOTHING
        alone = needs.controllers > 0 or needs.spoils
        if alone:
            self._drop(ClusterKey.of(plan))
        run = store.create(plan, now=datetime.now(UTC), name=name)
        with StatusKeeper(run, progress) as keeper:
            keeper.phase("booting")
            cluster = self._take(plan, run)
            keep = _keeper(cluster, plan, run)
            try:
                conduct(plan, run, cluster, keeper, keep=keep, stop=stop, progress=progress)
            except BaseException as error:
                if not run.replicas.exists():
                    with contextlib.suppress(HarnessError):
                        keep()
                self._drop(ClusterKey.of(plan))
                _point_into(run, cluster.directory, error)
                raise
        upgraded = plan.to and plan.story is None
        if run.status().problems or alone or upgraded or not is_whole(cluster):
            self._drop(ClusterKey.of(plan))
        return run

    def close(self) -> None:
        """Stop every cluster and remove its files; a second call has no effect."""
        while self._clusters:
            self._drop(next(iter(self._clusters)))
        with contextlib.suppress(OSError):  # Highwater may not remove files of another user.
            self._directory.rmdir()

    def _take(self, plan: Plan, run: Run) -> Cluster:
        """Return a running cluster that fits the plan; if no cluster fits, start one.

        Before a start, the pool closes the clusters that were used least recently.
        """
        key = ClusterKey.of(plan)
        cluster = self._clusters.pop(key, None)
        if cluster is None:
            while len(self._clusters) >= self._warm:
                self._drop(next(iter(self._clusters)))
            cluster = self._boot(plan, run)
        self._clusters[key] = cluster
        return cluster

    def _boot(self, plan: Plan, run: Run) -> Cluster:
        config = {**WARM_CONFIG, **plan.broker_config}
        self._directory.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{plan.kafka}-", dir=self._directory))
        try:
            return boot(replace(plan, broker_config=config), folder)
        except BaseException as error:
            with contextlib.suppress(OSError):
                shutil.move(folder / "logs", run.logs)
            shutil.rmtree(folder, ignore_errors=True)
            _point_into(run, folder, error)
            raise

    def _drop(self, key: ClusterKey) -> None:
        cluster = self._clusters.pop(key, None)
        if cluster is not None:
            cluster.close()
            shutil.rmtree(cluster.directory, ignore_errors=True)


def _keeper(cluster: Cluster, plan: Plan, run: Run) -> Callable[[], None]:
    """Return a function that copies replicas, metadata logs and node logs into a run.

    It copies only log lines that nodes write after the call of ``_keeper``.
    """
    logs = cluster.directory / "logs"
    program = plan.program
    topics = [plan.topic.name, *([program.out] if program and program.out else [])]
    sizes = {path.name: path.stat().st_size for path in logs.glob("*.log")}

    def keep() -> None:
        cluster.snapshot(topics, run.replicas)
        copy_metadata_logs(cluster.directory / "coordination", run.path / "coordination")
        run.logs.mkdir(exist_ok=True)
        try:
            for path in sorted([*logs.glob("*.log"), *logs.glob("*.clock")]):
                with path.open("rb") as log, (run.logs / path.name).open("wb") as excerpt:
                    log.seek(sizes.get(path.name, 0))
                    shutil.copyfileobj(log, excerpt)
        except OSError as error:
            raise HarnessError(
                f"the logs in {logs} cannot be copied: {error.strerror} ({error.filename})"
            ) from error

    return keep


def _point_into(run: Run, directory: Path, error: BaseException) -> None:
    """In an error's message, replace the path of the removed cluster by the run's path."""
    if isinstance(error, HarnessError):
        error.message = error.message.replace(str(directory), str(run.path))
        error.hint = error.hint.replace(str(directory), str(run.path))


def is_whole(cluster: Cluster) -> bool:
    """Return whether all nodes run, and all brokers are registered within some seconds."""
    states = {broker.state for broker in cluster.brokers.values()}
    states |= {controller.state for controller in cluster.controllers.values()}
    if states - {"running"}:
        return False
    with contextlib.closing(cluster.probe()) as probe:
        try:
            await_condition(
                probe.live_brokers,
                lambda live: live == frozenset(cluster.brokers),
                what="every broker to be registered",
                limit_s=_WHOLE_S,
                passing=(UnreachableError,),
            )
        except WaitTimeoutError:
            return False
    return True
