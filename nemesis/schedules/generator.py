"""A random schedule: drawn whole from the seed before anything runs, so that it can be repeated.

Targets are data ("the leader of partition 2"), resolved when their moment has come. What came of it
is recorded step by step; ``nemesis.schedules.step_executor`` takes such steps again.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.fault_steps import FaultStep, Steps, overlap
from highwater.harness.runs.plan import Plan
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.schedules.executor import ScheduleExecutor
from highwater.nemesis.schedules.fault_spec import FaultSpec

CALM_S = (1.0, 4.0)
TROUBLE_S = (0.5, 8.0)
"""Seconds between two steps and of a step, drawn evenly from these. The upper ends are beyond a
broker's session (2 s) and the lower ones below it, so that both sides of an election are met."""

LEAST_S: Final = CALM_S[0] + TROUBLE_S[0]
"""The shortest schedule that has room for a fault, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedFault:
    """One fault on one target.

    Attributes:
        fault: name of a registered fault.
        target: one of ``nemesis.schedules.fault_spec.TARGETS``, or a broker's id.
        choice: 0 up to 1; which of several candidates.
    """

    fault: str
    target: str
    partition: int
    choice: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultGroup:
    """Wait ``after_s``, inject, wait ``lasts_s``, heal."""

    after_s: float
    lasts_s: float
    strikes: tuple[GroupedFault, ...]


def draw(plan: Plan, lane: int = 0) -> list[FaultGroup]:
    """Return the bouts of a plan's random schedule; the same plan gives the same bouts.

    Three bouts of four hit one broker, the rest several; never more than all. There is
    a bout in every schedule of ``LEAST_S`` or longer: the first is shortened where it must be.

    Args:
        lane: which of the sequences that go on at the same time.

    Raises:
        UsageError: a word of the plan's nemesis is not valid.
    """
    choices = [FaultSpec.of(word) for word in plan.nemesis]
    weighted = [choice for choice in choices for _ in range(choice.weight)]
    if not weighted:
        return []
    seed = f"{plan.seed} {lane}" if lane else plan.seed
    dice = random.Random(seed)  # noqa: S311 - a schedule is to be repeatable, not secret
    bouts: list[FaultGroup] = []
    clock = 0.0
    while True:
        bout = _bout(dice, weighted, plan)
        if not bouts and plan.duration_s >= LEAST_S:
            bout = _shortened(bout, plan.duration_s)
        clock += bout.after_s + bout.lasts_s
        if clock > plan.duration_s:
            return bouts
        bouts.append(bout)


def check_duration(seconds: float) -> None:
    """Refuse a random schedule that is too short for any fault.

    Raises:
        UsageError: names the least duration.
    """
    if seconds < LEAST_S:
        raise UsageError(
            f"{seconds:g} s leave no room for a fault: a random schedule takes {LEAST_S:g} s"
            " at least",
            hint=f"Use {LEAST_S:g}s or more.",
        )


def draw_steps(plan: Plan) -> Steps:
    """Take the steps of a plan whose sequences overlap, as many side by side as it says."""
    return overlap(*(_timed(draw(plan, lane)) for lane in range(plan.overlap)))


def _timed(bouts: Sequence[FaultGroup]) -> Steps:
    """Bouts as steps, as if healing took no time."""
    steps: list[FaultStep] = []
    clock = 0.0
    for bout in bouts:
        clock += bout.after_s
        steps += [
            FaultStep(
                fault=strike.fault,
                at_s=round(clock, 2),
                lasts_s=bout.lasts_s,
                target=strike.target,
                partition=strike.partition,
                choice=strike.choice,
            )
            for strike in bout.strikes
        ]
        clock += bout.lasts_s
    return tuple(steps)


def _bout(dice: random.Random, choices: Sequence[FaultSpec], plan: Plan) -> FaultGroup:
    several = dice.random() < 0.25  # noqa: PLR2004 - said in the docstring of draw
    count = dice.randint(2, max(2, plan.brokers)) if several else 1
    strikes = tuple(_strike(dice, choices, plan) for _ in range(min(count, plan.brokers)))
    return FaultGroup(
        after_s=round(dice.uniform(*CALM_S), 2),
        lasts_s=round(dice.uniform(*TROUBLE_S), 2),
        strikes=strikes,
    )


def _shortened(bout: FaultGroup, most_s: float) -> FaultGroup:
    """Return the bout, cut to a length that has room for a fault."""
    after_s = min(bout.after_s, most_s - TROUBLE_S[0])
    lasts_s = min(bout.lasts_s, most_s - after_s)
    if after_s + lasts_s > most_s:  # by the last bit of a float
        lasts_s = math.nextafter(lasts_s, 0.0)
    return replace(bout, after_s=after_s, lasts_s=lasts_s)


def _strike(dice: random.Random, choices: Sequence[FaultSpec], plan: Plan) -> GroupedFault:
    """Draw a fault; a target is drawn even where the word names one, to keep other draws."""
    chosen, target = dice.choice(choices), dice.choice(("leader", "follower", "any"))
    return GroupedFault(
        fault=chosen.fault.name,
        target=chosen.target or target,
        partition=dice.randrange(plan.topic.partitions),
        choice=dice.random(),
    )


def play(scene: ScheduleContext, bouts: Sequence[FaultGroup], *, duration_s: float) -> None:
    """Play the bouts one after the other; every fault is healed at the end of its bout.

    Healing takes time of its own (a broker boots in seconds), so the later ones come later than
    drawn; but for the first, no bout begins that could not end within ``duration_s``.

    Raises:
        HarnessError: the run has to end.
    """
    striker = ScheduleExecutor(scene)
    striker.begin()
    deadline = scene.clock() + duration_s
    for number, bout in enumerate(bouts):
        if number and scene.clock() + bout.after_s + bout.lasts_s > deadline:
            break
        scene.hold(bout.after_s)
        strikes = [
            active
            for strike in bout.strikes
            for broker in striker.aim(strike)
            if (active := striker.strike(strike, broker)) is not None
        ]
        scene.hold(bout.lasts_s)
        striker.mend(*strikes)
    scene.hold(max(0.0, deadline - scene.clock()))
