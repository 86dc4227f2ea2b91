"""Replays the records of a metadata log, as brokers do (MetadataImage), to get the decisions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from highwater.checkers.kafka_files.metadata_records import (
    TOPIC,
    MetadataRecord,
    MetadataRecordError,
    decode,
    voters,
)
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
    """A partition's state in the metadata log, after one record about the partition."""

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
        settings: the settings of each topic that differ from their defaults.
        features: the finalized levels of the features.
        voters: the ids of the controllers that vote; None if the controllers' settings name them.
        begun_late: true if the log begins with a snapshot. Then earlier states are unknown.
    """

    topics: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[Partition, list[Registration]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    voters: frozenset[int] | None = None
    begun_late: bool = False

    def apply(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Apply a record to the state.

        Raises:
            KeyError: the record is about a topic or a partition that does not exist.
        """
        match kind:
            case "TopicRecord":
                self.topics[fields["topic_id"]] = fields["name"]
            case "RemoveTopicRecord":
                gone = self.topics.pop(fields["topic_id"], None)
                self.partitions = {
                    key: states for key, states in self.partitions.items() if key[0] != gone
                }
            case "PartitionRecord":
                names = ("leader", "leader_epoch", "isr", "replicas")
                registration = Registration(**{name: fields[name] for name in names})
                self.partitions.setdefault(self._key(fields), []).append(registration)
            case "PartitionChangeRecord":
                states, changes = self.partitions[self._key(fields)], fields["changes"]
                epoch = states[-1].leader_epoch + ("leader" in changes)
                states.append(replace(states[-1], leader_epoch=epoch, **changes))
            case "ConfigRecord" if fields["resource_type"] == TOPIC:
                settings = self.settings.setdefault(fields["resource_name"], {})
                if fields["value"] is None:
                    settings.pop(fields["name"], None)
                else:
                    settings[fields["name"]] = fields["value"]
            case "FeatureLevelRecord":
                self.features[fields["name"]] = fields["level"]

    def _key(self, fields: Mapping[str, Any]) -> Partition:
        return self.topics[fields["topic_id"]], fields["partition"]


def replay(log: ControllerLog) -> DecidedState:
    """Return the state after a log's records, starting from the snapshot that precedes them.

    Raises:
        MetadataRecordError: the checksum of a record is valid, but its content is not.
    """
    state = DecidedState()
    first = _EVERYTHING if log.first is None else log.first
    begin = min((snapshot for snapshot in log.snapshots if snapshot.end >= first), default=None)
    if log.first is None:
        begin = max(log.snapshots, default=None)
    elif first == 0 and begin is not None and begin.end:
        begin = None  # the log itself has every record that is in the snapshot
    at = 0
    if begin is not None:  # since 4.4 there is a snapshot before the first record (KAFKA-19648)
        _apply(state, read_snapshot(log, begin))
        state.begun_late = begin.end > 0
        at = begin.end
    _apply(state, values(log.between(at, _EVERYTHING)))
    if (record := last_voters(log)) is not None:
        state.voters = voters(record)
    return state


_EVERYTHING: Final = (1 << 63) - 1


def _apply(state: DecidedState, records: Iterable[bytes]) -> None:
    for record in _in_force(records):
        try:
            state.apply(*record)
        except KeyError as error:
            raise MetadataRecordError(
                f"{record} is about a topic or partition that does not exist"
            ) from error


def _in_force(records: Iterable[bytes]) -> Iterator[MetadataRecord]:
    """Yield the records that take effect. Records in a transaction take effect only at its end."""
    pending: list[MetadataRecord] | None = None
    for record in filter(None, map(decode, records)):
        match record.kind:
            case "BeginTransactionRecord":
                pending = []
            case "AbortTransactionRecord":
                pending = None
            case "EndTransactionRecord":
                yield from pending or ()
                pending = None
            case _ if pending is not None:
                pending.append(record)
            case _:
                yield record
