"""Stories of a topic that is deleted and created again while a group has no members.

A coordinator deletes the committed offsets of a topic at the moment when it learns of the topic's
deletion. A coordinator does not delete them when it later loads ``__consumer_offsets``. So a
coordinator that was dead, or was elected later, still has the old topic's offsets. The group then
starts at these offsets in the new topic, and skips earlier records. This does not depend on
``auto.offset.reset`` or ``group.protocol``. In ``recreated-calmly`` the coordinator is alive, and
the group skips nothing.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from highwater.clusters.admin.sessions import await_cluster
from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.releases.group_protocols import CLASSIC, CONSUMER, CONSUMER_SINCE
from highwater.harness.releases.release import Release
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import COORDINATOR_TOPICS
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

RECREATED_TOPIC: Final = "recreated-topic"
"""The id of the problem that these stories show, in the catalogue of hazards."""

SKIPPED: Final = ("m1", "m2", "m3")
GIVEN: Final = "m4"
"""The records of the new topic: one more than the old topic had."""

_FOREIGN: Final = Prediction(others=frozenset({("foreign-offset", "")}))
_Seen = TypeVar("_Seen")
_LIMIT_S: Final = 60.0
_ASK_S: Final = 5.0
_COORDINATORS: Final = "an external cluster has many coordinators"


def _zookeeper(release: Release) -> str:
    if release.coordination == "kraft":
        return ""
    return "the story uses KRaft's way to delete topics"


def _no_consumer_protocol(release: Release) -> str:
    if release.number >= CONSUMER_SINCE:
        return _zookeeper(release)
    return "its groups have only the classic protocol, without KIP-848"


def _made_anew(plan: Plan, cluster: Cluster, probe: Probe, *, dead: bool) -> None:
    """Let a group commit offsets in a topic, delete this topic, and create it again."""
    topic, group = plan.topic.name, _group(plan)
    access: dict[str, str] = {"bootstrap.servers": cluster.bootstrap, **cluster.client}
    cluster.create_topic(topic, [sorted(cluster.brokers)], plan.topic.settings())
    producer = Producer({**access, "acks": "all"})
    for _ in SKIPPED:
        producer.produce(topic, b"old", partition=0)
    producer.flush(_LIMIT_S)
    reader = Consumer({**access, "group.id": group, "enable.auto.commit": False})
    with contextlib.closing(reader):
        end = TopicPartition(topic, 0, len(SKIPPED))
        commit = partial(reader.commit, offsets=[end], asynchronous=False)
        _await(commit, bool, "the group to commit the end offset of the old topic")
        coordinator = probe.partition(COORDINATOR_TOPICS[1], 0).leader
        if dead and coordinator is not None:
            cluster.brokers[coordinator].kill()
        cluster.delete_topic(topic)
        if dead and coordinator is not None:
            _await(
                partial(probe.partition, COORDINATOR_TOPICS[1], 0),
                lambda state: state.leader not in (None, -1, coordinator),
                "another broker to be the coordinator",
            )
            cluster.brokers[coordinator].start()
            await_cluster(cluster, probe)
        else:
            place = TopicPartition(topic, 0)
            _await(
                lambda: reader.committed([place], timeout=_ASK_S)[0].offset,
                lambda offset: offset < 0,
                "the coordinator to delete the old topic's offset",
            )


def _await(look: Callable[[], _Seen], until: Callable[[_Seen], bool], what: str) -> None:
    await_condition(
        look, until, what=what, limit_s=_LIMIT_S, passing=(UnreachableError, KafkaException)
    )


def _group(plan: Plan) -> str:
    return f"{plan.topic.name}-group"


@story(
    "recreated-topic",
    HazardEnding(hazard=RECREATED_TOPIC, ending=_FOREIGN),
    needs=StoryNeeds(joined=1, before=partial(_made_anew, dead=True), outside=_COORDINATORS),
    outcome="The group starts at the old topic's offset, and skips earlier records of the new "
    "topic.",
    min_isr_most=3,
    why_not=_zookeeper,
)
def recreated_topic(context: ScheduleContext) -> None:
    """Delete and re-create a topic while the group's coordinator is dead."""
    _read(context)


@story(
    "recreated-consumer",
    HazardEnding(hazard=RECREATED_TOPIC, ending=_FOREIGN),
    needs=StoryNeeds(joined=1, before=partial(_made_anew, dead=True), outside=_COORDINATORS),
    outcome="The group starts at the old topic's offset, and skips earlier records of the new "
    "topic.",
    min_isr_most=3,
    why_not=_no_consumer_protocol,
)
def recreated_consumer(context: ScheduleContext) -> None:
    """Repeat recreated-topic, but with group.protocol=consumer."""
    _read(context, CONSUMER)


@story(
    "recreated-calmly",
    HazardEnding(hazard=RECREATED_TOPIC, ending=Prediction()),
    needs=StoryNeeds(joined=1, before=partial(_made_anew, dead=False), outside=()),
    outcome="The group receives all records of the new topic.",
    min_isr_most=3,
    why_not=_zookeeper,
)
def recreated_calmly(context: ScheduleContext) -> None:
    """Repeat recreated-topic, but with a live coordinator."""
    _read(context)


def _read(context: ScheduleContext, protocol: str = CLASSIC) -> None:
    """Send records to the new topic, and let the group read them, from the earliest offset on."""
    leader = context.replicas[0]
    for value in (*SKIPPED, GIVEN):
        offset = context.send(value, leader=leader)
    context.note(f"{context.topic} is a new topic with {offset + 1} records", step=1)
    group = _group(context.plan)
    membership = GroupMembership(group=group, reset="earliest", protocol=protocol)
    member = context.groups.join("member-0", membership)
    context.until(
        lambda: member.given.get(0, 0),
        lambda after: after > offset,
        what=f"the group to receive {GIVEN}",
        limit_s=_LIMIT_S,
    )
    context.note(f"the group received {GIVEN}")
