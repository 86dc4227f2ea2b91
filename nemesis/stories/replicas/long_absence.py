"""Stories of a replica that is down for longer than delete.retention.ms.

After the first cleaning of a tombstone, the log keeps it for ``delete.retention.ms``; then the log
cleaner removes it. In the same way the cleaner removes the marker of a transaction that has no
record left (KIP-534). It does not check that every replica has the tombstone or marker
(``Cleaner.cleanInto``, ``CleanedTransactionMetadata.onControlBatchRead``). A replica that starts
again fetches from the end of its own log, and never gets them.

- The replica has a value, and misses its *tombstone*: readers get the deleted key again.
- The replica has an aborted record, and misses the *abort marker*: the producer's next marker
  commits the record.
- The replica has a committed record, and misses the *commit marker*: the producer's next marker may
  abort the record. The cleaner removed the marker, so newer records had replaced the whole
  transaction. Readers notice only if the key was then deleted: they get an older value.
- The producer writes nothing more: on the replica the transaction never ends. The cleaner keeps the
  producer's last batch and marker for ``producer.id.expiration.ms``, but an open transaction does
  not expire (``ProducerStateManager.isProducerExpired``).

``long-absence`` has all four cases at once. ``retained-markers`` is the same story with the default
of ``delete.retention.ms``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from highwater.checkers.kafka_files.reader import read_partition
from highwater.harness.base.waiting import NotYetError
from highwater.harness.releases.release import Release
from highwater.harness.runs.derived_settings import DELETE_RETENTION
from highwater.harness.runs.history import OK
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import await_isr, await_replicas, move_leader
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

LONG_ABSENCE: Final = "delete-retention"
"""The id of the problem that the story shows, in the catalogue of hazards."""

_RETENTION_S: Final = 4.0
_SEGMENT_S: Final = 0.5
_CLEANED_S: Final = 45.0
_LIMIT_S: Final = 30.0

_SEGMENT: Final[Mapping[str, str]] = {"segment.ms": str(int(_SEGMENT_S * 1000))}
_SHORT: Final[Mapping[str, str]] = {
    **_SEGMENT,
    DELETE_RETENTION: str(int(_RETENTION_S * 1000)),
}
_DAY: Final[Mapping[str, str]] = {**_SEGMENT, DELETE_RETENTION: str(24 * 60 * 60 * 1000)}

_PRODUCERS_EXPIRE: Final = (3, 4)


def _remembers(release: Release) -> str:
    if release.number >= _PRODUCERS_EXPIRE:
        return ""
    return "it has no producer.id.expiration.ms, which came with 3.4 (KIP-854)"


_NEEDS: Final = StoryNeeds(transactions=True, keys=10, expiry=True)

Part = Callable[[ScheduleContext], Iterator[set[int]]]
"""A generator for one of the four cases. It yields when replica C may stop, then yields the offsets
of the tombstones and markers that the other replicas must remove. It continues when C runs again.
"""


def _deleted_key(context: ScheduleContext) -> Iterator[set[int]]:
    leader = context.replicas[0]
    context.send("k0=p0-0", leader=leader)
    yield set()
    yield {context.send("k0~p0-1", leader=leader)}


def _revived_abort(context: ScheduleContext) -> Iterator[set[int]]:
    writer = context.transactional("reviving")
    writer.begin()
    writer.send("k1=p1-0", 0)
    yield set()
    marker = _end(context, writer.abort)
    writer.begin()
    writer.send("k2=p1-1", 0)
    _end(context, writer.commit)
    yield {marker}


def _undone_commit(context: ScheduleContext) -> Iterator[set[int]]:
    leader = context.replicas[0]
    context.send("k3=p0-2", leader=leader)
    writer = context.transactional("undoing")
    writer.begin()
    writer.send("k3=p2-0", 0)
    yield set()
    marker = _end(context, writer.commit)
    yield {marker, context.send("k3~p0-3", leader=leader)}
    writer.begin()
    writer.send("k4=p2-1", 0)
    _end(context, writer.abort)


def _lost_marker(context: ScheduleContext) -> Iterator[set[int]]:
    writer = context.transactional("silent")
    writer.begin()
    writer.send("k5=p3-0", 0)
    yield set()
    marker = _end(context, writer.commit)
    context.send("k5=p0-4", leader=context.replicas[0])
    yield {marker}


def _end(context: ScheduleContext, end: Callable[[], str]) -> int:
    """End a transaction; return the offset of its marker.

    Raises:
        ScheduleNotFollowedError: the transaction did not end.
    """
    leader = context.replicas[0]
    marker = context.replica(leader).leo
    if (outcome := end()) not in {"", OK}:
        raise ScheduleNotFollowedError(f"the transaction did not end; its outcome is {outcome}")
    await_replicas(
        context,
        lambda seen: seen[leader].leo > marker,
        what=f"a marker at offset {marker}",
        limit_s=_LIMIT_S,
        brokers=(leader,),
    )
    return marker


@story(
    "long-absence",
    HazardEnding(
        hazard=LONG_ABSENCE,
        ending=Prediction(
            others=frozenset(
                {
                    ("resurrected-value", "k0=p0-0"),
                    ("G1a", "k1=p1-0"),
                    ("resurrected-value", "k3=p0-2"),
                    ("hanging-transaction", "k5=p3-0"),
                    *(("stale-replica", value) for value in ("k0=p0-0", "k1=p1-0", "k3=p0-2")),
                }
            )
        ),
    ),
    needs=_NEEDS,
    outcome=(
        "On every release readers get the deleted and the aborted record, and nothing after the "
        "open transaction."
    ),
    topic_config=_SHORT,
    min_isr_most=2,
    why_not=_remembers,
)
def long_absence(context: ScheduleContext) -> None:
    """Elect a replica that was down when the others removed tombstones and markers."""
    _be_away(context)


@story(
    "retained-markers",
    HazardEnding(hazard=LONG_ABSENCE, ending=Prediction()),
    needs=_NEEDS,
    outcome="No record is lost.",
    topic_config=_DAY,
    min_isr_most=2,
    why_not=_remembers,
)
def retained_markers(context: ScheduleContext) -> None:
    """Repeat long-absence, but with the default of delete.retention.ms."""
    _be_away(context)


def _be_away(context: ScheduleContext) -> None:
    a, b, c = context.replicas
    parts = [part(context) for part in (_deleted_key, _revived_abort, _undone_commit, _lost_marker)]
    for part in parts:
        next(part)
    end = context.replica(a).leo
    await_replicas(
        context,
        lambda seen: all(state.leo == end for state in seen.values()),
        what=f"every replica to end at offset {end}",
        limit_s=_LIMIT_S,
    )
    context.nemesis.inject("stop", c)
    await_isr(context, a, b)
    context.note(f"broker {c} is down, and has everything up to offset {end}", c)
    _clean(context, set[int]().union(*(next(part) for part in parts)))
    context.nemesis.heal(c)
    await_isr(context, a, b, c)
    for part in parts:
        next(part, None)
    move_leader(context, c)
    context.note(f"broker {c} is in sync again, and leads", c)


def _clean(context: ScheduleContext, forgotten: set[int]) -> None:
    """Send records until the cleaners have removed these offsets.

    With the default retention the offsets must remain; then send until the cleaners have run. A
    cleaner skips the active segment, and cleans a log only if the log has new records.
    """
    a, b, _ = context.replicas
    begun, number = context.clock(), 0
    while left := forgotten & (disk := _offsets(context, a) | _offsets(context, b)):
        after_s = context.clock() - begun
        cleaned = 0 not in disk  # the value of the deleted key
        if _stays(context) and left == forgotten and cleaned and after_s > 3 * _RETENTION_S:
            break
        if after_s > _CLEANED_S:
            raise ScheduleNotFollowedError(
                f"brokers still have {left} of the offsets {sorted(forgotten)}"
            )
        context.hold(_SEGMENT_S)
        context.send(f"k9=p9-{number}", leader=a)
        number += 1
    offsets = ", ".join(map(str, sorted(forgotten)))
    are = "still there" if left else "removed"
    context.note(f"tombstones and markers at {offsets} are {are}", a, step=1)


def _stays(context: ScheduleContext) -> bool:
    return context.plan.topic.config[DELETE_RETENTION] == _DAY[DELETE_RETENTION]


def _offsets(context: ScheduleContext, broker: int) -> set[int]:
    """Return the offsets in a replica's log on disk."""
    folder = context.cluster.brokers[broker].directory / f"{context.topic}-0"

    def look() -> set[int]:
        try:
            return {
                offset
                for batch in read_partition(folder)
                for offset in batch["offset"].to_pylist()
                if offset is not None
            }
        except FileNotFoundError as error:
            raise NotYetError(str(error)) from error

    return context.until(look, what=f"the log files of broker {broker} to be readable")
