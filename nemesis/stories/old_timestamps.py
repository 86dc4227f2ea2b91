"""Stories of records that retention deletes because their producer gave them an old timestamp.

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
"""

import time
from collections.abc import Mapping
from typing import Final

from highwater.harness.releases.release import Release
from highwater.harness.runs.history import FAIL
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults.machine import DAY_AHEAD
from highwater.nemesis.faults.registry import CLOCKS
from highwater.nemesis.stories.helpers import await_answer, await_leo
from highwater.nemesis.stories.story import (
    EXPIRY_CHECK_MS,
    HazardEnding,
    Prediction,
    StoryNeeds,
    story,
)

OLD_TIMESTAMP: Final = "old-timestamp"
"""The id of the problem that these stories show, in the catalogue of hazards."""

OLD: Final = ("m1", "m2", "m3")
RECENT: Final = "m4"

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_CHECKS: Final = 6
_LIMIT_S: Final = 45.0
"""The longest wait for retention. Up to 3.5 a broker looks for expired segments only 30 s after its
start."""

_BY_TIMESTAMP: Final = (0, 10, 1)
_BOUNDED: Final = (3, 6)

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
    for value in OLD:
        context.send(value, leader=leader)
    _await_copies(context)
    context.nemesis.inject("clock-bump", leader, choice=DAY_AHEAD)
    _await_deletion(context)
    context.nemesis.heal(leader)
    context.send(RECENT, leader=leader)


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
    context.hold(_CHECKS * EXPIRY_CHECK_MS / 1000)
    context.note(f"the brokers have looked for expired segments {_CHECKS} times")
    context.send(RECENT, leader=context.replicas[0])


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
