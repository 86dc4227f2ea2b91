"""Takes the steps of a schedule (``harness.runs.fault_steps``) on a scene, each at its own time.

Steps may overlap, so each is injected and healed on a thread of its own; whom a step means is
looked up here, in the order of their starts.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from highwater.harness.runs.fault_steps import FaultStep, end_of, in_order
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults.registry import find_fault
from highwater.nemesis.schedules.executor import ScheduleExecutor

_TURN_S: Final = 20.0
"""How long a step waits for its target, on which an earlier fault is healed more slowly than when
the steps were written down."""

_LOOK_S: Final = 0.05
_THREADS_MOST: Final = 64


def play(scene: ScheduleContext, steps: Sequence[FaultStep], *, duration_s: float = 0.0) -> None:
    """Take every step, and let time pass up to ``duration_s`` if they end before.

    Raises:
        HarnessError: a fault could not be injected or healed, or the run has to end.
    """
    striker, ended = ScheduleExecutor(scene), threading.Event()
    striker.begin()
    start = scene.clock()
    pool = ThreadPoolExecutor(min(_THREADS_MOST, max(1, len(steps))), thread_name_prefix="step")
    futures: list[Future[None]] = []
    try:
        for step in in_order(steps):
            _hold_until(scene, start + step.at_s, futures)
            futures += [
                pool.submit(_take, scene, striker, step, broker, ended)
                for broker in _whom(striker, step)
            ]
        _hold_until(scene, start + max(duration_s, end_of(steps)), futures)
        while not all(future.done() for future in futures):
            _hold_until(scene, scene.clock() + _LOOK_S, futures)
        _raise_failed(futures)
    finally:
        ended.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _hold_until(scene: ScheduleContext, deadline: float, futures: Sequence[Future[None]]) -> None:
    while (left := deadline - scene.clock()) > 0:
        scene.hold(min(left, 0.2))
        _raise_failed(futures)


def _raise_failed(futures: Sequence[Future[None]]) -> None:
    for future in futures:
        if future.done():
            future.result()


def _whom(striker: ScheduleExecutor, step: FaultStep) -> list[int | None]:
    """Return the brokers a step means: a named one waits for its turn, others are looked up."""
    if find_fault(step.fault).scope == "broker" and step.target.isdecimal():
        return [int(step.target)]
    return striker.aim(step)


def _take(
    scene: ScheduleContext,
    striker: ScheduleExecutor,
    step: FaultStep,
    broker: int | None,
    ended: threading.Event,
) -> None:
    """Inject one fault and heal it; on a thread of its own."""
    deadline = scene.clock() + _TURN_S
    while not scene.nemesis.can(step.fault, broker) and scene.clock() < deadline:
        if ended.wait(_LOOK_S):
            return
    active = striker.strike(step, broker)
    # Who ends the schedule early heals all that is open, or ends the cluster.
    if active is not None and not ended.wait(step.lasts_s):
        striker.mend(active)
