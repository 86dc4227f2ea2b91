"""The campaign engine, which performs groups of plans in parallel, each group on one cluster.

Demo, matrix, soak, nightly run and replays pass plans to the engine, and summarise its runs.
"""

import itertools
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.scratch import temporary
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.runner import execute

LabelledProgress: TypeAlias = Callable[[str, str], None]
"""A callback that several threads call with a run's label and the step that begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A plan to perform as one run.

    Attributes:
        label: the run's name in the progress.
        name: name of the run's directory; by default the store chooses a name.
        files: names and contents of files to add to the complete run.
    """

    plan: Plan
    label: str
    name: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


Performed: TypeAlias = list[tuple[PlannedRun, Run | None]]
"""The runs of a group; None stands for a run that failed without a run directory."""


@dataclass(slots=True, kw_only=True)
class Campaign:
    """Performs planned runs. A campaign is a context manager; its exit stops every broker.

    Attributes:
        clusters: directory for the clusters; by default a temporary directory.
        jobs: number of parallel groups, each on its own cluster.
        own_cluster: whether every run has a new cluster, in the run's directory.
        failed: called when the harness fails in a run; the other runs continue.
        done: called with each run that has ended, by several threads.
        is_over: returns whether no more runs may begin.
    """

    store: Store
    clusters: Path | None = None
    jobs: int = 1
    own_cluster: bool = False
    progress: LabelledProgress = lambda *_: None
    failed: Callable[[PlannedRun, HarnessError], None] | None = None
    done: Callable[[PlannedRun], None] = lambda _: None
    is_over: Callable[[], bool] = lambda: False
    _stop: threading.Event = field(default_factory=threading.Event)
    _stack: ExitStack = field(default_factory=ExitStack)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __enter__(self) -> Self:
        if self.clusters is None:
            self.clusters = self._stack.enter_context(temporary("campaign")) / "clusters"
        shutil.rmtree(self.clusters, ignore_errors=True)  # the remains of a killed campaign
        self._stack.callback(shutil.rmtree, self.clusters, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        # If a run is interrupted, the others end at their next wait and close their clusters.
        self._stop.set()
        self._stack.close()

    def perform(self, groups: Iterable[Sequence[PlannedRun]]) -> Iterator[Performed]:
        """Perform the runs of each group in turn, and yield each group's result when it has ended.

        ``jobs`` groups run at the same time.
        """
        waiting = iter(groups)
        if self.jobs == 1:
            yield from itertools.takewhile(bool, map(self._perform, waiting))
            return
        pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="run")
        self._stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        running: set[Future[Performed]] = set()
        while True:
            while len(running) < self.jobs and not self.is_over():
                if (group := next(waiting, None)) is None:
                    break
                running.add(pool.submit(self._perform, group))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in ended)

    def perform_all(self, groups: Sequence[Sequence[PlannedRun]]) -> list[Run]:
        """Perform all groups; return their runs in the order of the plans."""
        runs = {
            id(planned): run
            for performed in self.perform(groups)
            for planned, run in performed
            if run is not None
        }
        return [runs[id(planned)] for group in groups for planned in group]

    def _perform(self, group: Sequence[PlannedRun]) -> Performed:
        assert self.clusters is not None
        performed: Performed = []
        with ClusterPool(self.clusters / str(next(self._numbers))) as pool:
            for planned in group:
                if self._stop.is_set() or self.is_over():
                    break
                performed.append((planned, self._run(planned, pool)))
                self.done(planned)
        return performed

    def _run(self, planned: PlannedRun, pool: ClusterPool) -> Run | None:
        def progress(step: str) -> None:
            self.progress(planned.label, step)

        plan, stop = planned.plan, self._stop
        try:
            if self.own_cluster:
                run = execute(plan, self.store, stop=stop, progress=progress)
            else:
                run = pool.execute(
                    plan, self.store, stop=stop, progress=progress, name=planned.name
                )
        except HarnessError as error:
            if self.failed is None or self._stop.is_set():
                raise
            self.failed(planned, error)
            progress("frozen")
            return self.store.open(planned.name) if planned.name else None
        for name, content in planned.files.items():
            run.write(name, content)
        return run
