"""Execute the steps of a schedule (``harness.runs.steps``).

``play`` executes each step at its own time. Steps may overlap, so a thread for each step injects
and heals its fault. The calling thread finds the targets, in the order in which steps start.
``play_in_turn`` executes groups of steps one after the other, for random schedules.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import Final

from highwater.harness.runs.steps import FaultStep, end_of, in_order
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults.registry import find_fault
from highwater.nemesis.schedules.executor import ScheduleExecutor

_TURN_S: Final = 20.0
"""The most seconds that a step waits until its target has no fault: an earlier fault may take
longer to heal than in the recorded run."""

_LOOK_S: Final = 0.05
_LOOK_AT_WORK_S: Final = 0.2
_FIRST_WORK_S: Final = 120.0
"""The most seconds that the first fault waits until the tested program works. The wait does not
count as the run's time, because an instance may start slowly on a busy machine."""
_THREADS_MOST: Final = 64


def play(context: ScheduleContext, steps: Sequence[FaultStep], *, duration_s: float = 0.0) -> None:
    """Execute every step, and wait until ``duration_s`` has passed.

    Raises:
        HarnessError: a fault could not be injected or healed, or the run must end early.
    """
    executor, ended = ScheduleExecutor(context), threading.Event()
    executor.begin()
    start = context.clock()
    pool = ThreadPoolExecutor(min(_THREADS_MOST, max(1, len(steps))), thread_name_prefix="step")
    futures: list[Future[None]] = []
    try:
        for step in in_order(steps):
            _hold_until(context, start + step.at_s, futures)
            futures += [
                pool.submit(_take, context, executor, step, broker, ended)
                for broker in _targets(executor, step)
            ]
        _hold_until(context, start + max(duration_s, end_of(steps)), futures)
        while not all(future.done() for future in futures):
            _hold_until(context, context.clock() + _LOOK_S, futures)
        _raise_failed(futures)
    finally:
        ended.set()
        pool.shutdown(wait=True, cancel_futures=True)


def play_in_turn(
    context: ScheduleContext, steps: Sequence[FaultStep], *, duration_s: float
) -> None:
    """Execute groups of steps with the same start; heal each group before the next.

    Healing takes additional time, so later groups start later than planned. A group that could not
    end within ``duration_s`` is left out, except the first group.

    Before a fault of the program under test, wait until the program has processed records since its
    last fault. Until then, its consumer group may wait for a dead member's session timeout (45 s by
    default), and another fault would add a dead member. Every second group is then injected at
    once, perhaps before the program's first commit; the others are injected after another pause.
    With an odd seed the first group is injected at once, with an even seed the second.

    Raises:
        HarnessError: the run must end early.
    """
    executor, done, works = ScheduleExecutor(context), 0, False
    executor.begin()
    begun = context.clock()
    deadline, end_s = begun + duration_s, 0.0
    groups = groupby(in_order(steps), key=lambda step: step.at_s)
    for number, (at_s, group) in enumerate(groups, start=context.plan.seed):
        faults = list(group)
        calm_s, trouble_s = at_s - end_s, faults[0].lasts_s
        if end_s and context.clock() + calm_s + trouble_s > deadline:
            break
        end_s = at_s + trouble_s
        of_program = any(find_fault(step.fault).scope == "program" for step in faults)
        worked_s = calm_s if of_program and number % 2 == 0 else 0.0  # of the pause, after work
        context.hold(calm_s - worked_s)
        asked_at = context.clock()
        limit = deadline - trouble_s - worked_s if works else max(deadline, begun + _FIRST_WORK_S)
        if of_program and not _works(context, done, limit):
            context.note(
                "the program has processed nothing since its last fault, so no more faults are "
                "injected"
            )
            break
        deadline += 0.0 if works else context.clock() - asked_at
        works = works or of_program
        context.hold(worked_s)
        active = [
            injected
            for step in faults
            for broker in executor.aim(step)
            if (injected := executor.inject(step, broker)) is not None
        ]
        context.hold(trouble_s)
        executor.heal(*active)
        done = context.work() or done
    context.hold(max(0.0, deadline - context.clock()))


def _works(context: ScheduleContext, done: int, deadline: float) -> bool:
    """Wait until the program has processed more than ``done``; return False at the deadline.

    If the program's progress is unknown at the deadline, return True.
    """
    while (work := context.work()) is None or work <= done:
        if context.clock() >= deadline:
            return work is None
        context.hold(_LOOK_AT_WORK_S)
    return True


def _hold_until(context: ScheduleContext, deadline: float, futures: Sequence[Future[None]]) -> None:
    while (left := deadline - context.clock()) > 0:
        context.hold(min(left, 0.2))
        _raise_failed(futures)


def _raise_failed(futures: Sequence[Future[None]]) -> None:
    for future in futures:
        if future.done():
            future.result()


def _targets(executor: ScheduleExecutor, step: FaultStep) -> list[int | None]:
    """Return a step's target brokers: from its broker id, or from a word such as ``leader``."""
    if find_fault(step.fault).scope == "broker" and step.target.isdecimal():
        return [int(step.target)]
    return executor.aim(step)


def _take(
    context: ScheduleContext,
    executor: ScheduleExecutor,
    step: FaultStep,
    broker: int | None,
    ended: threading.Event,
) -> None:
    """Wait until a step's target has no fault; then inject the fault, and later heal it."""
    deadline = context.clock() + _TURN_S
    while (
        not context.nemesis.can(step.fault, broker, message=step.message)
        and context.clock() < deadline
    ):
        if ended.wait(_LOOK_S):
            return
    active = executor.inject(step, broker)
    # If the schedule ends early, its end heals all open faults, or the cluster is closed.
    if active is not None and not ended.wait(step.lasts_s):
        executor.heal(active)
