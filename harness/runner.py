"""One run from plan to frozen replicas; ``execute`` is the whole of it."""

import contextlib
import functools
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Self

import msgspec

from clusters.cluster import Cluster, Probe, UnreachableError
from clusters.drivers import DRIVERS
from clusters.versions import release
from harness.environment import describe
from harness.errors import HarnessError, HighwaterError, WaitTimeoutError
from harness.feasible import check_plan
from harness.loglines import log_lines
from harness.observer import Observer
from harness.plan import Plan
from harness.recorder import Clock, Recorder
from harness.store import Phase, Run, Status, Store
from harness.waiting import await_condition
from harness.workload import Counts, Workload
from nemesis import schedule
from nemesis.fault import Nemesis
from nemesis.scene import MissedError, Scene
from nemesis.stories import cast, find_story
from nemesis.window import await_settled

QUIESCE_LIMIT_S: Final = 120.0
FULL_DISK_BYTES: Final = 1 << 20
READ_LIMIT_S: Final = 120.0
READS_PER_S: Final = 5_000
"""The final read may take so long, and a second more for so many records that were sent."""

Progress = Callable[[str], None]
"""Told what begins now, in a few words; the last word is ``frozen``."""


def execute(
    plan: Plan, store: Store, *, stop: threading.Event, progress: Progress = lambda _: None
) -> Run:
    """Do what the plan says on real brokers, and leave a run directory that can be judged.

    What the schedule or the final read could not do becomes a problem in ``status.json`` and makes
    the verdict ``unknown``. Whatever happens, no broker is left behind and what was recorded stays.

    Args:
        stop: set from outside to end the run early.

    Raises:
        UsageError: the plan asks for what there is not.
        HarnessError: the harness could not go on (no Java, a broker that died, a full disk).
    """
    check_plan(plan)
    run = store.create(plan, now=datetime.now(UTC))
    with _Diary(run, progress) as diary, contextlib.ExitStack() as stack:
        diary.phase("booting")
        cluster = stack.enter_context(contextlib.closing(_boot(plan, run)))
        clock = Clock()
        run.write_struct("environment.json", describe(cluster, started_at_ns=clock.started_at_ns))
        probe = stack.enter_context(contextlib.closing(cluster.probe()))
        replicas = _create_topic(plan, cluster, probe)
        recorder = stack.enter_context(Recorder(run, clock))
        scribe = _Narrator(recorder)
        nemesis = Nemesis(cluster, scribe)
        with (
            Observer(cluster, recorder, plan.topic) as observer,
            Workload(plan, cluster.bootstrap, recorder, run) as workload,
        ):
            workload.warm_up()
            diary.phase("running")
            scene = Scene(
                cluster=cluster,
                probe=probe,
                nemesis=nemesis,
                scribe=scribe,
                client=workload,
                topic=plan.topic.name,
                replicas=replicas,
                stop=stop,
                checks=(
                    observer.check,
                    workload.check,
                    lambda: progress(scribe.line(workload.counts())),
                ),
                clock=time.monotonic,
            )
            with diary.problems(MissedError, WaitTimeoutError, UnreachableError):
                _play(plan, scene)
            scene.check()
            diary.phase("healing")
            nemesis.heal_all()
            workload.stop()
            with diary.problems(WaitTimeoutError):
                _quiesce(plan, cluster, probe)
                diary.quiesced()
            scene.check()
            diary.phase("reading")
            limit_s = READ_LIMIT_S + workload.counts().sent / READS_PER_S
            reads = workload.final_read(limit_s=limit_s)
            diary.add([read.problem for read in reads if read.problem is not None])
        cluster.freeze()
        recorder.log_lines(
            list(log_lines(run.logs, plan.topic.name, started_at_ns=clock.started_at_ns))
        )
        recorder.close()
        run.seal()
        diary.phase("frozen")
    return run


def _boot(plan: Plan, run: Run) -> Cluster:
    return DRIVERS[plan.driver](
        release(plan.kafka), run.path, brokers=plan.brokers, broker_config=plan.broker_config
    )


def _create_topic(plan: Plan, cluster: Cluster, probe: Probe) -> tuple[int, ...]:
    """Create the topic under test; returns the replicas of partition 0, preferred leader first."""
    ids = list(cast(cluster, probe)) if plan.story else sorted(cluster.brokers)
    starts = (n % len(ids) for n in range(plan.topic.partitions))
    rings = ([*ids[start:], *ids[:start]] for start in starts)
    assignment = [ring[: plan.topic.replication_factor] for ring in rings]
    cluster.create_topic(plan.topic.name, assignment, plan.topic.settings())
    return tuple(assignment[0])


def _play(plan: Plan, scene: Scene) -> None:
    """Let the plan's schedule happen."""
    if plan.story is not None:
        find_story(plan.story).play(scene)
    else:
        schedule.play(scene, schedule.draw(plan), duration_s=plan.duration_s)


def _quiesce(plan: Plan, cluster: Cluster, probe: Probe) -> None:
    """Wait until every replica is in the ISR and all agree on LEO and HW."""
    deadline = time.monotonic() + QUIESCE_LIMIT_S
    for partition in range(plan.topic.partitions):
        whole = await_condition(
            functools.partial(probe.partition, plan.topic.name, partition),
            lambda state: (
                state.leader in cluster.brokers and len(state.isr) == plan.topic.replication_factor
            ),
            what=f"every replica of {plan.topic.name}-{partition} to be in the ISR",
            limit_s=max(1.0, deadline - time.monotonic()),
            passing=(UnreachableError,),
        )
        await_settled(
            probe,
            plan.topic.name,
            partition,
            whole.isr,
            limit_s=max(1.0, deadline - time.monotonic()),
        )


class _Narrator:
    """Records what the nemesis does, and has a line about how the run goes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last = ""

    def fault(self, name: str, phase: str, says: str, broker: int | None = None) -> None:
        """Record one row of ``events/faults``."""
        self._last = says
        self._recorder.fault(name, phase, says, broker)

    def line(self, counts: Counts) -> str:
        """How many records went where so far, and what happened last."""
        numbers = f"{counts.ok} of {counts.sent} acknowledged, {counts.read} read"
        return f"{numbers}; {self._last}" if self._last else numbers


class _Diary:
    """Keeps ``status.json`` true at every moment, and tells the progress."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self._run = run
        self._progress = progress
        self._status = Status(phase="booting")

    def phase(self, phase: Phase) -> None:
        """A new phase begins."""
        self._write(msgspec.structs.replace(self._status, phase=phase))
        self._progress(phase)

    def quiesced(self) -> None:
        """Every replica is back in the ISR."""
        self._write(msgspec.structs.replace(self._status, quiesced=True))

    def add(self, problems: Sequence[str]) -> None:
        """Something could not be done; the run goes on, and its verdict will be unknown."""
        if problems:
            both = (*self._status.problems, *problems)
            self._write(msgspec.structs.replace(self._status, problems=both))

    @contextlib.contextmanager
    def problems(self, *kinds: type[HighwaterError]) -> Iterator[None]:
        """Turn errors of these kinds into problems."""
        try:
            yield
        except kinds as error:
            self.add([error.message])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Write down why a run ended early, if the disk still takes it."""
        if error is None:
            return
        self._blame_full_disk(error)
        words = error.message if isinstance(error, HighwaterError) else type(error).__name__
        with contextlib.suppress(OSError):
            self.add([f"the run was cut short while {self._status.phase}: {words}"])
        if isinstance(error, HarnessError):
            error.hint = "\n".join(filter(None, [error.hint, f"The run so far: {self._run.path}"]))

    def _blame_full_disk(self, error: BaseException) -> None:
        """Say so when the disk is full: whatever died first may have died of that."""
        if isinstance(error, HarnessError) and (
            shutil.disk_usage(self._run.path).free < FULL_DISK_BYTES
        ):
            error.message = f"no space left on the disk of {self._run.path}: {error.message}"
            error.hint = "Free room or choose another folder with --store."

    def _write(self, status: Status) -> None:
        self._status = status
        self._run.write_struct("status.json", status)
