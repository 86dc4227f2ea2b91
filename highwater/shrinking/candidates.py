"""Generate smaller plans: with fewer steps, shorter waits, fewer clients or fewer records.

All functions in this module are pure. Only a run on brokers shows whether a smaller plan reproduces
the anomaly.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from highwater.harness.releases.group_protocols import CLASSIC
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import FaultStep, Steps, end_of, in_order
from highwater.nemesis.faults.registry import find_fault

REST_S: Final = 2.0
"""In a smaller plan, clients continue for at most this many seconds after the last step."""

_WAITS_S: Final = (0.5, 1.0, 2.0)
_LENGTHS_S: Final = (0.5, 1.0, 2.0, 4.0)
_RATES: Final = (10.0, 50.0, 200.0, 1000.0)


class Candidate(NamedTuple):
    """A smaller plan, and a text about its difference."""

    says: str
    plan: Plan


def waits(steps: Sequence[FaultStep]) -> list[float]:
    """Return the pause in seconds before each step; a step that overlaps earlier ones has none."""
    numbers, until = [], 0.0
    for step in in_order(steps):
        if step.at_s > until:
            numbers.append(round(step.at_s - until, 3))
        until = max(until, step.ends_s)
    return numbers


def tight(steps: Sequence[FaultStep], most_s: float) -> Steps:
    """Shorten each wait between steps to ``most_s``; steps that overlapped still overlap."""
    done: list[FaultStep] = []
    until = cut = 0.0
    for step in in_order(steps):
        cut += max(0.0, step.at_s - until - most_s)
        until = max(until, step.ends_s)
        done.append(replace(step, at_s=round(step.at_s - cut, 3)))
    return tuple(done)


def with_steps(plan: Plan, steps: Sequence[FaultStep], most_s: float) -> Plan:
    """Return the plan with some of its steps, and no wait longer than ``most_s``."""
    rest_s = min(REST_S, max(0.0, plan.duration_s - end_of(plan.steps)))
    closer = tight(steps, most_s)
    ends_s = end_of(closer) if closer else most_s
    upgraded = any(find_fault(step.fault).needs == "--to" for step in closer)
    to = plan.to if upgraded else ()
    return replace(plan, steps=closer, duration_s=round(ends_s + rest_s, 3), to=to)


def shorter_waits(plan: Plan) -> Iterator[Candidate]:
    """Yield plans with shorter waits, the shortest first."""
    longest = max(waits(plan.steps), default=0.0)
    for most_s in _WAITS_S:
        if most_s < longest:
            yield Candidate(f"waits of {most_s:g} s", with_steps(plan, plan.steps, most_s))


def shorter_steps(plan: Plan, index: int) -> Iterator[Candidate]:
    """Yield plans in which a step is shorter, and later steps begin earlier."""
    old = plan.steps[index]
    for lasts_s in _LENGTHS_S:
        saved = old.lasts_s - lasts_s
        if saved < lasts_s / 2:
            continue
        steps = [
            replace(step, lasts_s=lasts_s)
            if number == index
            else replace(step, at_s=round(step.at_s - saved, 3))
            if step.at_s >= old.ends_s
            else step
            for number, step in enumerate(plan.steps)
        ]
        whole = max(0.0, plan.duration_s - end_of(plan.steps)) + end_of(steps)
        smaller = replace(plan, steps=in_order(steps), duration_s=round(whole, 3))
        yield Candidate(f"{lasts_s:g} s of {old.fault}", smaller)


def fewer_partitions(plan: Plan, partitions: Iterable[int]) -> Iterator[Candidate]:
    """Yield, for each partition that had the anomaly, a plan with only this partition."""
    if plan.topic.partitions > 1:
        for partition in partitions:
            yield Candidate(f"only partition {partition}", alone(plan, partition))


def fewer_clients() -> tuple[Callable[[Plan], Iterator[Candidate]], ...]:
    """Return functions; each yields plans with fewer clients of one kind."""
    return _one_producer, _no_reader, _no_churn, _one_instance


def _one_producer(plan: Plan) -> Iterator[Candidate]:
    work = plan.workload
    if work.producers > 1:
        yield Candidate("1 producer", replace(plan, workload=replace(work, producers=1)))


def _no_reader(plan: Plan) -> Iterator[Candidate]:
    work = plan.workload
    if work.consumers + work.members and len(work.isolation) == 1:
        fewer = replace(work, consumers=0, subscribe=0, share=0, group_protocol=CLASSIC)
        yield Candidate("no readers except the final read", replace(plan, workload=fewer))


def _no_churn(plan: Plan) -> Iterator[Candidate]:
    if plan.workload.churn_s:
        stay = replace(plan.workload, churn_s=0.0)
        yield Candidate("no replacement of clients", replace(plan, workload=stay))


def _one_instance(plan: Plan) -> Iterator[Candidate]:
    if plan.program is not None and plan.program.instances > 1:
        program = replace(plan.program, instances=1)
        yield Candidate("1 instance of the program", replace(plan, program=program))


def fewer_records(plan: Plan) -> Iterator[Candidate]:
    """Yield plans that send at a lower rate, the lowest first."""
    work = plan.workload
    for rate in _RATES:
        if not work.rate or rate < work.rate:
            slower = replace(work, rate=rate)
            yield Candidate(f"{rate:g} records a second", replace(plan, workload=slower))


def no_rest(plan: Plan) -> Iterator[Candidate]:
    """Yield a plan that ends with its last step, if the plan lasts longer."""
    ends_s = end_of(plan.steps)
    if plan.duration_s > ends_s > 0:
        yield Candidate("no time after the last step", replace(plan, duration_s=ends_s))


def alone(plan: Plan, partition: int) -> Plan:
    """Return the plan with only one partition, which becomes partition 0.

    The preferred leader of partition p is broker p + 1, but that of the new partition is broker 1.
    So p is subtracted from broker ids in steps (modulo the number of brokers), and the steps still
    hit the same replicas.
    """

    def renamed(target: str) -> str:
        if not target.isdecimal():
            return target
        return str((int(target) - 1 - partition) % plan.brokers + 1)

    steps = [replace(step, partition=0, target=renamed(step.target)) for step in plan.steps]
    return replace(plan, steps=tuple(steps), topic=replace(plan.topic, partitions=1))
