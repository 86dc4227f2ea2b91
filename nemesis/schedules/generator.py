"""Random schedules, which the seed determines before the run, so that they can be repeated.

A target is a word such as ``leader``; the executor finds the broker when it injects the fault.
``nemesis.schedules.step_executor`` executes the steps, and records every step with its effect.
"""

import math
import random
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import FaultStep, Steps, overlap
from highwater.nemesis.schedules.fault_spec import FaultSpec

CALM_S = (1.0, 4.0)
TROUBLE_S = (0.5, 8.0)
"""Ranges for the seconds before a step (calm) and for the seconds of its fault (trouble). Each
range begins below a broker's session timeout (2 s) and ends above it. So some faults end before an
election, and others after an election."""

STORM_S = (12.0, 30.0)
"""Range for the seconds of a storm (a time with faults). The longest group of steps fits into the
shortest storm."""

LEAST_S: Final = CALM_S[0] + TROUBLE_S[0]
"""The shortest duration of a schedule with a fault, in seconds."""


def draw(plan: Plan, lane: int = 0) -> Steps:
    """Return the steps of a plan's random schedule; equal plans give equal steps.

    Steps with the same start are a group. Three of four groups have one step; the others have
    several, at most one for each broker. If the duration is at least ``LEAST_S``, the first group
    is shortened to fit into it. The schedule for a program under test begins with one fault of each
    kind, in the order of the plan.

    If the plan has ``calm_s``, storms of 12 to 30 s and pauses of ``calm_s`` alternate, at the same
    times in all lanes. A group that would not end within its storm moves to the next storm.

    Args:
        lane: number of the lane (sequence of steps); lanes run at the same time.

    Raises:
        UsageError: an item of the plan's nemesis is not valid.
    """
    choices = [FaultSpec.of(word) for word in plan.nemesis]
    weighted = [choice for choice in choices for _ in range(choice.weight)]
    if not weighted:
        return ()
    seed = f"{plan.seed} {lane}" if lane else plan.seed
    dice = random.Random(seed)  # noqa: S311 - a schedule is to be repeatable, not secret
    steps: list[FaultStep] = []
    first = iter(choices if plan.program and not lane else ())
    end_s, storms = 0.0, _storms(plan)
    storm_ends_s = next(storms)
    while True:
        named = next(first, None)
        faults = [_draw_fault(dice, [named], plan)] if named else _draw_faults(dice, weighted, plan)
        calm_s, trouble_s = round(dice.uniform(*CALM_S), 2), round(dice.uniform(*TROUBLE_S), 2)
        if not steps and plan.duration_s >= LEAST_S:
            calm_s, trouble_s = _shortened(calm_s, trouble_s, plan.duration_s)
        if end_s + calm_s + trouble_s > storm_ends_s:
            end_s, storm_ends_s = storm_ends_s + plan.calm_s, next(storms)
        at_s = end_s + calm_s
        end_s += calm_s + trouble_s
        if end_s > plan.duration_s:
            return tuple(steps)
        steps += [msgspec.structs.replace(step, at_s=at_s, lasts_s=trouble_s) for step in faults]


def _storms(plan: Plan) -> Iterator[float]:
    """Yield the second at which each storm (time with faults) ends; infinity without ``calm_s``."""
    dice = random.Random(f"{plan.seed} storms")  # noqa: S311 - to be repeatable, as in ``draw``
    end_s = 0.0 if plan.calm_s else math.inf
    while True:
        end_s += dice.uniform(*STORM_S)
        yield end_s
        end_s += plan.calm_s


def check_duration(seconds: float) -> None:
    """Raise an error if a random schedule is too short for any fault.

    Raises:
        UsageError: the duration is too short. The message names the least duration.
    """
    if seconds < LEAST_S:
        raise UsageError(
            f"{seconds:g} s are too short: a random schedule needs at least {LEAST_S:g} s",
            hint=f"Use {LEAST_S:g}s or more.",
        )


def draw_lanes(plan: Plan) -> Steps:
    """Return the steps of all lanes of a plan, which run at the same time."""
    return overlap(*(draw(plan, lane) for lane in range(plan.overlap)))


def _draw_faults(dice: random.Random, choices: Sequence[FaultSpec], plan: Plan) -> list[FaultStep]:
    several = dice.random() < 0.25  # noqa: PLR2004 - said in the docstring of draw
    count = dice.randint(2, max(2, plan.brokers)) if several else 1
    return [_draw_fault(dice, choices, plan) for _ in range(min(count, plan.brokers))]


def _draw_fault(dice: random.Random, choices: Sequence[FaultSpec], plan: Plan) -> FaultStep:
    """Draw a fault and a target. Every fault takes as many numbers from the random generator."""
    chosen, target = dice.choice(choices), dice.choice(("leader", "follower", "any"))
    return FaultStep(
        fault=chosen.fault.name,
        at_s=0.0,
        target=chosen.target or target,
        partition=dice.randrange(plan.topic.partitions),
        choice=dice.random(),
    )


def _shortened(calm_s: float, trouble_s: float, most_s: float) -> tuple[float, float]:
    """Shorten the pause before a group, then the group, so that both end within ``most_s``."""
    calm_s = min(calm_s, most_s - TROUBLE_S[0])
    trouble_s = min(trouble_s, most_s - calm_s)
    if calm_s + trouble_s > most_s:  # rounding may make the sum slightly too large
        trouble_s = math.nextafter(trouble_s, 0.0)
    return calm_s, trouble_s
