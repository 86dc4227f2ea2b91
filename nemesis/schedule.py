"""A random schedule: drawn whole from the seed before anything runs, so that it can be repeated.

Targets are data ("the leader of partition 2"), resolved when their moment has come.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from clusters.cluster import UnreachableError
from harness.plan import Plan
from harness.waiting import await_condition
from nemesis.fault import find_fault
from nemesis.scene import Scene
from nemesis.words import Choice, resolve

HEALTH_LIMIT_S = 30.0
CALM_S = (1.0, 4.0)
TROUBLE_S = (0.5, 8.0)
"""Seconds between two steps and of a step, drawn evenly from these. The upper ends are beyond a
broker's session (2 s) and the lower ones below it, so that both sides of an election are met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault on one target.

    Attributes:
        fault: name of a registered fault.
        target: one of ``nemesis.words.TARGETS``, or a broker's id.
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
        UsageError: a word of the plan's nemesis is none.
    """
    choices = [Choice.of(word) for word in plan.nemesis]
    drawn = [one for one in choices for _ in range(one.weight)]
    if not drawn:
        return []
    dice = random.Random(plan.seed)  # noqa: S311 - a schedule is to be repeatable, not secret
    steps: list[Step] = []
    clock = 0.0
    while True:
        step = _step(dice, drawn, plan)
        clock += step.after_s + step.lasts_s
        if clock > plan.duration_s:
            return steps
        steps.append(step)


def _step(dice: random.Random, choices: Sequence[Choice], plan: Plan) -> Step:
    several = dice.random() < 0.25  # noqa: PLR2004 - said in the docstring of draw
    count = dice.randint(2, max(2, plan.brokers)) if several else 1
    strikes = tuple(_strike(dice, choices, plan) for _ in range(min(count, plan.brokers)))
    return Step(
        after_s=round(dice.uniform(*CALM_S), 2),
        lasts_s=round(dice.uniform(*TROUBLE_S), 2),
        strikes=strikes,
    )


def _strike(dice: random.Random, choices: Sequence[Choice], plan: Plan) -> Strike:
    """A target is drawn even where the word names one, so that this changes nothing else."""
    chosen, target = dice.choice(choices), dice.choice(("leader", "follower", "any"))
    return Strike(
        fault=chosen.fault.name,
        target=chosen.target or target,
        partition=dice.randrange(plan.topic.partitions),
        choice=dice.random(),
    )


def play(scene: Scene, steps: Sequence[Step], *, duration_s: float) -> None:
    """Play the steps one after the other; every fault is healed at the end of its step.

    Healing takes time of its own (a broker boots in seconds), so the later steps come later than
    drawn; no step begins that could not end within ``duration_s``.

    Raises:
        HarnessError: the run has to end.
    """
    require_health(scene)
    deadline = scene.clock() + duration_s
    for step in steps:
        if scene.clock() + step.after_s + step.lasts_s > deadline:
            break
        scene.hold(step.after_s)
        for strike in step.strikes:
            _inject(scene, strike)
        scene.hold(step.lasts_s)
        scene.nemesis.heal_all()
    scene.hold(max(0.0, deadline - scene.clock()))


def _inject(scene: Scene, strike: Strike) -> None:
    """Strike whom a strike means now; what overlaps with an open fault is left out, and said so."""
    nemesis, partition = scene.nemesis, strike.partition
    targets: list[int | None] = [None]
    if find_fault(strike.fault).scope == "broker":
        targets = [*resolve(scene, strike.target, partition, strike.choice)]
    for target in targets:
        if nemesis.can(strike.fault, target):
            nemesis.inject(strike.fault, target, partition=partition, choice=strike.choice)
        else:
            scene.note(f"{strike.fault} is left out: it would overlap with an open fault", target)


def require_health(scene: Scene) -> None:
    """Wait until every broker has a session and every replica is in sync, before anything is hurt.

    Raises:
        WaitTimeoutError: that is not so in good time.
    """
    await_condition(
        scene.probe.live_brokers,
        lambda live: live == frozenset(scene.cluster.brokers),
        what="every broker to have a session before the first fault",
        limit_s=HEALTH_LIMIT_S,
        passing=(UnreachableError,),
    )
    topic = scene.plan.topic
    for partition in range(topic.partitions):
        await_condition(
            partial(scene.probe.partition, scene.topic, partition),
            lambda state: len(state.isr) == topic.replication_factor,
            what=f"every replica of {scene.topic}-{partition} to be in sync before the first fault",
            limit_s=HEALTH_LIMIT_S,
            passing=(UnreachableError,),
        )
