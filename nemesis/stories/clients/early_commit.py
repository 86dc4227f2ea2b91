"""A story about Java's consumer with ``group.protocol=consumer`` and ``enable.auto.commit``.

``early-commit``: a member's poll returns a record, and the member crashes while it processes the
record. With auto-commit, a poll should only commit the offsets of *earlier* polls. But up to 3.9 a
background thread of the client may commit this record's offset, too (KAFKA-18641). So the group
skips a record that no member has processed. The member that takes over the partition joins the
group before the record is sent.

The crashed member's connections are also blocked. Otherwise its client would leave the group, and
commit again.
"""

from typing import Final

from highwater.clusters.relay.rules import RelayRule, between, client_name
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.releases.catalogue import Release
from highwater.harness.releases.group_protocols import CONSUMER, CONSUMER_SINCE
from highwater.nemesis.context import ConsumingMember, ScheduleContext
from highwater.nemesis.stories.network import network_of
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

EARLY_COMMIT: Final = "KAFKA-18641"
"""The id of the problem that ``early-commit`` shows, in the catalogue of hazards."""

AT_WORK: Final = "m1"
_LATE: Final = "m2"
_PARTITIONS: Final = (0, 1)
_EVERY_S: Final = 0.5
_WORK_S: Final = 2.0
"""The interval of auto-commits, and the time between the member's poll and its crash."""

_JOINS_S: Final = 40.0
_READS_S: Final = 20.0
_REFUSED: Final = "brokers enable the KIP-848 group protocol by default from 4.0 on"


def _by_brokers(release: Release) -> str:
    return "" if release.number >= CONSUMER_SINCE else _REFUSED


@story(
    "early-commit",
    HazardEnding(
        hazard=EARLY_COMMIT,
        ending=Prediction(others=frozenset({("undelivered", AT_WORK)})),
    ),
    needs=StoryNeeds(wire="clients", java=True, partitions=len(_PARTITIONS)),
    outcome=("With Java's clients before 4.0 the group skips records that no member processed."),
    min_isr_most=3,
    why_not=_by_brokers,
)
def early_commit(context: ScheduleContext) -> None:
    """Kill a member while it processes a poll's records; its client has committed them."""
    membership = GroupMembership(
        group=context.plan.group,
        reset="earliest",
        protocol=CONSUMER,
        commits_every_s=_EVERY_S,
    )
    members = {f"member-{at}": context.groups.join(f"member-{at}", membership) for at in (0, 1)}
    _await_both(context, members)
    dying = next(name for name, member in members.items() if 0 in member.assigned)
    [heir] = (member for name, member in members.items() if name != dying)
    context.note(f"{dying} has partition 0, and will crash while it processes records")
    members[dying].die_at_work()
    _send(context, AT_WORK, members[dying])
    context.hold(_WORK_S)
    context.note(f"{dying} has processed {AT_WORK} for {_WORK_S:g} s, and crashes", step=1)
    network = network_of(context)
    dead = RelayRule(kind="reset", links=between((client_name(dying),), network.brokers))
    with network.under(dead):
        context.until(
            lambda: heir.assigned,
            lambda partitions: set(partitions) == set(_PARTITIONS),
            what="the other member to get partition 0",
            limit_s=_JOINS_S,
        )
        context.note("the other member has partition 0")
        _send(context, _LATE, heir)


def _await_both(context: ScheduleContext, members: dict[str, ConsumingMember]) -> None:
    """Wait until each member has one partition, and has received a record from it."""
    context.until(
        lambda: [len(member.assigned) for member in members.values()],
        lambda sizes: sizes == [1, 1],
        what="each member to have one partition",
        limit_s=_JOINS_S,
    )
    for partition in _PARTITIONS:
        [owner] = (member for member in members.values() if partition in member.assigned)
        _send(context, f"w{partition}", owner, partition)


def _send(
    context: ScheduleContext, value: str, member: ConsumingMember, partition: int = 0
) -> None:
    """Send a record, and wait until a member receives it."""
    answer = context.client.send(value, partition)
    context.until(
        lambda: member.given.get(partition, 0),
        lambda after: after > (answer.offset or 0),
        what=f"a member to receive {value}",
        limit_s=_READS_S,
    )
    context.note(f"a member received {value}")
