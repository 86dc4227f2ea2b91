"""Stories of tiered storage: wrong counts, a late report, and a group that returns too late.

``tiered-new-leader``: a leader deletes the oldest segments of the remote tier when the partition is
larger than retention.bytes. A segment in both tiers must count once, so the leader ignores local
segments below the highest offset in the remote tier. A leader reads this offset when it looks for
segments to copy; a follower reads it at intervals. A broker that has just restarted does not know
the offset. If a new leader looks for expired segments before it knows the offset, it counts local
segments and their remote copies (KAFKA-20732). If copying is disabled (KIP-950), this always
happens, because the leader never reads the offset.

``failed-copies``: before a leader copies a segment, it announces the copy in Kafka's internal topic
about the remote tier. Before 3.9 each failed attempt then counts as a segment of the tier
(KAFKA-17062, ``RemoteLogManager.RLMTask.buildRetentionSizeData``).

``expired-unread``: a group has no members for longer than ``retention.ms``, which also applies to
the remote tier, so its unread records are deleted. ``local-retention`` loses nothing: only
``local.retention.ms`` has passed, and the group reads all records from the tier.

``late-segment``: brokers find a remote segment by its first offset, and a report of a finished copy
replaces an earlier segment with the same first offset. If a former leader's report arrives after
the new leader's, and the former leader's segment is shorter, no broker finds the remaining offsets
(``RemoteLogLeaderEpochState``). In ``prompt-segment`` the report arrives before the new leader's.
"""

from typing import Final

from highwater.clusters.nodes.config_files import TIER_TASK_S
from highwater.clusters.relay.network import CaughtMessages
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.releases.release import Release
from highwater.harness.runs.store import REMOTE_TIER
from highwater.harness.runs.topics.remote_tier import remote_partition, remote_segment
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import (
    await_event,
    await_leads,
    await_replicas,
    look_until,
    move_leader,
)
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

_RECORDS: Final = tuple(f"m{number}" for number in range(6))
_RECORD_BYTES: Final = 600_000
"""Two records do not fit into the smallest segment, so every record has its own segment."""

_SEGMENT_BYTES: Final = 1 << 20
_RETENTION_BYTES: Final = 5_000_000
"""A retention.bytes that is enough for the records and the final marker records (fences), but not
if four or five records count twice."""

_TIERED: Final = {
    "remote.storage.enable": "true",
    "segment.bytes": str(_SEGMENT_BYTES),
    "retention.bytes": str(_RETENTION_BYTES),
}

_LOST: Final = frozenset(_RECORDS[:2])
"""The lost records: they are in the two oldest segments. The leader counts eleven segments instead
of six, because it counts five of them twice. Without the two oldest segments the size is below the
limit, or above the limit by less than one segment."""

_UNREAD: Final = _RECORDS[1:5]
"""The records that are written while the group has no members: all but the first and the last."""

_RETENTION_MS: Final = 12_000
_BRIEF: Final = {**_TIERED, "retention.bytes": "-1", "local.retention.ms": "1000"}

_SEEN, *_HIDDEN = _RECORDS[:4]
_COPIED_TWICE: Final = StoryNeeds(wire="nodes", tiered=True, expiry=True)
_TIER_TOPIC: Final = "__remote_log_metadata"
"""Kafka's topic about the remote tier, with one partition."""

_COPYING: Final = "remote.log.copy.disable"
_COPYING_STOPS: Final = (3, 9)
"""The first release in which copying is a separate task and can be disabled (KIP-950)."""

_CLOSES_SEGMENTS: Final = (3, 7)
"""The first release in which local retention closes an active segment (``UnifiedLog``)."""

_LIMIT_S: Final = 30.0
_LOOK_S: Final = 1.0


def _no_tier(release: Release) -> str:
    if release.number < (3, 6):
        return "it has no tiered storage, which came with 3.6 (KIP-405)"
    return ""


def _cannot_stop_copying(release: Release) -> str:
    if why := _no_tier(release):
        return why
    if release.number < _COPYING_STOPS:
        return f"it has no {_COPYING}, which came with 3.9 (KIP-950)"
    return ""


def _closes_no_segment(release: Release) -> str:
    if why := _no_tier(release):
        return why
    if release.number < _CLOSES_SEGMENTS:
        return "local retention closes no active segment of its replicas before 3.7"
    return ""


@story(
    "tiered-new-leader",
    HazardEnding(hazard="KAFKA-20732", ending=Prediction(lost=_LOST)),
    needs=StoryNeeds(tiered=True, record_bytes=_RECORD_BYTES),
    outcome=("From 3.9 to 4.3 the oldest records are lost on all replicas and in the remote tier."),
    topic_config=_TIERED,
    min_isr_most=2,
    why_not=_cannot_stop_copying,
)
def tiered_new_leader(context: ScheduleContext) -> None:
    """Lose records within retention.bytes: a new leader counts segments in both tiers twice."""
    a, b, _ = context.replicas
    for record in _RECORDS:
        leo = context.send(record, leader=a) + 1
    await_replicas(
        context,
        lambda seen: all(state.leo == leo for state in seen.values()),
        what=f"every replica to have {len(_RECORDS)} records",
        limit_s=_LIMIT_S,
    )
    copied = _await_copies(context, leo - 1)
    context.note(f"broker {a} has copied {len(copied)} of {leo} segments; retention keeps them all")
    _set_copying(context, "true")
    context.note("copying to the remote tier is disabled")
    context.nemesis.inject("stop", b)
    context.nemesis.heal(b)
    started = context.clock()
    _await_in_sync(context)
    move_leader(context, b)
    if context.clock() - started > TIER_TASK_S:
        raise ScheduleNotFollowedError(
            f"broker {b} must become leader before its second look at the remote tier, "
            f"{TIER_TASK_S:g} s after its start, but was later"
        )
    context.note(f"broker {b} has restarted in order, and leads; no broker has failed", b)
    remaining = _let_leader_look(context, copied)
    context.note(f"the remote tier has {len(remaining)} of {len(copied)} segments", b)
    _set_copying(context, "false")
    context.note("copying to the remote tier is enabled again")


@story(
    "failed-copies",
    HazardEnding(hazard="KAFKA-17062", ending=Prediction(lost=frozenset(_RECORDS[:1]))),
    needs=StoryNeeds(tiered=True, record_bytes=_RECORD_BYTES),
    outcome="Up to 3.8 the oldest record is lost.",
    topic_config=_TIERED,
    min_isr_most=3,
    why_not=_no_tier,
)
def failed_copies(context: ScheduleContext) -> None:
    """Make copies to the remote tier fail: the failed copies count for retention.bytes."""
    leader = context.replicas[0]
    *first, last = _RECORDS
    for record in first:
        leo = context.send(record, leader=leader) + 1
    _await_copies(context, leo - 1)
    context.note(f"broker {leader} has copied {leo - 1} of {leo} segments")
    context.nemesis.inject("tier-outage")
    context.note("the remote tier fails", step=1)
    try:
        context.send(last, leader=leader)
        start = look_until(
            context,
            lambda: context.probe.log_start(leader, context.topic, 0),
            lambda start: start > 0,
            limit_s=5 * TIER_TASK_S,
        )
        context.cluster.configure(context.topic, {"retention.bytes": "-1"})
    finally:
        context.nemesis.heal_fault("tier-outage")
    context.note(f"the log began at offset {start} when retention.bytes was lifted", leader)


@story(
    "expired-unread",
    HazardEnding(
        hazard="expired-unread", ending=Prediction(lost=frozenset((_RECORDS[0], *_UNREAD)))
    ),
    needs=StoryNeeds(tiered=True, record_bytes=_RECORD_BYTES, expiry=True, joined=2),
    outcome="The group misses records that were written while it had no members.",
    topic_config={**_BRIEF, "retention.ms": str(_RETENTION_MS)},
    min_isr_most=3,
    why_not=_no_tier,
)
def expired_unread(context: ScheduleContext) -> None:
    """Let records expire by retention.ms in the remote tier while a group has no members."""
    _be_away(context, expires=True)


@story(
    "local-retention",
    HazardEnding(hazard="expired-unread", ending=Prediction()),
    needs=StoryNeeds(tiered=True, record_bytes=_RECORD_BYTES, expiry=True, joined=2),
    outcome="The group reads all records, some from the remote tier.",
    topic_config=_BRIEF,
    min_isr_most=3,
    why_not=_no_tier,
)
def local_retention(context: ScheduleContext) -> None:
    """Repeat expired-unread, but only local.retention.ms passes."""
    _be_away(context, expires=False)


@story(
    "late-segment",
    HazardEnding(hazard="late-segment", ending=Prediction(lost=frozenset(_HIDDEN))),
    needs=_COPIED_TWICE,
    outcome="Three records in the remote tier can never be read.",
    topic_config={**_BRIEF, "local.retention.ms": "1"},
    min_isr_most=3,
    why_not=_closes_no_segment,
)
def late_segment(context: ScheduleContext) -> None:
    """Hide records in the remote tier: a former leader reports its copy too late."""
    _copy_twice(context, late=True)


@story(
    "prompt-segment",
    HazardEnding(hazard="late-segment", ending=Prediction()),
    needs=_COPIED_TWICE,
    outcome="All records can be read.",
    topic_config={**_BRIEF, "local.retention.ms": "1"},
    min_isr_most=3,
    why_not=_closes_no_segment,
)
def prompt_segment(context: ScheduleContext) -> None:
    """Repeat late-segment, but the report arrives in time."""
    _copy_twice(context, late=False)


def _copy_twice(context: ScheduleContext, *, late: bool) -> None:
    """Let two leaders copy segments that begin at the same offset; the first one is shorter.

    Each replica closes its active segment by itself when local.retention.ms has passed, if the
    replica's HW is its LEO. A follower learns the HW later, so its segment gets more records.
    """
    keeper = context.until(
        lambda: context.probe.partition(_TIER_TOPIC, 0).leader,
        lambda leader: leader is not None,
        what=f"a leader of {_TIER_TOPIC}-0",
        limit_s=_LIMIT_S,
    )
    former, heir = [broker for broker in context.replicas if broker != keeper][:2]
    move_leader(context, former)
    await_leads(context, former)
    _await_in_sync(context)
    rule = f"hold Produce broker-{former}>broker-{keeper} n=2 times=0"
    with context.intercept(rule) as report:
        context.send(_SEEN, leader=former)
        _await_local(context, former, {0, 1})
        for record in _HIDDEN:
            end = context.send(record, leader=former) + 1
        context.note(f"broker {former} has closed a segment with {_SEEN} only", former)
        await_event(report, "caught", limit_s=_LIMIT_S)
        context.note(f"it has copied this segment; the relay holds its report to {_TIER_TOPIC}")
        _await_local(context, heir, {0, end})
        context.note(f"broker {heir} has closed a segment with all {end} records", heir)
        if not late:
            _let_report(context, report)
        move_leader(context, heir)
        _await_local(context, heir, {end})
        context.note("it leads, has copied this segment, and has deleted it from its disk", heir)
        if late:
            _let_report(context, report)
        context.hold(_LOOK_S)


def _let_report(context: ScheduleContext, report: CaughtMessages) -> None:
    report.release("schedule")
    await_event(report, "answered", limit_s=_LIMIT_S)
    context.note(f"{_TIER_TOPIC} has the report about the shorter segment")


def _await_local(context: ScheduleContext, broker: int, bases: set[int]) -> None:
    """Wait until the segments on a broker's disk begin at these offsets."""
    folder = context.cluster.directory / "replicas" / str(broker) / f"{context.topic}-0"
    context.until(
        lambda: {int(file.stem) for file in folder.glob("*.log")},
        lambda seen: seen == bases,
        what=f"broker {broker} to have segments that begin at {sorted(bases)}",
        limit_s=_LIMIT_S,
    )


def _be_away(context: ScheduleContext, *, expires: bool) -> None:
    """Send records while a group has no members, let them expire, and restart a member."""
    leader = context.replicas[0]
    group = GroupMembership(group=context.plan.group, reset="earliest")
    first, *_, last = _RECORDS
    context.send(first, leader=leader)
    _join_until_given(context, "member-0", group, 1)
    for record in _UNREAD:
        end = context.send(record, leader=leader) + 1
    context.note(f"{', '.join(_UNREAD)} are acknowledged, and the group has no members", step=1)
    _await_local_start(context, end - 1)
    context.note("every replica has only its newest segment; the remote tier has the others")
    if expires:
        context.until(
            lambda: context.probe.log_start(leader, context.topic, 0),
            lambda start: start == end,
            what=f"retention to delete everything before offset {end}",
            limit_s=_LIMIT_S + 3 * TIER_TASK_S,
        )
        context.cluster.configure(context.topic, {"retention.ms": "-1"})
        context.note(
            f"the log now starts at {end}: the other records expired by retention.ms", leader
        )
    context.send(last, leader=leader)
    _join_until_given(context, "member-1", group, end + 1)
    context.note(f"the group has a member again, which received {last}")


def _join_until_given(
    context: ScheduleContext, name: str, group: GroupMembership, end: int
) -> None:
    """Let a member join the group, receive all records before ``end``, commit ``end`` and leave."""
    member = context.groups.join(name, group)
    context.until(
        lambda: member.given.get(0, 0),
        lambda after: after >= end,
        what=f"{name} to receive the records before offset {end}",
        limit_s=_LIMIT_S,
    )
    member.leave()
    context.until(
        lambda: context.groups.committed(group.group).get(0),
        lambda offset: offset == end,
        what=f"the group to commit offset {end}",
        limit_s=_LIMIT_S,
    )


def _await_local_start(context: ScheduleContext, start: int) -> None:
    """Wait until no replica has a local segment before an offset."""
    folders = [
        context.cluster.directory / "replicas" / str(broker) / f"{context.topic}-0"
        for broker in context.replicas
    ]
    context.until(
        lambda: [int(file.stem) for folder in folders for file in folder.glob("*.log")],
        lambda bases: min(bases, default=-1) >= start,
        what=f"every replica to have deleted its segments before offset {start}",
        limit_s=_LIMIT_S + 3 * TIER_TASK_S,
    )


def _set_copying(context: ScheduleContext, disabled: str) -> None:
    context.cluster.configure(context.topic, {_COPYING: disabled})


def _copies(context: ScheduleContext) -> set[int]:
    """Return the base offsets of the segments in the remote tier."""
    return {
        base
        for file in (context.cluster.directory / REMOTE_TIER).glob("*/*.log")
        if remote_partition(file.parent.name, context.topic) == 0
        and (base := remote_segment(file.name)) is not None
    }


def _await_copies(context: ScheduleContext, count: int) -> set[int]:
    """Wait until the remote tier has this many segments, and return their base offsets."""
    return context.until(
        lambda: _copies(context),
        lambda copies: len(copies) >= count,
        what=f"the remote tier to have {count} segments",
        limit_s=_LIMIT_S + TIER_TASK_S,
    )


def _await_in_sync(context: ScheduleContext) -> None:
    context.until(
        lambda: context.probe.partition(context.topic, 0),
        lambda state: set(state.isr) == set(context.replicas),
        what="every replica to be in the ISR",
        limit_s=_LIMIT_S,
    )


def _let_leader_look(context: ScheduleContext, copied: set[int]) -> set[int]:
    """Wait until the new leader has checked expiry; return the remaining base offsets.

    If the leader finds no expired segment, wait for its second check: at the first check it may not
    know any remote segment yet.
    """
    look_until(
        context, lambda: _copies(context), lambda copies: copies != copied, limit_s=2 * TIER_TASK_S
    )
    context.hold(_LOOK_S)
    return _copies(context)
