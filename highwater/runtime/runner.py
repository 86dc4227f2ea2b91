"""Perform one run, from its plan to the copy of its replicas, on a new or a running cluster."""

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from highwater.clusters.admin.sessions import await_sessions
from highwater.clusters.core.interfaces import (
    Cluster,
    NodeOptions,
    PartitionState,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.drivers import open_cluster
from highwater.clusters.external import cluster as external
from highwater.clusters.nodes import broker_clock
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.group_protocols import SHARE_FEATURES, SHARE_GROUP, SHARE_LOCK
from highwater.harness.runs import manifest
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run, Store
from highwater.nemesis.context import (
    ScheduleContext,
    ScheduleNotFollowedError,
    tested_partition,
)
from highwater.nemesis.faults.upgrades import climb_all
from highwater.nemesis.injector import Nemesis
from highwater.nemesis.model_replay.script_lookup import find_script
from highwater.nemesis.schedules import generator, step_executor
from highwater.nemesis.schedules.cluster_needs import (
    clocks,
    dynamic_quorum,
    log_dirs,
    names,
    wired,
)
from highwater.nemesis.schedules.upgrade_path import levels, settings
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.broker_log_parser import endings, log_lines
from highwater.runtime.client_libraries import CLIENTS_LOG, download_libraries
from highwater.runtime.decisions import record_end, record_topic, recorded
from highwater.runtime.executed_steps import executed_steps
from highwater.runtime.final_requests import (
    ask_coordinators,
    asks_coordinators,
    look_up_times,
    looks_up_times,
)
from highwater.runtime.observer import Observer, wire_watched
from highwater.runtime.preflight import check_plan
from highwater.runtime.programs.ending import APPEND_TIMES, finish, work_done
from highwater.runtime.programs.instances import RunningProgram
from highwater.runtime.run_environment import describe
from highwater.runtime.run_status import Progress, ProgressLine, StatusKeeper
from highwater.runtime.workload import RunningWorkload

QUIESCE_LIMIT_S: Final = 120.0
READ_LIMIT_S: Final = 120.0
READS_PER_S: Final = 5_000
"""The time limit of the final read is ``READ_LIMIT_S``, and a second more for each ``READS_PER_S``
records."""
CLOCK_STEP_NS: Final = 1_000_000_000
"""If the machine's wall clock moves by more, the times of log lines are not known."""


def execute(
    plan: Plan, store: Store, *, stop: threading.Event, progress: Progress = lambda _: None
) -> Run:
    """Execute the plan on real brokers, and leave a run directory that can be judged.

    If a step of the schedule or the final read fails, ``status.json`` gets a problem, and the
    verdict will be ``unknown``. Even after an error, every broker is stopped, and all recorded data
    remains.
    """
    check_plan(plan)
    run = store.create(plan, now=datetime.now(UTC))
    with StatusKeeper(run, progress) as keeper:
        keeper.phase("booting")
        with contextlib.closing(boot(plan, run.path)) as cluster:
            conduct(plan, run, cluster, keeper, keep=cluster.freeze, stop=stop, progress=progress)
    return run


def boot(plan: Plan, directory: Path) -> Cluster:
    """Start the cluster of a plan below ``directory``, or connect to an external cluster.

    Before this, download the client libraries, so that a failed download starts no brokers.
    """
    download_libraries(plan)
    if plan.external is not None:
        path = Path(plan.external.inventory)
        return external.open_cluster(path, plan.external.code, directory)
    return open_cluster(
        release(plan.kafka),
        directory,
        brokers=plan.brokers,
        broker_config={**settings(plan), **plan.broker_settings()},
        wired=wired(plan),
        clients_wired=plan.wire_clients,
        options=node_options(plan),
        driver=plan.driver,
    )


def node_options(plan: Plan) -> NodeOptions:
    """Return the options of nodes that a plan needs."""
    return NodeOptions(
        trace_flushes=plan.trace_flushes,
        log_dirs=log_dirs(plan),
        racks=plan.racks,
        controllers=plan.controllers,
        dynamic_quorum=dynamic_quorum(plan),
        tiered=plan.tiered,
        clocks=clocks(plan),
        names=names(plan),
    )


def conduct(
    plan: Plan,
    run: Run,
    cluster: Cluster,
    keeper: StatusKeeper,
    *,
    keep: Callable[[], object],
    stop: threading.Event,
    progress: Progress,
) -> None:
    """Execute a plan on a running cluster, and complete its run directory.

    Args:
        run: a run with an empty directory.
        cluster: a cluster whose brokers all run, and which has no topic with the plan's topic name.
        keep: called after the final read; copies ``replicas/`` and ``logs/`` into the run
            directory.
    """
    with contextlib.ExitStack() as stack:
        if plan.story:
            climb_all(cluster, levels(plan))
        clock = Clock()
        _write_environment(plan, run, cluster, clock)
        probe = stack.enter_context(contextlib.closing(cluster.probe()))
        assignment, present = _create_topic(plan, cluster, probe)
        recorder = stack.enter_context(_recorder(plan, run, cluster, clock))
        if not plan.read_only:
            record_topic(recorder, plan.topic, assignment[:present])
        cluster = recorded(cluster, recorder)
        _prepare_sharing(plan, cluster)
        fault_log = ProgressLine(recorder)
        program = _program(plan, run, cluster, recorder)
        shift = functools.partial(broker_clock.shift_children, run.logs / CLIENTS_LOG)
        nemesis = Nemesis(cluster, fault_log, plan.topic, levels(plan), stop.is_set, program, shift)
        with (
            wire_watched(cluster.network, plan, recorder, clock.zero_ns),
            Observer(cluster, recorder, plan.topic) as observer,
            program or contextlib.nullcontext(),
            RunningWorkload(
                plan, cluster.bootstrap, recorder, run, access=cluster.client
            ) as workload,
            work_done(plan, program, workload) as work,
        ):
            workload.warm_up()
            _name_libraries(run, workload)
            keeper.phase("running")
            context = ScheduleContext(
                plan=plan,
                cluster=cluster,
                probe=probe,
                nemesis=nemesis,
                fault_log=fault_log,
                client=workload,
                direct=workload.direct,
                transactional=workload.transactional,
                producer=workload.producer,
                groups=workload,
                added=dict([*enumerate(assignment)][present:]),
                topic=plan.topic.name,
                replicas=tuple(assignment[tested_partition(plan)]),
                stop=stop,
                checks=_checks(observer, workload, program, fault_log, progress),
                observed=lambda: tuple(observer.finished),
                work=work,
                log=recorder,
                clock=time.monotonic,
            )
            _play(plan, context, keeper)
            _heal(plan, context, workload, keeper)
            _read(context, workload, program, recorder, keeper)
            if not plan.read_only:
                record_end(recorder, probe, cluster, plan.topic.name)
        keep()
        _seal(plan, run, recorder, clock, keeper)
        keeper.phase("frozen", manifest=manifest.record(run, recorder.rows()))


def _checks(
    observer: Observer,
    workload: RunningWorkload,
    program: RunningProgram | None,
    fault_log: ProgressLine,
    progress: Progress,
) -> tuple[Callable[[], None], ...]:
    """Return functions to call during a run: they raise a failed part's error, or show progress."""
    return (
        *(part.check for part in (observer, workload, program) if part is not None),
        lambda: progress(fault_log.line(workload.counts())),
    )


def _prepare_sharing(plan: Plan, cluster: Cluster) -> None:
    if plan.workload.share:
        cluster.finalize_features(SHARE_FEATURES)
        lock = {} if plan.external is None else {SHARE_LOCK: str(int(plan.lock_s * 1000))}
        cluster.configure_group(plan.share_group, {**SHARE_GROUP, **lock})


def _write_environment(plan: Plan, run: Run, cluster: Cluster, clock: Clock) -> None:
    outside = plan.external is not None
    environment = describe(cluster, clock.started_at_ns, outside=outside, tiered=plan.tiered)
    run.write_struct("environment.json", environment)


def _name_libraries(run: Run, workload: RunningWorkload) -> None:
    """Write the library names that client drivers have reported to the run's environment."""
    if workload.libraries:
        libraries = tuple(sorted(workload.libraries))
        run.write_struct("environment.json", replace(run.environment(), libraries=libraries))


def _recorder(plan: Plan, run: Run, cluster: Cluster, clock: Clock) -> Recorder:
    return Recorder(
        run,
        clock,
        wired=cluster.network is not None,
        racked=plan.racks > 0,
        grouped=plan.workload.members > 0 or _commits_for_group(plan),
        answers=asks_coordinators(plan),
        lookups=looks_up_times(plan),
        program=plan.program is not None,
    )


def _commits_for_group(plan: Plan) -> bool:
    return plan.story is not None and find_story(plan.story).needs.group


def _program(plan: Plan, run: Run, cluster: Cluster, recorder: Recorder) -> RunningProgram | None:
    if plan.program is None:
        return None
    network = cluster.network if plan.wire_clients else None
    named = {} if network is None else {"named": network.name_client}
    return RunningProgram(plan, plan.program, cluster.bootstrap, recorder, run.logs, **named)


def _seal(plan: Plan, run: Run, recorder: Recorder, clock: Clock, keeper: StatusKeeper) -> None:
    """Record the brokers' log lines as rows, and convert the recorded streams to tables."""
    lines = [*log_lines(run.logs, plan.topic.name, started_at_ns=clock.started_at_ns)]
    if abs(step_ns := clock.step_ns()) < CLOCK_STEP_NS:
        recorder.log_lines(lines)
    else:
        keeper.clock_step(round(step_ns / 1e9, 3))
    keeper.explain(endings(lines))
    recorder.close()
    run.seal()
    run.write_struct("steps.json", executed_steps(run))


def _create_topic(plan: Plan, cluster: Cluster, probe: Probe) -> tuple[list[list[int]], int]:
    """Create the topic, without the partitions that a story adds later.

    If the run only reads, the topic exists.

    Returns:
        The replicas of every partition (also of later ones), with the preferred leader first, and
        the number of created partitions.
    """
    assignment, present = (
        _assignment(plan, cluster, probe),
        plan.topic.partitions - plan.topic.added,
    )
    first = assignment[:present]
    if plan.read_only:
        return assignment, present
    if plan.story and (before := find_story(plan.story).needs.before) is not None:
        before(plan, cluster, probe)
    cluster.create_topic(plan.topic.name, first, plan.topic.settings())
    if plan.program is not None and plan.program.out:
        cluster.create_topic(plan.program.out, first, {**plan.topic.settings(), **APPEND_TIMES})
    return assignment, present


def _assignment(plan: Plan, cluster: Cluster, probe: Probe) -> list[list[int]]:
    if plan.topic.like is not None:
        return [[*replicas] for replicas in plan.topic.like.replicas]
    if plan.read_only:
        partitions = range(plan.topic.partitions)
        return [[*probe.partition(plan.topic.name, number).isr] for number in partitions]
    script = find_script(plan)
    ids = [*script.cast(cluster, probe)] if script else sorted(cluster.brokers)
    starts = (n % len(ids) for n in range(plan.topic.partitions))
    rings = ([*ids[start:], *ids[:start]] for start in starts)
    return [ring[: plan.topic.replication_factor] for ring in rings]


def _play(plan: Plan, context: ScheduleContext, keeper: StatusKeeper) -> None:
    """Execute the schedule; add a problem to the run if a step has an unexpected effect."""
    with keeper.problems(ScheduleNotFollowedError, WaitTimeoutError, UnreachableError):
        script = find_script(plan)
        if script is not None:
            script.play(context)
        elif plan.steps or plan.overlap > 1:
            steps = plan.steps or generator.draw_lanes(plan)
            step_executor.play(context, steps, duration_s=plan.duration_s)
        else:
            step_executor.play_in_turn(context, generator.draw(plan), duration_s=plan.duration_s)
    context.check()


def _heal(
    plan: Plan, context: ScheduleContext, workload: RunningWorkload, keeper: StatusKeeper
) -> None:
    """Heal all faults; wait for the producers' last responses and for all replicas in sync."""
    keeper.phase("healing")
    with keeper.problems(WaitTimeoutError, UnreachableError):  # as during the schedule
        context.nemesis.heal_all()
    keeper.add(context.nemesis.missed)
    workload.stop()
    if unfed := workload.unfed():
        context.note(unfed)
    with keeper.problems(HarnessError):
        _quiesce(plan, context)
        keeper.quiesced()
    context.check()


def _read(
    context: ScheduleContext,
    workload: RunningWorkload,
    program: RunningProgram | None,
    recorder: Recorder,
    keeper: StatusKeeper,
) -> None:
    """Stop the program, perform the final read, and request offsets of times and states."""
    if program is not None:
        keeper.add(finish(context.plan, program, workload, recorder))
    keeper.phase("reading")
    counts = workload.counts()
    limit_s = READ_LIMIT_S + (counts.sent or counts.read) / READS_PER_S
    reads = workload.final_read(limit_s=limit_s)
    keeper.add([read.problem for read in reads if read.problem is not None])
    keeper.standing([read.standing for read in reads if read.standing is not None])
    if looks_up_times(context.plan):
        try:
            look_up_times(context.plan, context.probe, recorder, reads)
        except UnreachableError as error:
            context.note(f"a leader did not return the offsets of times: {error.message}")
    _ask_coordinators(context, recorder, workload)


def _ask_coordinators(
    context: ScheduleContext, recorder: Recorder, workload: RunningWorkload
) -> None:
    """Request the coordinators' state after a random run; without a response, record a note."""
    if not asks_coordinators(context.plan):
        return
    try:
        ask_coordinators(
            *(context.plan, context.cluster, context.probe, recorder),
            share_group=context.plan.share_group,
            ask_group=workload.ask_group,
        )
    except HarnessError as error:
        context.note(
            f"a coordinator did not respond after its partition was moved: {error.message}"
        )


def _quiesce(plan: Plan, context: ScheduleContext) -> None:
    """Wait until every node runs, and all replicas are in the ISR with the same LEO.

    In this state each leader has committed its complete log. The condition ignores a follower's HW:
    after a restart it may be 0, because the leader's fetch session (KIP-227) sends the HW again
    only when it increases. If the run only reads, other producers still write, so the replicas'
    LEOs differ.
    """
    deadline = time.monotonic() + QUIESCE_LIMIT_S
    for controller in context.cluster.controllers.values():
        if controller.state == "down":
            controller.start()
            context.note(f"controller {controller.id} had exited by itself, and was started again")
    await_sessions(
        context.cluster,
        context.probe,
        what="every broker to have a session after the last fault",
        limit_s=QUIESCE_LIMIT_S,
        note=context.note,
    )
    for partition in range(plan.topic.partitions):
        await_condition(
            functools.partial(_look, plan.topic.name, partition, context.cluster, context.probe),
            lambda seen: (
                len(seen[0].isr) == plan.topic.replication_factor
                and seen[0].leader in seen[1]
                and (
                    bool(plan.read_only)
                    or {replica.leo for replica in seen[1].values()} == {seen[1][seen[0].leader].hw}
                )
            ),
            what=f"every replica of {plan.topic.name}-{partition} to be in the ISR and complete",
            limit_s=max(1.0, deadline - time.monotonic()),
            passing=(UnreachableError,),
        )


def _look(
    topic: str, partition: int, cluster: Cluster, probe: Probe
) -> tuple[PartitionState, dict[int, ReplicaState]]:
    state = probe.partition(topic, partition)
    members = [broker for broker in state.isr if broker in cluster.brokers]
    return state, {broker: probe.replica(broker, topic, partition) for broker in members}
