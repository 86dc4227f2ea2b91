"""The story of a group coordinator that cannot load its log, because it gets no memory.

A broker that becomes coordinator loads its partition of ``__consumer_offsets``. Before 4.0 it
catches every error of this, logs the error, and then marks the partition as loaded
(``GroupMetadataManager.loadGroupsAndOffsets``). So it answers that groups have no offsets. Their
consumers then begin as ``auto.offset.reset`` says. Since 4.0 such a coordinator fails, and refuses
requests until another load succeeds (``CoordinatorRuntime``, KIP-848).

In this story the kernel refuses memory for the 5 MB that Java reads at once
(``offsets.load.buffer.size``). An error of the disk, or a full heap, has the same effect.
"""

import re
from typing import Final

from highwater.harness.runs.history import OK
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.faults.machine import TWO_MB
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

UNLOADED: Final = "unloaded-coordinator"
"""The id of the problem that ``unloaded-groups`` shows, in the catalogue of hazards."""

_OFFSETS: Final = COORDINATOR_TOPICS[1]
_FAILED: Final = re.compile(
    rf"(?:Error loading|Failed to load|Execution of Load\(tp=).*{_OFFSETS}-0"
)
_LOAD_S: Final = 30.0
_REFUSES_S: Final = 5.0


@story(
    "unloaded-groups",
    HazardEnding(
        hazard=UNLOADED,
        ending=Prediction(others=frozenset({("coordinator-contradiction", "")})),
    ),
    needs=StoryNeeds(transactions=True, group=True),
    outcome="Before 4.0 the coordinator does not know the committed offset.",
    min_isr_most=3,
)
def unloaded_groups(context: ScheduleContext) -> None:
    """Make a broker the coordinator of a group while the broker gets no memory to load it."""
    group, writer = context.plan.group, context.transactional("writer")
    writer.begin()
    end = writer.send("m0", 0) + 1
    writer.send_positions({0: end}, context.groups.outside(group))
    if (outcome := writer.commit()) != OK:
        raise ScheduleNotFollowedError(f"the transaction did not commit; its outcome is {outcome}")
    state = context.until(
        lambda: context.probe.partition(_OFFSETS, 0),
        lambda state: state.leader >= 0 and len(state.isr) > 1,
        what="the leader and a follower of the groups to be reported",
    )
    follower = next(broker for broker in state.isr if broker != state.leader)
    context.note(f"offset {end} of {group} is committed at broker {state.leader}", step=1)
    log = context.cluster.directory / "logs" / f"broker-{follower}.log"
    begun = log.stat().st_size  # earlier runs of this cluster have lines, too

    def failures() -> list[str]:
        lines = log.read_bytes()[begun:].decode("utf-8", "replace").splitlines()
        return [line for line in lines if _FAILED.search(line)]

    context.nemesis.inject("no-memory", follower, choice=TWO_MB)
    context.cluster.move_leader(_OFFSETS, 0, follower)
    context.until(
        failures,
        bool,
        what=f"the load of {_OFFSETS}-0 on broker {follower} to fail",
        limit_s=_LOAD_S,
    )
    context.nemesis.heal(follower)
    try:
        offsets = context.until(
            lambda: context.groups.committed(group),
            what="the coordinator to return offsets",
            limit_s=_REFUSES_S,
        )
        answer = "returns no offset" if offsets.get(0) is None else "returns the offset"
    except ScheduleNotFollowedError:
        context.cluster.move_leader(_OFFSETS, 0, state.leader)
        answer = f"refuses, so broker {state.leader} becomes coordinator again"
    context.note(f"the coordinator of {group} {answer}", follower, step=2)
