"""The log of a program's output topic on brokers' disks, with committed and uncommitted records."""

import glob
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

from highwater.checkers.groups.events import Row
from highwater.checkers.kafka_files.reader import read_partition
from highwater.checkers.programs.facts import ProgramFacts, since_start_ns
from highwater.checkers.run_files import RunFiles
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.programs.expressions import Expression, ProgramRecord, expression

_COLUMNS: Final = [
    *("broker", "partition", "offset", "leader_epoch", "producer_id", "timestamp_ms"),
    *("producer_epoch", "sequence"),
    *("transactional", "control", "control_type", "key", "value"),
]


class ProducerSequence(NamedTuple):
    """The producer of a record and the record's sequence number; null without idempotence."""

    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None

    @classmethod
    def of(cls, record: Row) -> Self:
        """Return the sequence of a record of ``reader.SCHEMA``."""
        return cls(*(record[name] for name in cls._fields))


class LogCopy(NamedTuple):
    """A record of the output topic's log.

    Attributes:
        time_ns: the time since the run's start at which a broker appended the record.
        producer_id: the producer's id; None if the producer is not idempotent.
        sequence: the sequence number, by which a broker recognises a retry.
    """

    time_ns: int
    broker: int
    partition: int
    offset: int
    producer_id: int | None
    transactional: bool
    sequence: ProducerSequence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLog:
    """The log of a program's output topic, from the disks.

    If several disks have a record, the copy in the longest log is used. If the program's outputs
    name inputs in a header, or by a function that this process lacks, ``copies`` is empty.

    Attributes:
        copies: the records that name an input, by the input's name; in order in each partition.
        in_transactions: whether all records are part of a transaction; None without records.
        appended_ns: the append time of the record at each partition and offset, in the longest
            logs.
        whole_until_ns: the time since the run's start until which the disks have every record that
            a broker appended.
    """

    copies: Mapping[str, Sequence[LogCopy]] = field(default_factory=dict)
    producers: frozenset[int] = frozenset()
    in_transactions: bool | None = None
    appended_ns: Mapping[tuple[int, int], int] = field(default_factory=dict)
    whole_until_ns: int = 0

    @classmethod
    def of(cls, case: RunFiles, facts: ProgramFacts) -> Self:
        """Read the log of one run's output."""
        copies: dict[str, list[LogCopy]] = defaultdict(list)
        producers, modes, whole_ns = set[int](), set[bool](), list[int]()
        appended_ns: dict[tuple[int, int], int] = {}
        for partition in range(case.plan.topic.partitions):
            logs = _logs(case, facts.program.out, partition)
            log = logs[0] if logs else []
            whole_ns.append(0 if case.compacted else _whole_until_ns(log, facts.started_ms))
            producers |= {row["producer_id"] for row in log if row["producer_id"] is not None}
            modes |= {row["transactional"] for row in log}
            for row in log:
                time_ns = since_start_ns(row["timestamp_ms"], facts.started_ms)
                appended_ns[partition, row["offset"]] = time_ns
            for name, copy in _copies(logs, facts):
                copies[name].append(copy)
        return cls(
            copies=copies,
            producers=frozenset(producers),
            in_transactions=modes == {True} if modes else None,
            appended_ns={} if case.compacted else appended_ns,
            whole_until_ns=min(whole_ns, default=0),
        )


def longest_log(case: RunFiles, topic: str, partition: int) -> list[Row]:
    """Return every record of the longest replica of a partition, as ``reader.SCHEMA`` rows."""
    return next(iter(_logs(case, topic, partition)), [])


def _logs(case: RunFiles, topic: str, partition: int) -> list[list[Row]]:
    """Return the logs of a partition's replicas, the longest first."""
    folders = case.run.replicas.glob(f"*/{glob.escape(topic)}-{partition}/")
    logs = [[*_rows(folder)] for folder in folders if folder not in case.broken]
    return sorted(logs, key=len, reverse=True)


def _copies(logs: Sequence[Sequence[Row]], facts: ProgramFacts) -> Iterator[tuple[str, LogCopy]]:
    """Yield the records that name an input, each record once; the longest log comes first."""
    seen = set[tuple[str, int]]()
    for log in logs:
        for name, row in named(log, facts.program.match):
            place = name, row["offset"]
            if place not in seen:
                seen.add(place)
                yield (
                    name,
                    LogCopy(
                        since_start_ns(row["timestamp_ms"], facts.started_ms),
                        row["broker"],
                        row["partition"],
                        row["offset"],
                        row["producer_id"],
                        row["transactional"],
                        ProducerSequence.of(row),
                    ),
                )


def _rows(folder: Path) -> Iterator[Row]:
    for batch in read_partition(folder):
        for row in batch.select(_COLUMNS).to_pylist():
            if row["offset"] is not None:
                yield row


def named(log: Sequence[Row], match: str) -> Iterator[tuple[str, Row]]:
    """Yield the records that name an input, each with the input's name."""
    try:
        names: Expression = expression(match)
        for row in log:
            if not row["control"]:
                for name in names(ProgramRecord(row["value"], row["key"])):
                    yield name, row
    except UsageError:
        return


def _whole_until_ns(log: Sequence[Row], started_ms: float) -> int:
    """Return the time until which a log has all appended records: the end of leader epoch 0.

    Records are lost only at the end of a leader epoch, if the next leader's log lacks them. So no
    record between two records of the first leader epoch was lost, with any ``acks`` (KIP-101).
    """
    if not log or log[0]["offset"] != 0 or log[0]["leader_epoch"] != 0:
        return 0
    last = [row for row in log if row["leader_epoch"] == 0][-1]
    return since_start_ns(last["timestamp_ms"], started_ms)
