"""Stories where two of three replicas lose their disks.

``two-disks``: the replica that keeps its disk is not in the ISR. The last member of the ISR
restarts with an empty disk, and the controller elects it. The other replicas truncate their logs to
match, so the kept disk loses its records, too. With eligible leader replicas (KIP-966) the
controller knows that the last member has lost its state. But when the eligible replica has
restarted without its disk, the controller still elects the last leader
(``PartitionChangeBuilder.canElectLastKnownLeader``).

``disk-by-disk`` loses nothing: the second disk is lost when the first replica is in sync again.
"""

from collections.abc import Sequence
from typing import Final

from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import (
    SETTLED,
    VICTIM,
    await_alone,
    await_isr,
    await_leader,
    settle,
)
from highwater.nemesis.stories.power_failure import ends_itself
from highwater.nemesis.stories.story import HazardEnding, Prediction, story

TWO_DISKS: Final = "two-disks"
"""The id of the problem that the story shows, in the catalogue of hazards."""


@story(
    "two-disks",
    HazardEnding(hazard=TWO_DISKS, ending=Prediction(lost=frozenset((*SETTLED, VICTIM)))),
    outcome="On every release every record is lost, although the disk of C has three of the four "
    "records.",
    min_isr_most=2,
    why_not=ends_itself,
)
def two_disks(context: ScheduleContext) -> None:
    """Lose the disks of two replicas while the third is down: all replicas lose the records."""
    a, b, c = _write_without_third(context)
    context.nemesis.inject("wipe", b)
    await_alone(context, a)
    context.nemesis.inject("wipe", a)
    context.nemesis.heal_all([a, b])
    await_leader(context, a, b)
    context.nemesis.heal(c)


@story(
    "disk-by-disk",
    HazardEnding(hazard=TWO_DISKS, ending=Prediction()),
    outcome="No record is lost.",
    min_isr_most=2,
    why_not=ends_itself,
)
def disk_by_disk(context: ScheduleContext) -> None:
    """Repeat two-disks, but lose the second disk when the first replica is in sync again."""
    a, b, c = _write_without_third(context)
    for broker in (b, a):
        context.nemesis.inject("wipe", broker)
        context.nemesis.heal(broker)
        await_isr(context, a, b)
    context.nemesis.heal(c)


def _write_without_third(context: ScheduleContext) -> Sequence[int]:
    """Stop C, and acknowledge a record that only A and B have; return the three brokers."""
    a, b, c = context.replicas
    settle(context)
    context.nemesis.inject("stop", c)
    await_isr(context, a, b)
    context.send(VICTIM, leader=a)
    return a, b, c
