"""The vocabulary of ``highwater inspect``: findings, replicas, partitions."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Verdict = Literal["agree", "alone", "lag", "fork", "corrupt", "unknown"]
"""The verdict on a partition. agree: the same records; alone: one sound replica, and nothing to
compare it with; lag: the same, some replicas hold fewer; fork: other records at one offset;
corrupt: a log is damaged, and no sound records differ; unknown: something is missing, cannot be
read, or is no log of Kafka's."""

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
"""Kinds of errors that make the content of a log unknown; they are no fault of a replica."""

INCOMPLETE: Final = UNTOLD - {"unreadable", "zeros", "same-replica", "another-log", "topic-id"}
"""Kinds of errors that an incomplete copy explains."""

Severity = Literal["error", "warning", "note"]
"""error: not what Kafka wrote; warning: Kafka should not leave it so; note: ordinary."""


class LogFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding about a log.

    Attributes:
        kind: a short word, see docs/inspect.md.
        says: a sentence for a person.
        offset: where it is, or begins; None where it has no place.
    """

    kind: str
    severity: Severity
    says: str
    offset: int | None = None


class EpochRun(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one leader epoch as they lie in a log: its first offset, and the last one."""

    epoch: int
    first: int
    last: int


class InspectedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica on disk.

    Attributes:
        broker: its id.
        directory: its log directory.
        leo: log end offset: the offset that the next record would get.
        start: the first offset that it holds; its LEO when it holds none.
        records: how many.
        bytes: of all segments.
        formats: message formats in it: 0, 1, 2.
        hw: high watermark as last written down; None: no checkpoint says.
        recovery_point: up to where its broker had flushed it, if known.
        log_start: the first offset that is served, where that was moved by DeleteRecords, if known.
        epochs: leader epochs as its records bear them; none before message format v2.
        epoch_checkpoint: the same as leader-epoch-checkpoint has it: epoch and first offset; None
            where there is no such file.
        last_stable_offset: the first offset of an open transaction, else its LEO: as far as a
            read_committed reader may come once the HW is there.
        committed: transactions with their marker in the log, as ``aborted``.
        aborted_ranges: producer id, first offset and marker of the first aborted transactions.
        findings: what is wrong with it, or worth knowing.
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
    """One offset at which replicas differ, and the record of each there.

    Attributes:
        below_hw: whether it lies below the HW of each of them: replication will not repair it.
    """

    offset: int
    below_hw: bool
    copies: tuple[Copy, ...]


class InspectedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of all replicas of one partition.

    Attributes:
        says: the verdict in a sentence or two.
        topic_id: None: no replica has one.
        stray: whether more replicas are of another topic of this name.
        divergent_offsets: the first of them, in order.
        divergent: how many there are.
        below_hw: how many of those lie below the HW of every replica that holds them.
        shown: the first few with their records.
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
        """The findings about it and about its replicas."""
        of_replicas = (finding for replica in self.replicas for finding in replica.findings)
        return (*self.findings, *of_replicas)

    @property
    def incomplete(self) -> bool:
        """True if something of it is missing that a complete copy has."""
        return any(
            finding.severity == "error" and finding.kind in INCOMPLETE
            for finding in self.all_findings
        )

    @property
    def remarkable(self) -> bool:
        """True if there is more to say than its verdict and the notes about the folders."""
        kinds = {finding.kind for finding in self.all_findings if finding.severity != "note"}
        return bool(kinds - {"same-replica"}) or self.verdict in ("fork", "lag")


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``highwater inspect``, in the shape of its ``--json``.

    Attributes:
        verdict: the worst of all partitions'; a sound stray counts for nothing.
        notes: about the folders that were given.
    """

    verdict: Verdict
    partitions: tuple[InspectedPartition, ...]
    notes: tuple[str, ...] = ()


def worst(partitions: Sequence[InspectedPartition]) -> Verdict:
    """Return the worst verdict on partitions; ``agree`` when there is none."""
    verdicts = {
        partition.verdict
        for partition in partitions
        if not (partition.stray and partition.verdict == "alone")
    }
    return next((word for word in WORST_FIRST if word in verdicts), "agree")
