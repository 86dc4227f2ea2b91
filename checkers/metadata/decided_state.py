"""Replay the records of a metadata log, as brokers do (MetadataImage), to get its decisions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Final

from highwater.checkers.kafka_files import metadata_records as kinds
from highwater.checkers.metadata.controller_logs import (
    ControllerLog,
    last_voters,
    read_snapshot,
    values,
)

Partition = tuple[str, int]
"""The topic and the number of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A partition's state in the metadata log, until the log's next record about the partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(slots=True)
class DecidedState:
    """The state after the last record of a log, and the earlier states of each partition.

    Attributes:
        topics: the topics that exist, by id.
        partitions: all states of each partition in order, for the topics that exist.
        settings: the settings of each topic.
        features: the finalized levels of the features.
        voters: the ids of the controllers that vote; None if the controllers' settings name them.
        begun_late: whether the log begins with a snapshot, so that the earlier states are unknown.
    """

    topics: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[Partition, list[Registration]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    voters: frozenset[int] | None = None
    begun_late: bool = False

    @singledispatchmethod
    def apply(self, record: kinds.MetadataRecord) -> None:
        """Change the state as the record says."""
        raise TypeError(f"{record} decides nothing")

    @apply.register
    def _(self, record: kinds.TopicRecord) -> None:
        self.topics[record.topic_id] = record.name

    @apply.register
    def _(self, record: kinds.RemoveTopicRecord) -> None:
        name = self.topics.pop(record.topic_id, None)
        self.partitions = {
            key: registered for key, registered in self.partitions.items() if key[0] != name
        }

    @apply.register
    def _(self, record: kinds.PartitionRecord) -> None:
        registration = Registration(
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            isr=record.isr,
            replicas=record.replicas,
        )
        self.partitions.setdefault(self._key(record), []).append(registration)

    @apply.register
    def _(self, record: kinds.PartitionChangeRecord) -> None:
        before = self.partitions[self._key(record)]
        now = before[-1]
        if record.leader != kinds.UNCHANGED:
            now = replace(now, leader=record.leader, leader_epoch=now.leader_epoch + 1)
        if record.isr is not None:
            now = replace(now, isr=record.isr)
        if record.replicas is not None:
            now = replace(now, replicas=record.replicas)
        before.append(now)

    @apply.register
    def _(self, record: kinds.ConfigRecord) -> None:
        if record.resource_type != kinds.TOPIC:
            return
        settings = self.settings.setdefault(record.resource, {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value

    @apply.register
    def _(self, record: kinds.FeatureLevelRecord) -> None:
        self.features[record.name] = record.level

    def _key(self, record: kinds.PartitionRecord | kinds.PartitionChangeRecord) -> Partition:
        return self.topics[record.topic_id], record.partition


def replay(log: ControllerLog) -> DecidedState:
    """Return the state after a log's records, starting from the snapshot that precedes them.

    Raises:
        MetadataRecordError: the checksum of a record is sound, but its content makes no sense.
    """
    state = DecidedState()
    first = _EVERYTHING if log.first is None else log.first
    begin = min((snapshot for snapshot in log.snapshots if snapshot.end >= first), default=None)
    if log.first is None:
        begin = max(log.snapshots, default=None)
    elif first == 0 and begin is not None and begin.end:
        begin = None  # the log itself has everything that is in the snapshot
    at = 0
    if begin is not None:  # since 4.4 there is a snapshot before the first record (KAFKA-19648)
        _apply(state, read_snapshot(log, begin))
        state.begun_late = begin.end > 0
        at = begin.end
    _apply(state, values(log.between(at, _EVERYTHING)))
    if (voters := last_voters(log)) is not None:
        state.voters = kinds.voters(voters)
    return state


_EVERYTHING: Final = (1 << 63) - 1


def _apply(state: DecidedState, records: Iterable[bytes]) -> None:
    for record in _in_force(records):
        try:
            state.apply(record)
        except KeyError as error:
            raise kinds.MetadataRecordError(
                f"{record} is about a topic or partition that does not exist"
            ) from error


def _in_force(records: Iterable[bytes]) -> Iterator[kinds.MetadataRecord]:
    """Yield the records that take effect; those in a transaction take effect at its end, if any."""
    pending: list[kinds.MetadataRecord] | None = None
    for record in map(kinds.decode, records):
        if isinstance(record, kinds.BeginTransactionRecord):
            pending = []
        elif isinstance(record, kinds.AbortTransactionRecord):
            pending = None
        elif isinstance(record, kinds.EndTransactionRecord):
            yield from pending or ()
            pending = None
        elif record is not None and pending is not None:
            pending.append(record)
        elif record is not None:
            yield record
