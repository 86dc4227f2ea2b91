"""Raise errors for steps and budgets that a run could not follow, before the run starts."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from highwater.harness.base.errors import UsageError
from highwater.harness.base.limits import FAULTS_S, TIMES, out_of_range
from highwater.harness.releases.release import Release
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import FaultStep, in_order
from highwater.nemesis.faults.registry import find_fault
from highwater.nemesis.message_spec import ACTIONS, MessageSpec
from highwater.nemesis.schedules.executor import BROKERS, named_client
from highwater.nemesis.schedules.fault_spec import FaultSpec


def check_budget(plan: Plan) -> None:
    """Raise an error if the budget names an unknown fault, or a limit is out of range.

    Raises:
        UsageError: the message names the fault or the limit.
    """
    for name, most in plan.budget.items():
        if name != BROKERS:
            find_fault(name)
        least, limit = (1, plan.brokers) if name == BROKERS else TIMES
        if not least <= most <= limit:
            raise UsageError(
                f"the budget {name}={most} is out of range",
                hint=f"Use a number from {least} to {limit}.",
            )


def check_steps(plan: Plan, kafka: Release) -> None:
    """Raise an error if steps have unknown names, or two steps hit one target at the same time.

    A target such as ``leader`` becomes a broker only during the run. If this broker has a fault
    when the step begins, the step is skipped.

    Raises:
        UsageError: the message names the step and the reason.
    """
    for number, step in enumerate(plan.steps, start=1):
        try:
            _check(step, plan, kafka)
        except UsageError as error:
            error.message = f"step {number}: {error.message}"
            raise
    alone = [step for step in plan.steps if _scope(step) == "cluster"]
    brokers = [step for step in plan.steps if _scope(step) == "broker"]
    named = [step for step in brokers if step.target.isdecimal()]
    for target, wire in sorted({(step.target, _on_wire(step)) for step in named}):
        steps = [step for step in named if (step.target, _on_wire(step)) == (target, wire)]
        _refuse_overlap([*steps, *alone], f"broker {target}")
    for scope in ("topic", "coordination", "cluster", "client", "clients", "program"):
        _refuse_overlap([step for step in plan.steps if _scope(step) == scope], f"the {scope}")


def _on_wire(step: FaultStep) -> bool:
    return find_fault(step.fault).on_wire


def _scope(step: FaultStep) -> str:
    return find_fault(step.fault).scope


def _check(step: FaultStep, plan: Plan, kafka: Release) -> None:
    scope = _scope(step)
    several = scope == "coordination" and (plan.controllers > 1 or step.target.isdecimal())
    aimed = scope == "broker" or several or bool(named_client(step))
    FaultSpec.of(f"{step.fault}@{step.target}" if aimed else step.fault).require(plan, kafka)
    _check_message(step, plan, kafka)
    limits = (
        (step.at_s, *FAULTS_S, "seconds before the fault"),
        (step.lasts_s, *FAULTS_S, "seconds of the fault"),
        (step.partition, 0, plan.topic.partitions - 1, "as the partition of the fault"),
        (step.choice, 0, 1, "as the choice of the fault"),
    )
    for value, least, most, what in limits:
        if not (isfinite(value) and least <= value <= most):
            raise out_of_range(value, least, most, what)


def _check_message(step: FaultStep, plan: Plan, kafka: Release) -> None:
    """Raise an error if the release does not have the message, or the fault cannot use it."""
    if _scope(step) == "message":
        action = ACTIONS[step.fault.removesuffix("-message")]
        MessageSpec.of(step.message).require(action, plan, kafka)
    elif step.message:
        raise UsageError(
            f"{step.fault} does not affect messages",
            hint="Leave the message out, or use hold-message.",
        )


def _refuse_overlap(steps: Sequence[FaultStep], target: str) -> None:
    for before, after in pairwise(in_order(steps)):
        if after.at_s < before.ends_s:
            raise UsageError(
                f"{before.fault} and {after.fault} would both hit {target} at {after.at_s:g} s, "
                "but a target has only one fault at a time",
                hint=f"The first is healed at {before.ends_s:g} s; let the second begin then.",
            )
