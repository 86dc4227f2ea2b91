"""A random schedule: drawn whole from the seed before anything runs, so that it can be repeated.

Targets are data ("the leader of partition 2"), resolved when their moment has come.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.cluster import UnreachableError
from harness.errors import WaitTimeoutError
from harness.plan import Plan
from nemesis.fault import find_fault
from nemesis.scene import Scene

CALM_S = (1.0, 4.0)
TROUBLE_S = (0.5, 8.0)
"""Seconds between two steps and of a step, drawn evenly from these. The upper ends are beyond a
broker's session (2 s) and the lower ones below it, so that both sides of an election are met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault on one target.

    Attributes:
        fault: name of a registered fault.
        target: ``leader`` or ``follower`` of ``partition``, or ``any``.
        choice: 0 up to 1; which of several candidates.
    """

    fault: str
    target: str
    partition: int
    choice: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Wait ``after_s``, strike, wait ``lasts_s``, heal."""

    after_s: float
    lasts_s: float
    strikes: tuple[Strike, ...]


def draw(plan: Plan) -> list[Step]:
    """The steps of a plan's random schedule; the same plan gives the same steps.

    One broker is struck in three steps of four, several in the rest; never more than all.

    Raises:
        UsageError: a fault of the plan is not known.
    """
    faults = [find_fault(name).name for name in plan.nemesis]
    if not faults:
        return []
    dice = random.Random(plan.seed)  # noqa: S311 - a schedule is to be repeatable, not secret
    steps: list[Step] = []
    clock = 0.0
    while True:
        step = _step(dice, faults, plan)
        clock += step.after_s + step.lasts_s
        if clock > plan.duration_s:
            return steps
        steps.append(step)


def _step(dice: random.Random, faults: Sequence[str], plan: Plan) -> Step:
    several = dice.random() < 0.25  # noqa: PLR2004 - said in the docstring of draw
    count = dice.randint(2, max(2, plan.brokers)) if several else 1
    strikes = tuple(
        Strike(
            fault=dice.choice(faults),
            target=dice.choice(("leader", "follower", "any")),
            partition=dice.randrange(plan.topic.partitions),
            choice=dice.random(),
        )
        for _ in range(min(count, plan.brokers))
    )
    return Step(
        after_s=round(dice.uniform(*CALM_S), 2),
        lasts_s=round(dice.uniform(*TROUBLE_S), 2),
        strikes=strikes,
    )


def play(scene: Scene, steps: Sequence[Step], *, duration_s: float) -> None:
    """Play the steps one after the other; every fault is healed at the end of its step.

    Healing takes time of its own (a broker boots in seconds), so the later steps come later than
    drawn; no step begins that could not end within ``duration_s``.

    Raises:
        HarnessError: the run has to end.
    """
    deadline = scene.clock() + duration_s
    for step in steps:
        if scene.clock() + step.after_s + step.lasts_s > deadline:
            break
        scene.hold(step.after_s)
        for strike in step.strikes:
            target = _resolve(scene, strike)
            if target is not None:
                scene.nemesis.inject(strike.fault, target)
        scene.hold(step.lasts_s)
        scene.nemesis.heal_all()
    scene.hold(max(0.0, deadline - scene.clock()))


def _resolve(scene: Scene, strike: Strike) -> int | None:
    """The broker that a strike means now; None when every candidate is struck already."""
    healthy = sorted(set(scene.cluster.brokers) - scene.nemesis.struck)
    candidates = healthy
    if strike.target != "any":
        try:
            leader = scene.probe.partition(scene.topic, strike.partition).leader
        except (UnreachableError, WaitTimeoutError):
            leader = -1
        wanted = [b for b in healthy if (b == leader) == (strike.target == "leader")]
        candidates = wanted or healthy
    return candidates[int(strike.choice * len(candidates))] if candidates else None
