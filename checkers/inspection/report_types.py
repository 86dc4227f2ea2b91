"""The types of a report by ``highwater inspect``: findings, replicas, partitions."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Verdict = Literal["agree", "alone", "lag", "fork", "corrupt", "unknown"]
"""The verdict on a partition. agree: all replicas have the same records. alone: one valid replica,
without another replica to compare it with. lag: the same records, but some replicas end earlier.
fork: different records at one offset. corrupt: a log is damaged, and no valid records differ.
unknown: a file is missing, cannot be read, or is no Kafka log."""

WORST_FIRST: Final[tuple[Verdict, ...]] = ("fork", "corrupt", "unknown", "lag", "alone", "agree")

UNTOLD: Final = frozenset(
    {
        *("unreadable", "zeros", "missing-segment", "no-folder", "same-replica", "another-log"),
        *(
            "no-broker",
            "topic-id",
            "hw-above-leo",
            "recovery-point-above-leo",
            "log-start-above-leo",
        ),
        *("snapshot-above-leo", "epoch-list", "no-cleaner-checkpoint"),
        *("torn-segment", "overlap"),
    }
)
"""The kinds of errors that make a log's content unknown. They do not show that the replica is
wrong."""

INCOMPLETE: Final = UNTOLD - {"unreadable", "zeros", "same-replica", "another-log", "topic-id"}
"""The kinds of findings that an incomplete copy of a log directory explains."""

Severity = Literal["error", "warning", "note"]
"""The severity of a finding. error: Kafka never writes this. warning: Kafka should not leave a log
in this state. note: normal."""


class LogFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding about a log.

    Attributes:
        kind: the kind of finding; docs/inspect.md lists all kinds.
        says: the finding as a sentence.
        offset: the first offset that the finding is about; None without an offset.
    """

    kind: str
    severity: Severity
    says: str
    offset: int | None = None


class EpochRun(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one leader epoch in a log: their first offset and their last offset."""

    epoch: int
    first: int
    last: int


class InspectedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica on disk.

    Attributes:
        broker: the id of the replica's broker.
        directory: the log directory that holds the replica.
        leo: log end offset: the offset that the next record would get.
        start: the offset of the replica's first record; its LEO if it has no record.
        bytes: the size of all segments.
        formats: the message formats of the records: 0, 1, 2.
        hw: the high watermark in the checkpoint file; None if the file does not have it.
        recovery_point: the offset up to which the broker had flushed the log, if known.
        log_start: the log start offset, if DeleteRecords has moved it.
        epochs: the leader epochs of the records; empty before message format v2.
        epoch_checkpoint: the epochs in leader-epoch-checkpoint: epoch and first offset; None if the
            file is missing.
        last_stable_offset: the first offset of an open transaction, or else the LEO. A
            read_committed reader may read up to this offset, if the HW has reached it.
        committed: the number of committed transactions whose marker is in the log.
        aborted: the number of aborted transactions whose marker is in the log.
        aborted_ranges: producer id, first offset and marker's offset of the first aborted
            transactions.
        findings: errors, warnings and notes about the replica.
    """

    broker: int
    directory: str
    leo: int
    last_stable_offset: int
    start: int
    records: int
    segments: int
    bytes: int
    formats: tuple[int, ...] = ()
    hw: int | None = None
    recovery_point: int | None = None
    log_start: int | None = None
    epochs: tuple[EpochRun, ...] = ()
    epoch_checkpoint: tuple[tuple[int, int], ...] | None = None
    committed: int = 0
    aborted: int = 0
    aborted_ranges: tuple[tuple[int, int, int], ...] = ()
    findings: tuple[LogFinding, ...] = ()


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one replica at a divergent offset; ``text`` is shortened."""

    broker: int
    epoch: int | None
    key: str | None
    value: str | None


class DivergentOffset(msgspec.Struct, frozen=True, kw_only=True):
    """One offset at which replicas differ, and each replica's record at that offset.

    Attributes:
        below_hw: whether the offset is below the HW of each of these replicas. Then replication
            does not repair the difference.
    """

    offset: int
    below_hw: bool
    copies: tuple[Copy, ...]


class InspectedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of all replicas of one partition.

    Attributes:
        says: the verdict in one or two sentences.
        topic_id: the topic's id; None if no replica has an id.
        stray: true if another topic with the same name has more replicas.
        divergent_offsets: the first divergent offsets, in order.
        divergent: the number of all divergent offsets.
        below_hw: the number of divergent offsets below the HW of every replica with a record there.
        shown: the first few divergent offsets with their records.
    """

    topic: str
    partition: int
    verdict: Verdict
    says: str
    replicas: tuple[InspectedReplica, ...]
    topic_id: str | None = None
    stray: bool = False
    divergent_offsets: tuple[int, ...] = ()
    divergent: int = 0
    below_hw: int = 0
    shown: tuple[DivergentOffset, ...] = ()
    findings: tuple[LogFinding, ...] = ()

    @property
    def all_findings(self) -> tuple[LogFinding, ...]:
        """The findings about the partition and about its replicas."""
        of_replicas = (finding for replica in self.replicas for finding in replica.findings)
        return (*self.findings, *of_replicas)

    @property
    def incomplete(self) -> bool:
        """True if the copy of the partition is incomplete."""
        return any(
            finding.severity == "error" and finding.kind in INCOMPLETE
            for finding in self.all_findings
        )

    @property
    def remarkable(self) -> bool:
        """True if a report must show more than the verdict and the notes about directories."""
        kinds = {finding.kind for finding in self.all_findings if finding.severity != "note"}
        return bool(kinds - {"same-replica"}) or self.verdict in ("fork", "lag")


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``highwater inspect``; ``--json`` prints it.

    Attributes:
        verdict: the worst verdict of all partitions; a valid stray replica is ignored.
        notes: sentences about the directories that the user gave.
    """

    verdict: Verdict
    partitions: tuple[InspectedPartition, ...]
    notes: tuple[str, ...] = ()


def worst(partitions: Sequence[InspectedPartition]) -> Verdict:
    """Return the worst verdict on the partitions; ``agree`` if there is no partition."""
    verdicts = {
        partition.verdict
        for partition in partitions
        if not (partition.stray and partition.verdict == "alone")
    }
    return next((word for word in WORST_FIRST if word in verdicts), "agree")
