"""Inject and heal the faults of a schedule within the plan's budget, and record every step."""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.steps import FaultStep
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults.registry import NothingDoneError, find_fault
from highwater.nemesis.injector import FaultConflictError
from highwater.nemesis.schedules.fault_spec import TARGETS, resolve, resolve_controllers

HEALTH_LIMIT_S: Final = 30.0
BROKERS: Final = "brokers"
"""The key of one limit in a plan's budget: the greatest number of brokers that may have a fault at
the same time."""
_OVERLAPS: Final = "it would overlap with an open fault"


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that a step has injected and that is not healed yet.

    Attributes:
        number: the step's number, in the order of execution.
    """

    number: int
    fault: str
    broker: int | None
    message: str = ""


def targets(context: ScheduleContext, step: FaultStep) -> list[int | None]:
    """Return a step's target brokers at this moment; ``[None]`` if its fault hits no broker."""
    if find_fault(step.fault).scope != "broker":
        return [None]
    return [*resolve(context, step)]


def named_client(step: FaultStep) -> str:
    """Return the client that a step names as its target; empty if any client may be hit."""
    aims = find_fault(step.fault).scope == "client" and step.target not in TARGETS
    return step.target if aims else ""


class ScheduleExecutor:
    """Injects and heals the faults of one schedule. Threads may share it."""

    def __init__(self, context: ScheduleContext) -> None:
        self._context = context
        self._budget = context.plan.budget
        self._spent: Counter[str] = Counter()
        self._hurt: Counter[int] = Counter()
        self._numbers = itertools.count(1)
        self._noted: set[tuple[str, int | None, str]] = set()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Wait until the cluster is healthy, and start the schedule's clock.

        Raises:
            WaitTimeoutError: the cluster did not become healthy in time.
        """
        require_health(self._context)
        self._context.log.step("begin")

    def aim(self, step: FaultStep) -> list[int | None]:
        """Return a step's target brokers at this moment; skip the step if no broker matches."""
        numbers = targets(self._context, step)
        if not numbers:
            self.leave_out(step, None, f"no node matches the target {step.target} now")
        return numbers

    def inject(self, step: FaultStep, broker: int | None) -> ActiveFault | None:
        """Inject a step's fault; if this is not possible, record the step as skipped.

        Args:
            broker: the target; None for a fault without a broker.
        """
        nemesis, log = self._context.nemesis, self._context.log
        if not nemesis.can(step.fault, broker, message=step.message):
            self.leave_out(step, broker, _OVERLAPS)
            return None
        controllers = self._controllers(step)
        with self._lock:
            why = self._too_much(step.fault, broker)
            if controllers == []:
                why = f"no node matches the target {step.target} now"
            if not why:
                self._spend(step.fault, broker)
        if why:
            self.leave_out(step, broker, why)
            return None
        fault = ActiveFault(next(self._numbers), step.fault, broker, step.message)
        log.step("strike", step=fault.number, **_row(step, broker), controllers=controllers)
        ended = broker is not None and self._context.cluster.brokers[broker].state == "down"
        try:
            nemesis.inject(
                step.fault,
                broker,
                controllers=controllers or (),
                partition=step.partition,
                choice=step.choice,
                client=named_client(step),
                message=step.message,
            )
        except HarnessError as error:
            self._end(fault)
            why = why_not_now(step.fault, error, ended=ended)
            with self._lock:
                self._spent[step.fault] -= 1  # the fault was not injected
            self.leave_out(step, broker, why, number=fault.number)
            return None
        log.step("struck", step=fault.number)
        return fault

    def _controllers(self, step: FaultStep) -> list[int] | None:
        """Return a step's target controllers now; None for other faults, or with one controller."""
        if find_fault(step.fault).scope != "coordination" or self._context.plan.controllers == 1:
            return None
        return resolve_controllers(self._context, step.target, step.choice)

    def leave_out(
        self, step: FaultStep, broker: int | None, why: str, *, number: int | None = None
    ) -> None:
        """Record that a step is skipped, and why.

        The table of steps gets every skipped step. The fault log gets one row for each fault,
        broker and reason.

        Args:
            number: the step's number, if it already has one.
        """
        with self._lock:
            first = (step.fault, broker, why) not in self._noted
            self._noted.add((step.fault, broker, why))
        if first:
            self._context.note(f"{step.fault} is skipped: {why}", broker)
        self._context.log.step("left-out", step=number, says=why, **_row(step, broker))

    def heal(self, *fault: ActiveFault) -> None:
        """Heal these faults in parallel; return when they are gone."""
        if not fault:
            return
        with ThreadPoolExecutor(len(fault), thread_name_prefix="heal") as pool:
            list(pool.map(self._heal, fault))

    def _heal(self, fault: ActiveFault) -> None:
        with self._ending(fault):
            self._context.log.step("heal", step=fault.number)
            self._context.nemesis.heal_fault(fault.fault, fault.broker, message=fault.message)
            self._context.log.step("healed", step=fault.number)

    @contextmanager
    def _ending(self, fault: ActiveFault) -> Iterator[None]:
        try:
            yield
        finally:
            self._end(fault)

    def _end(self, fault: ActiveFault) -> None:
        with self._lock:
            if fault.broker is not None:
                self._hurt[fault.broker] -= 1

    def _too_much(self, fault: str, broker: int | None) -> str:
        """Return a sentence if a fault would exceed the budget; else an empty text."""
        most = self._budget.get(fault)
        if most is not None and self._spent[fault] >= most:
            return f"the fault was injected {most} times, which is the budget's limit"
        brokers = self._budget.get(BROKERS)
        if brokers is None:
            return ""
        hurt = {broker for broker, count in self._hurt.items() if count > 0}
        if find_fault(fault).scope == "cluster":
            hurt |= set(self._context.cluster.brokers)
        elif broker is not None:
            hurt |= {broker}
        return (
            f"the budget allows faults on {brokers} brokers at the same time"
            if len(hurt) > brokers
            else ""
        )

    def _spend(self, fault: str, broker: int | None) -> None:
        self._spent[fault] += 1
        if broker is not None:
            self._hurt[broker] += 1


def why_not_now(name: str, error: HarnessError, *, ended: bool = False) -> str:
    """Return why a fault was not injected; raise the error if the run cannot continue.

    The run continues after a conflict with an open fault, and if nodes do not respond. It fails if
    a broker does not start again.

    Args:
        ended: whether the broker had exited by itself before the fault.

    Raises:
        HarnessError: the given error, if the run cannot continue.
    """
    if isinstance(error, FaultConflictError):
        return _OVERLAPS
    if ended:
        return f"the broker had exited by itself: {error.message}"
    waived = isinstance(error, (NothingDoneError, UnreachableError))
    if waived or find_fault(name).scope == "topic":
        return error.message
    raise error


def _row(step: FaultStep, broker: int | None) -> dict[str, object]:
    return {
        "fault": step.fault,
        "target": step.target,
        "broker": broker,
        "partition": step.partition,
        "choice": step.choice,
        "message": step.message or None,
    }


def require_health(context: ScheduleContext) -> None:
    """Wait until every broker has a session and all replicas are in sync, before the first fault.

    Raises:
        WaitTimeoutError: at the limit, a broker has no session or a replica is not in sync.
    """
    await_condition(
        context.probe.live_brokers,
        lambda live: live == frozenset(context.cluster.brokers),
        what="every broker to have a session before the first fault",
        limit_s=HEALTH_LIMIT_S,
        passing=(UnreachableError,),
    )
    topic = context.plan.topic
    for partition in range(topic.partitions):
        await_condition(
            partial(context.probe.partition, context.topic, partition),
            lambda state: len(state.isr) == topic.replication_factor,
            what=f"replicas of {context.topic}-{partition} to be in sync before the first fault",
            limit_s=HEALTH_LIMIT_S,
            passing=(UnreachableError,),
        )
