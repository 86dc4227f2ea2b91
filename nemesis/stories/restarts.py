"""Stories of clean restarts, as in every upgrade and every change of a setting.

No release may lose a record in these stories: in a clean shutdown a broker moves leadership before
it exits (``KafkaServer.controlledShutdown``). A reported loss is a bug of the harness.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from highwater.clusters.core.interfaces import ReplicaState
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import await_replicas, settle
from highwater.nemesis.stories.story import StoryNeeds, story

_LIMIT_S: Final = 60.0

_ROLLING_RESTART: Final = """
    settle m0 m1 m2
    stop A
    send m3 to B
    let B C
    start A
    let A B C
    stop B
    send m4 to A
    let A C
    start B
    let A B C
    stop C
    send m5 to A
    let A B
    start C
    heal
"""


@story(
    "rolling-restart",
    _ROLLING_RESTART,
    needs=StoryNeeds(outside=("stop",)),
    outcome="Every release keeps all records.",
)
def rolling_restart(context: ScheduleContext) -> None:
    """Restart A, B and C one after the other, and send a record while each broker is down."""
    a, b, c = context.replicas
    settle(context)
    for broker, leader, value in ((a, b, "m3"), (b, a, "m4"), (c, a, "m5")):
        context.nemesis.inject("stop", broker)
        _await_partition(context, leader, isr=set(context.replicas) - {broker})
        offset = context.send(value, leader=leader)
        context.nemesis.heal_all((broker,))
        _await_partition(context, leader, isr=set(context.replicas))
        await_replicas(
            context,
            partial(_hold, offset),
            what=f"every replica to have {value}",
            limit_s=_LIMIT_S,
        )


def _hold(offset: int, seen: Mapping[int, ReplicaState]) -> bool:
    return all(state.leo > offset for state in seen.values())


def _await_partition(context: ScheduleContext, leader: int, *, isr: set[int]) -> None:
    """Wait until a broker leads partition 0 and the ISR has these members; record a note."""
    members = ", ".join(map(str, sorted(isr)))
    state = context.until(
        lambda: context.probe.partition(context.topic, 0),
        lambda state: state.leader == leader and set(state.isr) == isr,
        what=f"broker {leader} to lead {context.topic}-0 with the ISR {members}",
        limit_s=_LIMIT_S,
    )
    context.note(
        f"broker {leader} leads in epoch {state.leader_epoch}, the ISR is {members}", leader
    )
