"""Compare the responses of a share coordinator and of members with ``__share_group_state``.

The rules are those of KIP-932, and of ``ShareCoordinatorShard`` of 4.1 to 4.4:

- Within one state epoch, the start offset and the leader epoch never decrease. The state epoch
  never decreases until the state is removed.
- An update has the number of the previous snapshot.
- If a response confirms that a member accepted or rejected a record, the log has the record as
  acknowledged or archived, or the record is before the start offset.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from highwater.checkers.coordinators.folded_logs import CoordinatorAnswer, Place, Row, contradicted
from highwater.checkers.core.anomaly_kinds import COORDINATOR_CONTRADICTION
from highwater.checkers.groups.events import GroupFinding
from highwater.checkers.kafka_files.coordinator_records import ShareRecord, share_record
from highwater.harness.runs.history import OK
from highwater.harness.runs.store import COORDINATOR_TOPICS

TOPIC: Final = COORDINATOR_TOPICS[2]
STEPS_BACK: Final = "start offset"
"""The beginning of the sentence about a start offset that is lower than before."""
RESET: Final = "no start offset"
"""The beginning of the sentence about a snapshot that removes the start offset."""
AFTER_RESET: Final = "after the start offset was removed at offset"

_FINAL_ANSWERS: Final = frozenset(("accept", "reject"))
_FINAL_STATES: Final = frozenset((2, 4))
"""The values of Kafka's DeliveryState for acknowledged and archived records."""


@dataclass(slots=True)
class _Share:
    """The state of a partition of a share group.

    Attributes:
        first: the start offset in the first record of this state epoch; -1 if it is not known.
        records: the delivery count and DeliveryState of each offset. If an offset has two values,
            the greater value is used (``PersisterStateBatchCombiner``).
        reset: the log's offset of the last snapshot that removed the start offset; -1 for none.
    """

    record: ShareRecord
    start: int
    first: int
    leader_epoch: int
    records: dict[int, tuple[int, int]] = field(default_factory=dict)
    reset: int = -1

    def merge(self, batches: Iterable[tuple[int, int, int, int]]) -> None:
        for first, last, state, deliveries in batches:
            for offset in range(max(first, self.start), last + 1):
                before = self.records.get(offset, (-1, -1))
                self.records[offset] = max(before, (deliveries, state))


class WrongShare(NamedTuple):
    """A record that Kafka's rules do not allow.

    Attributes:
        reopened: the offsets between the record's start offset and the greater one before it.
    """

    record: ShareRecord
    why: str
    reopened: range


class SharesLog:
    """The states of share groups' partitions, replayed record by record from the coordinator's log.

    Attributes:
        wrong: the records that break rules of Kafka.
    """

    def __init__(self) -> None:
        self._shares: dict[Place, _Share] = {}
        self.wrong: list[WrongShare] = []

    def possible(self, place: Place) -> frozenset[int | None]:
        """Return the start offset that a coordinator may return for a partition, as a set.

        None stands for no offset.
        """
        share = self._shares.get(place)
        return frozenset({None if share is None or share.start < 0 else share.start})

    def final(self, place: Place, offset: int) -> bool:
        """Return whether a record is acknowledged or archived, or is before the start offset."""
        share = self._shares.get(place)
        if share is None:
            return False
        state = share.records.get(offset, (0, 0))[1]
        return offset < share.start or state in _FINAL_STATES

    def apply(self, row: Row) -> list[ShareRecord]:
        """Apply the log's next record. Return the record if it changes a state."""
        record = share_record(row)
        if record is None:
            return []
        share = self._shares.get(record.place)
        same = share is not None and share.record.topic_id == record.topic_id
        if share is not None and same and record.removes:
            del self._shares[record.place]
        elif record.removes:
            return []
        elif record.whole:
            new = _Share(record, record.start, record.start, record.leader_epoch)
            if share is not None and same:
                self._judge(share, record)
                if record.state_epoch == share.record.state_epoch:
                    new.first = share.first
                    new.reset = record.at if record.start < 0 <= share.start else share.reset
            new.merge(record.batches)
            self._shares[record.place] = new
        elif share is None or not same:
            self.wrong.append(
                WrongShare(record, "it changes a state that does not exist", range(0))
            )
            return []
        else:
            self._judge(share, record)
            _update(share, record)
        return [record]

    def _judge(self, share: _Share, record: ShareRecord) -> None:
        before, why, reopened = share.record, "", range(0)
        if record.whole and record.state_epoch < before.state_epoch:
            why = f"state epoch {record.state_epoch} follows {before.state_epoch}"
        elif not record.whole and record.snapshot_epoch != before.snapshot_epoch:
            why = (
                f"it changes snapshot {record.snapshot_epoch}, but the last snapshot is"
                f" {before.snapshot_epoch}"
            )
        elif not record.whole or record.state_epoch == before.state_epoch:
            if record.whole and record.start < 0 <= share.start:
                why, reopened = f"{RESET} follows {share.start}", range(share.start)
            elif 0 <= record.start < share.start:
                why = f"{STEPS_BACK} {record.start} follows {share.start}"
                if record.start < share.first:
                    why = f"the {why}, and is lower than the first, {share.first}"
                if share.reset >= 0:
                    why += f", {AFTER_RESET} {share.reset}"
                reopened = range(record.start, share.start)
            elif 0 <= record.leader_epoch < share.leader_epoch:
                why = f"leader epoch {record.leader_epoch} follows {share.leader_epoch}"
        if why:
            self.wrong.append(WrongShare(record, why, reopened))


def _update(share: _Share, record: ShareRecord) -> None:
    if record.leader_epoch >= 0:
        share.leader_epoch = record.leader_epoch
    if record.start >= 0:
        gone = range(share.start, record.start)
        for offset in gone if len(gone) <= len(share.records) else [*share.records]:
            if offset < record.start:
                share.records.pop(offset, None)
        share.start = record.start
    share.merge(record.batches)


def wrong_shares(
    answers: Sequence[CoordinatorAnswer],
    replicas: Sequence[Sequence[Row]],
    newest: Sequence[Row],
    members: Iterable[Row],
    *,
    undamaged: bool,
) -> Iterator[GroupFinding]:
    """Yield contradictions within the share coordinator's log, and between this log and responses.

    Args:
        newest: the records of the most up-to-date replica of the coordinator's log.
        members: the journals of the groups' members. Only these groups are judged.
        undamaged: false if a fault may have removed records from the log.
    """
    for answer, _, starts in contradicted(answers, replicas, SharesLog):
        [expected] = starts
        yield _finding(
            answer.place,
            f"the coordinator returned start offset {answer.state}, but {TOPIC} has {expected}.",
            expected,
        )
    log = SharesLog()
    for row in newest:
        log.apply(row)
    members = list(members)
    groups = {row["group"] for row in members}
    for record, why, _ in log.wrong:
        if record.place[0] in groups:
            proof = ((record.at, None, why),)
            yield _finding(
                record.place,
                f"the record at offset {record.at} of {TOPIC} breaks a rule: {why}.",
                records=proof,
            )
    answered = {
        ((row["group"], row["partition"]), row["offset"]): row
        for row in members
        if row["event"] in _FINAL_ANSWERS and row["outcome"] == OK and undamaged
    }
    for (place, offset), row in sorted(answered.items()):
        if not log.final(place, offset):
            says = (
                f"{row['process']} acknowledged ({row['event']}) offset {offset} and got a"
                f" response, but {TOPIC} does not have this state."
            )
            back = tuple(
                (record.at, None, why)
                for record, why, reopened in log.wrong
                if record.place == place and offset in reopened
            )
            yield _finding(place, says, offset, back)


def _finding(
    place: Place,
    says: str,
    offset: int | None = None,
    records: tuple[tuple[int, int | None, str], ...] = (),
) -> GroupFinding:
    group, partition = place
    return GroupFinding(
        kind=COORDINATOR_CONTRADICTION,
        group=group,
        partition=partition,
        offset=offset,
        says=f"Share group {group}, partition {partition}: {says}",
        records=records,
    )
