"""Stories of records that retention deletes too early: old timestamps, and a wrong retention.ms.

Retention compares ``retention.ms`` with the age of the largest timestamp in a segment
(``UnifiedLog.deleteRetentionMsBreachedSegments``, KIP-33). With
``message.timestamp.type=CreateTime``, the default, the producer chooses the timestamp. It may be
old: in a backfill, in a replay of old data, or if the producer's clock is behind. Retention also
deletes the active segment: if every record below the high watermark is too old, each broker closes
the segment and deletes it (``UnifiedLog.deleteSegments``). A new record in the same segment
prevents this.

Two stories lose nothing: in ``append-time`` brokers write their own time, and in
``bounded-timestamp`` they refuse old timestamps (KIP-937). These settings do not help if the
leader's clock is ahead (``clock-ahead``). The leader compares the timestamps with its own time, and
sets a new log start for all replicas.

In ``inherited-settings`` a topic gets the settings of a deleted topic with the same name. A KRaft
broker that starts reads the metadata log as a single change. ``ConfigurationsDelta`` skips the
deletion of a topic whose settings are only in this change (KAFKA-16206). So on this broker the new
topic has all settings of the deleted topic that it does not state itself, as it does in
``stated-settings``.

In ``largest-timestamp`` the second record of a batch has the largest timestamp. A broker from 3.0
to 3.7 stores the offset of the batch's last record, if it appends the batch as a follower
(KAFKA-16310). It returns this offset after it has become leader.
"""

import time
from collections.abc import Mapping
from typing import Final

from highwater.clusters.core.interfaces import Cluster, Probe
from highwater.harness.releases.release import Release
from highwater.harness.runs.history import FAIL
from highwater.harness.runs.plan import Plan
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults.machine import DAY_AHEAD
from highwater.nemesis.faults.registry import CLOCKS
from highwater.nemesis.stories.helpers import (
    await_answer,
    await_isr,
    await_leo,
    look_until,
    move_leader,
)
from highwater.nemesis.stories.story import (
    EXPIRY_CHECK_MS,
    HazardEnding,
    Prediction,
    StoryNeeds,
    story,
)

OLD_TIMESTAMP: Final = "old-timestamp"
INHERITED_SETTINGS: Final = "inherited-settings"
LARGEST_TIMESTAMP: Final = "KAFKA-16310"
"""The ids of the problems that these stories show, in the catalogue of hazards."""

OLD: Final = ("m1", "m2", "m3")
RECENT: Final = "m4"

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_SECOND_MS: Final = 1000
_AHEAD_MS: Final = 600_000
_CHECKS: Final = 6
_LIMIT_S: Final = 45.0
"""The longest wait for retention. Up to 3.5 a broker looks for expired segments only 30 s after its
start."""

_BY_TIMESTAMP: Final = (0, 10, 1)
_BOUNDED: Final = (3, 6)
_LARGEST: Final = (3, 0)
_CHECKS_EARLY: Final = (3, 6)

_RETENTION: Final[Mapping[str, str]] = {"retention.ms": str(_HOUR_MS)}


def _by_file(release: Release) -> str:
    if release.number >= _BY_TIMESTAMP:
        return ""
    return "its retention uses the files' modification times instead of timestamps (KIP-33)"


def _unbounded(release: Release) -> str:
    if release.number >= _BOUNDED:
        return ""
    return "it has no message.timestamp.before.max.ms, which came with 3.6 (KIP-937)"


@story(
    "old-timestamp",
    HazardEnding(hazard=OLD_TIMESTAMP, ending=Prediction(lost=frozenset(OLD))),
    needs=StoryNeeds(expiry=True),
    outcome="Every release deletes these records at once.",
    topic_config=_RETENTION,
    min_isr_most=3,
    why_not=_by_file,
)
def old_timestamp(context: ScheduleContext) -> None:
    """Send records with timestamps of yesterday to a topic with retention.ms of an hour."""
    _send_old(context)
    _await_deletion(context)
    context.send(RECENT, leader=context.replicas[0])


@story(
    "clock-ahead",
    HazardEnding(hazard=OLD_TIMESTAMP, ending=Prediction(lost=frozenset(OLD))),
    needs=StoryNeeds(expiry=True, machine=CLOCKS),
    outcome="Every release deletes these records at once.",
    topic_config={**_RETENTION, "message.timestamp.type": "LogAppendTime"},
    min_isr_most=3,
    why_not=_by_file,
)
def clock_ahead(context: ScheduleContext) -> None:
    """Repeat append-time with timestamps of today; the leader's clock jumps a day ahead."""
    leader = context.replicas[0]
    _send_today(context)
    context.nemesis.inject("clock-bump", leader, choice=DAY_AHEAD)
    _await_deletion(context)
    context.nemesis.heal(leader)
    context.send(RECENT, leader=leader)


def _send_today(context: ScheduleContext) -> None:
    """Send records with timestamps of today; wait until every replica has appended them."""
    for value in OLD:
        context.send(value, leader=context.replicas[0])
    _await_copies(context)


def _await_deletion(context: ScheduleContext) -> None:
    """Wait until retention has deleted the records on every replica."""
    end = len(OLD)
    context.until(
        lambda: {
            broker: context.probe.log_start(broker, context.topic, 0) for broker in context.replicas
        },
        lambda starts: all(start == end for start in starts.values()),
        what=f"every replica to have deleted {', '.join(OLD)}",
        limit_s=_LIMIT_S,
    )
    context.note(f"every replica's log begins at {end}: retention has deleted {', '.join(OLD)}")


@story(
    "append-time",
    HazardEnding(hazard=OLD_TIMESTAMP, ending=Prediction()),
    needs=StoryNeeds(expiry=True),
    outcome="No record is lost.",
    topic_config={**_RETENTION, "message.timestamp.type": "LogAppendTime"},
    min_isr_most=3,
    why_not=_by_file,
)
def append_time(context: ScheduleContext) -> None:
    """Repeat old-timestamp, but with message.timestamp.type=LogAppendTime."""
    _send_old(context)
    _await_checks(context)
    context.send(RECENT, leader=context.replicas[0])


def _await_checks(context: ScheduleContext) -> None:
    """Wait until the brokers have looked for expired segments several times."""
    context.hold(_CHECKS * EXPIRY_CHECK_MS / 1000)
    context.note(f"the brokers have looked for expired segments {_CHECKS} times")


@story(
    "bounded-timestamp",
    HazardEnding(hazard=OLD_TIMESTAMP, ending=Prediction()),
    needs=StoryNeeds(expiry=True, idempotent=True),  # with acks=0 no producer learns of a refusal
    outcome="Brokers refuse the records with old timestamps.",
    topic_config={**_RETENTION, "message.timestamp.before.max.ms": str(_HOUR_MS)},
    min_isr_most=3,
    why_not=_unbounded,
)
def bounded_timestamp(context: ScheduleContext) -> None:
    """Repeat old-timestamp, but with message.timestamp.before.max.ms."""
    for value in OLD:
        _send(context, value)
        context.until(
            lambda value=value: context.direct.answers[value],  # type: ignore[misc]
            lambda answer: answer is not None and answer.outcome == FAIL,
            what=f"the broker to refuse {value}",
        )
    error = context.direct.answers[OLD[0]]
    context.note(f"the broker refused {', '.join(OLD)}: {error and error.error}", step=1)
    context.send(RECENT, leader=context.replicas[0])


def _send(context: ScheduleContext, value: str) -> None:
    """Send a record with a timestamp of yesterday to the leader."""
    address = context.cluster.brokers[context.replicas[0]].address
    yesterday_ms = time.time_ns() // 1_000_000 - _DAY_MS
    context.direct.send(value, 0, address=address, timestamp_ms=yesterday_ms)


def _send_old(context: ScheduleContext) -> None:
    """Send the records with old timestamps; wait until every replica has appended them."""
    for value in OLD:
        _send(context, value)
        await_answer(context, value, limit_s=_LIMIT_S)
    _await_copies(context)
    context.note(f"{', '.join(OLD)} are acknowledged, with timestamps of yesterday", step=1)


def _await_copies(context: ScheduleContext) -> None:
    """Wait until every replica has appended the records with old timestamps."""
    await_leo(
        context,
        len(OLD),
        f"every replica to have appended {', '.join(OLD)}",
        *context.replicas,
        limit_s=_LIMIT_S,
    )


def _no_early_check(release: Release) -> str:
    if release.coordination != "kraft":
        return "its brokers read no metadata log"
    if release.number >= _CHECKS_EARLY:
        return ""
    return "it looks for expired segments only 30 s after a start (log.initial.task.delay.ms)"


def _deleted_before(plan: Plan, cluster: Cluster, _probe: Probe) -> None:
    """Create a topic of the same name that keeps its records for a second, and delete it."""
    topic = plan.topic.name
    cluster.create_topic(topic, [sorted(cluster.brokers)], {"retention.ms": str(_SECOND_MS)})
    cluster.delete_topic(topic)


_PREDECESSOR: Final = StoryNeeds(expiry=True, before=_deleted_before)


@story(
    "inherited-settings",
    HazardEnding(hazard=INHERITED_SETTINGS, ending=Prediction(lost=frozenset(OLD))),
    needs=_PREDECESSOR,
    outcome="The broker deletes the records, and so do the followers.",
    topic_config={"retention.ms": ""},
    min_isr_most=3,
    why_not=_no_early_check,
)
def inherited_settings(context: ScheduleContext) -> None:
    """Restart a broker; a deleted topic of the same name had retention.ms=1000."""
    leader = _restart_and_lead(context)
    start = look_until(
        context,
        lambda: context.probe.log_start(leader, context.topic, 0),
        bool,
        limit_s=2 * _CHECKS * EXPIRY_CHECK_MS / 1000,
    )
    if start:
        _await_deletion(context)
    context.send(RECENT, leader=leader)


@story(
    "stated-settings",
    HazardEnding(hazard=INHERITED_SETTINGS, ending=Prediction()),
    needs=_PREDECESSOR,
    outcome="No record is lost.",
    min_isr_most=3,
    why_not=_no_early_check,
)
def stated_settings(context: ScheduleContext) -> None:
    """Repeat inherited-settings, but create the new topic with retention.ms=-1."""
    leader = _restart_and_lead(context)
    _await_checks(context)
    context.send(RECENT, leader=leader)


def _restart_and_lead(context: ScheduleContext) -> int:
    """Send records, kill and start broker B, let it lead, and return its id."""
    _, b, _ = context.replicas
    _send_today(context)
    context.nemesis.inject("kill", b)
    context.nemesis.heal_all((b,))
    await_isr(context, *context.replicas)
    epoch = move_leader(context, b)
    context.note(f"broker {b}, which has restarted, leads in epoch {epoch}", b, step=1)
    return b


def _no_largest(release: Release) -> str:
    if release.number >= _LARGEST:
        return ""
    return "its brokers do not search for the largest timestamp (KIP-734)"


@story(
    "largest-timestamp",
    HazardEnding(
        hazard=LARGEST_TIMESTAMP, ending=Prediction(others=frozenset({("wrong-lookup", "")}))
    ),
    outcome="Up to 3.7 the new leader returns another record's offset.",
    min_isr_most=3,
    why_not=_no_largest,
)
def largest_timestamp(context: ScheduleContext) -> None:
    """Send a batch whose second record has the largest timestamp, and kill the leader."""
    leader, b, _ = context.replicas
    now_ms = time.time_ns() // 1_000_000
    context.direct.send_batch(
        *(OLD, 0),
        address=context.cluster.brokers[leader].address,
        times_ms=(now_ms, now_ms + _AHEAD_MS, now_ms + 1),
    )
    await_answer(context, OLD[-1], limit_s=_LIMIT_S)
    _await_copies(context)
    context.nemesis.inject("kill", leader)
    context.nemesis.heal_all((leader,))
    await_isr(context, *context.replicas)
    epoch = move_leader(context, b)
    context.note(f"broker {b}, which copied {OLD[1]} from {leader}, leads in epoch {epoch}", b)
