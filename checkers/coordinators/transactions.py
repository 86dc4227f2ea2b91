"""Compare a transaction coordinator's log with clients' histories and partitions' logs.

The rules are those of ``TransactionMetadata`` and ``TransactionStateManager`` of 3.9 and 4.x:

- A Complete state follows the Prepare state of the same end (commit or abort), or repeats itself.
- After a client has used a producer id and epoch (state Ongoing), no later record has an older id
  or epoch. Ids and epochs in other states do not count as used: a coordinator may continue from an
  unacknowledged record in its memory.
- The coordinator writes the Prepare state before the markers, and the Complete state after the
  markers are in all partitions. A marker may be repeated. Producers that are not in the log are not
  judged.
- A commit is acknowledged only after its PrepareCommit state.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from highwater.checkers.coordinators.folded_logs import CoordinatorAnswer, Place, Row, contradicted
from highwater.checkers.core.anomaly_kinds import COORDINATOR_CONTRADICTION
from highwater.checkers.groups.events import GroupFinding
from highwater.checkers.kafka_files.coordinator_records import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    STATES,
    TransactionRecord,
    transaction_record,
)
from highwater.checkers.transactions.coordinated import TOPIC

_ENDS: Final = {PREPARE_COMMIT: "commit", PREPARE_ABORT: "abort"}
_PREPARES: Final = {COMPLETE_COMMIT: PREPARE_COMMIT, COMPLETE_ABORT: PREPARE_ABORT}
_FENCING: Final = STATES[-1]
"""The state of a transaction that the coordinator is about to abort with the next epoch. It exists
only in the coordinator's memory."""


class Marker(NamedTuple):
    """A transaction marker in a partition's log. Markers with the same four values are equal."""

    partition: int
    producer_id: int
    epoch: int
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """Facts about transactions from the partitions' logs and from the history.

    Attributes:
        most: how often a replica's log has each marker; of several replicas, the greatest number.
        everywhere: the markers that are in all replicas of their partition.
        whole: the partitions whose logs still have their first record.
        acknowledged: the number of acknowledged commits, by the producer's id and epoch.
    """

    most: Mapping[Marker, int] = field(default_factory=dict)
    everywhere: frozenset[Marker] = frozenset()
    whole: frozenset[int] = frozenset()
    acknowledged: Mapping[tuple[int, int], int] = field(default_factory=dict)


class TransactionsLog:
    """The states of transactional ids, replayed record by record from the coordinator's log."""

    def __init__(self) -> None:
        self._last: dict[Place, TransactionRecord] = {}

    def possible(self, place: Place) -> frozenset[tuple[str, int, int] | None]:
        """Return the states that a coordinator may return: (name, producer id, epoch), or None."""
        last = self._last.get(place)
        if last is None or last.status is None:
            return frozenset({None})
        states = {(last.state, last.producer_id, last.epoch)}
        if last.status == ONGOING:
            fenced = last.producer_id, last.epoch + 1
            states |= {(last.state, *fenced), (_FENCING, *fenced)}
        return frozenset(states)

    def apply(self, row: Row) -> list[TransactionRecord]:
        """Apply the next record of the log, and return this record."""
        record = transaction_record(row)
        if record is None:
            return []
        self._last[record.place] = record
        return [record]


def wrong_transactions(
    answers: Sequence[CoordinatorAnswer],
    replicas: Sequence[Sequence[Row]],
    newest: Sequence[Row],
    topic: str,
    facts: PartitionFacts | None,
) -> Iterator[GroupFinding]:
    """Yield contradictions in a coordinator's log, and between this log and other evidence.

    Args:
        newest: the records of the most up-to-date replica of the coordinator's log.
        topic: the topic under test. Transactional ids that never wrote to it are not judged.
        facts: facts from partitions' logs; None if faults may have removed records.
    """
    for answer, _, states in contradicted(answers, replicas, TransactionsLog):
        expected = next(iter(states - {None}), None)
        says = (
            f"The coordinator returned {_named(answer.state)}, but {TOPIC} has {_named(expected)}."
        )
        yield _finding(answer.place[0], says)
    ids: dict[str, list[TransactionRecord]] = {}
    for record in filter(None, map(transaction_record, newest)):
        ids.setdefault(record.name, []).append(record)
    ours = {
        name: records
        for name, records in ids.items()
        if any(of == topic for record in records for of, _ in record.partitions)
    }
    for name, records in ours.items():
        for at, says in _wrong_order(records):
            yield _finding(name, says, records=((at, None, says),), offset=at)
    if facts is not None:
        yield from _undecided(ours, facts, topic)


def _named(state: tuple[str, int, int] | None) -> str:
    return "no state" if state is None else "{}, producer {}, epoch {}".format(*state)


def _wrong_order(records: Iterable[TransactionRecord]) -> Iterator[tuple[int, str]]:
    """Yield the offset of each record that breaks Kafka's rules, with the reason."""
    before: TransactionRecord | None = None
    used: TransactionRecord | None = None
    left: set[int] = set()
    for record in records:
        if record.status is None:
            before, used, left = None, None, set()
            continue
        state = f"{record.state} (producer {record.producer_id}, epoch {record.epoch})"
        prepares = _PREPARES.get(record.status)
        if prepares is not None and (
            before is None or before.status not in {prepares, record.status}
        ):
            follows = "nothing" if before is None else before.state
            yield record.at, f"{state} follows {follows}"
        if used is not None and (
            record.producer_id in left
            or (record.producer_id == used.producer_id and record.epoch < used.epoch)
        ):
            yield (
                record.at,
                f"{state} follows a transaction of producer {used.producer_id}, epoch {used.epoch}",
            )
        elif record.status == ONGOING:
            if used is not None and used.producer_id != record.producer_id:
                left.add(used.producer_id)
            used = record
        before = record


@dataclass(slots=True)
class _Decisions:
    """The ends of transactions in a coordinator's log.

    Attributes:
        names: the transactional id of each producer id.
        decided: the markers of all Prepare states.
        complete: how often a partition must have each marker, because of the Complete states.
        commits: the number of PrepareCommit states, by producer id and ``data_epoch``.
    """

    names: dict[int, str] = field(default_factory=dict)
    decided: set[Marker] = field(default_factory=set)
    complete: Counter[Marker] = field(default_factory=Counter)
    commits: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add(self, records: Sequence[TransactionRecord], topic: str) -> None:
        """Add the ends of transactions in the records of one transactional id."""
        markers: list[Marker] = []
        before: int | None = None
        for record in records:
            self.names[record.producer_id] = record.name
            if record.status in _ENDS:
                markers = [
                    Marker(number, record.producer_id, record.epoch, _ENDS[record.status])
                    for of, number in sorted(record.partitions)
                    if of == topic
                ]
                self.decided.update(markers)
                key = record.producer_id, record.data_epoch
                self.commits[key] += record.status == PREPARE_COMMIT
            elif record.status in _PREPARES and before == _PREPARES[record.status]:
                self.complete.update(markers)
            before = record.status


def _undecided(
    ids: Mapping[str, Sequence[TransactionRecord]], facts: PartitionFacts, topic: str
) -> Iterator[GroupFinding]:
    """Yield transaction ends that only the coordinator's log has, or that this log lacks."""
    log = _Decisions()
    for records in ids.values():
        log.add(records, topic)
    for marker, count in sorted(log.complete.items()):
        written = facts.most.get(marker, 0)
        if marker.partition in facts.whole and written < count:
            yield _of_marker(log.names[marker.producer_id], marker, count, written)
    for marker in sorted(facts.everywhere - log.decided):
        if marker.producer_id in log.names:
            yield _of_marker(log.names[marker.producer_id], marker, 0, facts.most[marker])
    for (producer, epoch), count in sorted(facts.acknowledged.items()):
        commits = log.commits[producer, epoch]
        if count > commits:
            says = (
                f"{count} commits of producer {producer}, epoch {epoch}, were acknowledged, but"
                f" {TOPIC} has {commits} commits."
            )
            yield _finding(log.names.get(producer, "?"), says)


def _of_marker(name: str, marker: Marker, decided: int, written: int) -> GroupFinding:
    partition, producer, epoch, end = marker
    return _finding(
        name,
        f"The log of partition {partition} has {written} markers ({end}) of producer {producer}, "
        f"epoch {epoch}, but {TOPIC} has {decided or 'no'} decisions to write them.",
        partition=partition,
        topic=None,
    )


def _finding(
    name: str,
    says: str,
    *,
    partition: int = 0,
    topic: str | None = TOPIC,
    offset: int | None = None,
    records: tuple[tuple[int, int | None, str], ...] = (),
) -> GroupFinding:
    return GroupFinding(
        kind=COORDINATOR_CONTRADICTION,
        group=name,
        topic=topic,
        partition=partition,
        offset=offset,
        says=f"Transactional id {name}: {says}",
        records=records,
    )
