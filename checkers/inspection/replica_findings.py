"""Findings about one replica alone: about its files, its records and its checkpoints."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from highwater.checkers.inspection.log_tables import Row
from highwater.checkers.inspection.replica_extents import TORN
from highwater.checkers.inspection.replica_files import ReplicaFolder
from highwater.checkers.inspection.report_types import (
    EpochRun,
    InspectedReplica,
    LogFinding,
    Severity,
)
from highwater.checkers.kafka_files.checkpoints import LEADER_EPOCH, LOG_START
from highwater.harness.base.wording import count as counted

HANGING_MS: Final = 15 * 60 * 1000
"""The default of transaction.max.timeout.ms: no transaction stays open for longer (KIP-664)."""

LATE_START: Final = "late-start"
"""The kind of a finding about a log whose first segments are missing. Retention removed them, or
the copy is incomplete."""

_NAMED_MAX: Final = 5


@dataclass(slots=True, kw_only=True)
class Facts:
    """The facts about one replica, from which its findings are made.

    The last four attributes are a number of offsets, and the first of these offsets.

    Attributes:
        spans: the replica's rows in ``LogTables.spans``; empty if it has no row.
        gaps_till: the offset below which compaction may have removed records.
        hole: offsets that other replicas have, and this replica lacks within its segments.
        between: offsets that other replicas have, and this replica lacks between its segments.
        uncleaned: missing offsets that compaction may have removed.
        odd_epochs: offsets at which the replica's epoch is wrong.
    """

    replica: ReplicaFolder
    spans: Sequence[Row] = ()
    damage: Sequence[Row] = ()
    repeated: Sequence[Row] = ()
    transactions: Sequence[Row] = ()
    gaps_till: int = 0
    hole: tuple[int, int] | None = None
    between: tuple[int, int] | None = None
    uncleaned: tuple[int, int] | None = None
    odd_epochs: tuple[int, int] | None = None

    def sum(self, name: str) -> int:
        """Return the sum of a count over all spans."""
        return sum(span[name] for span in self.spans)

    @property
    def leo(self) -> int:
        """The log end offset: the last valid batch's end, but at least the last segment's base."""
        ends = [span["covered"] + 1 for span in self.spans if span["covered"] is not None]
        return max(
            [*ends, *(segment.base_offset for segment in self.replica.segments[-1:])], default=0
        )

    @property
    def last_segment(self) -> int:
        """The base offset of the replica's last segment; 0 if the replica has no segment."""
        return self.replica.segments[-1].base_offset if self.replica.segments else 0

    def covered(self, segment: int) -> int:
        """Return the greatest offset in a segment's valid batches; ``segment - 1`` without one."""
        ends = (span["covered"] for span in self.spans if span["segment"] == segment)
        return max((end for end in ends if end is not None), default=segment - 1)

    @property
    def first(self) -> int:
        """The first offset of the replica's records; its LEO if it has no record."""
        firsts = [span["first"] for span in self.spans if span["first"] is not None]
        return min(firsts, default=self.leo)

    @property
    def epochs(self) -> list[EpochRun]:
        """The first and last offset of the replica's records in each leader epoch, in order."""
        runs = [
            EpochRun(epoch=epoch, first=a, last=b) for epoch, a, b in self._reach("epoch", "last")
        ]
        return sorted(runs, key=lambda run: run.first)

    @property
    def overlaps(self) -> list[tuple[int, int, int]]:
        """Segments that overlap the next: base offset, last offset, and the next base offset."""
        return [
            (base, last, following)
            for (base, _, last), (_, following, _) in pairwise(
                sorted(self._reach("segment", "covered"))
            )
            if last >= following
        ]

    @property
    def gaps(self) -> list[tuple[int, int, int]]:
        """Base offset of each segment with a gap after it, and the first and last missing offset.

        Zeros, a torn batch and unreadable bytes have the same effect as a missing file.
        """
        if self.damage and self.damage[0]["all"] > len(self.damage):
            return []
        unread = ("zeros", "unreadable", TORN)
        damaged = {row["segment"] for row in self.damage if row["damage"] not in unread}
        return [
            (before.base_offset, end, after.base_offset - 1)
            for before, after in pairwise(self.replica.segments)
            if before.base_offset not in damaged
            if (end := self.covered(before.base_offset) + 1) < after.base_offset
        ]

    @property
    def compacted(self) -> bool:
        """True if records are missing within a segment, as after compaction or damage."""
        return any(
            sum(span["records"] for span in self.spans if span["segment"] == base)
            <= self.covered(base) - base
            for base in {span["segment"] for span in self.spans}
        )

    def _reach(self, key: str, end: str) -> list[tuple[int, int, int]]:
        """Return each epoch or segment (``key``) with its first offset and greatest ``end``."""
        reach: dict[int, tuple[int, int]] = {}
        for span in self.spans:
            if span[key] is not None and span["first"] is not None:
                first, last = reach.get(span[key], (span["first"], span[end]))
                reach[span[key]] = min(first, span["first"]), max(last, span[end])
        return [(value, *offsets) for value, offsets in reach.items()]

    @property
    def epochs_told(self) -> bool:
        """True if the records' leader epochs are reliable. No checksum covers these epochs."""
        return not [*disordered(self), *_contradicted(self)]


def log_start(facts: Facts) -> int | None:
    """Return the offset below which retention removed records; None if no file has this offset.

    Retention moves the first entry of leader-epoch-checkpoint (LeaderEpochFileCache). A log start
    offset that is not a segment's first offset is in log-start-offset-checkpoint (LogManager).
    """
    log_starts = [start for _, start in (facts.replica.epochs or ())[:1]]
    log_starts += [] if facts.replica.log_start is None else [facts.replica.log_start]
    return max(log_starts, default=None)


def state(facts: Facts, *, end: int, start: int = 0, twice: bool = False) -> InspectedReplica:
    """Return a replica with its findings, for ``highwater inspect``.

    Args:
        facts: the facts about the replica.
        end: the greatest log end offset in the replica's partition.
        start: the greatest ``log_start`` in the replica's partition.
        twice: whether several directories claim to be this replica.
    """
    replica = facts.replica
    ended = {row["ending"]: row for row in facts.transactions}
    opened = ended.get("open")
    aborted = ended.get("abort")
    return InspectedReplica(
        broker=replica.broker,
        directory=replica.log_dir.name,
        leo=facts.leo,
        start=facts.first,
        records=facts.sum("records"),
        segments=len(replica.segments),
        bytes=replica.bytes,
        formats=tuple(sorted({replica for span in facts.spans for replica in span["formats"]})),
        hw=replica.hw,
        recovery_point=replica.recovery_point,
        log_start=replica.log_start,
        epochs=tuple(facts.epochs),
        epoch_checkpoint=replica.epochs,
        last_stable_offset=opened["some"][0]["first"] if opened else facts.leo,
        committed=ended["commit"]["count"] if "commit" in ended else 0,
        aborted=aborted["count"] if aborted else 0,
        aborted_ranges=tuple(
            (row["producer_id"], row["first"], row["marker"])
            for row in (aborted["some"] if aborted else ())
        ),
        findings=tuple(_findings(facts, end=end, start=start, twice=twice)),
    )


def _findings(facts: Facts, *, end: int, start: int, twice: bool) -> Iterator[LogFinding]:
    yield from facts.replica.findings
    if twice:
        says = (
            "Two directories claim to be this replica, so the inspection compares neither of them."
        )
        yield LogFinding("same-replica", "error", says)
    if not facts.replica.segments:
        return  # a folder without segments proves nothing about the records that it held
    yield from _damages(facts)
    yield from _order(facts)
    yield from _missing_segments(facts)
    yield from _late_start(facts, start=start)
    yield from _checkpoints(facts, end=end)
    yield from disordered(facts)
    yield from _epoch_list(facts, end=end)
    if facts.odd_epochs:
        count, first = facts.odd_epochs
        says = (
            f"At {counted(count, 'offset')} (the first is {first}) this replica has "
            "the same "
            "record as "
            "the other "
            "replicas, "
            "but "
            "another "
            "leader "
            "epoch. This "
            "epoch contradicts the records around it. No checksum covers a leader "
            "epoch."
        )
        yield LogFinding("epoch-broken", "error", says, first)
    yield from _producers(facts)


def _damages(facts: Facts) -> Iterator[LogFinding]:
    """Yield findings about damaged bytes.

    Damage is an error unless a kill or preallocation explains it.
    """
    last = facts.last_segment
    for row in facts.damage:
        where = f"{row['segment']:020d}.log, byte {row['position']}"
        says = f"{where}: {row['error']}."
        offset = row["base_offset"]
        if row["damage"] == "zeros":
            yield _zeros(facts, row, says)
        elif row["damage"] == TORN and row["segment"] == last:
            says += " This is no error: a log can end like this after its broker was killed."
            yield LogFinding("torn-tail", "note", says, offset)
        elif row["damage"] == TORN:
            says += " Possible causes are an incomplete copy and a power loss."
            yield LogFinding("torn-segment", "error", says, offset)
        else:
            kind = "unreadable" if row["damage"] == "unreadable" else "corrupt"
            yield LogFinding(kind, "error", says, offset)
    damage_count = len(facts.damage)
    if damage_count and facts.damage[0]["all"] > damage_count:
        says = f"{facts.damage[0]['all'] - damage_count:,} more ranges of bytes cannot be read."
        unread = all(row["damage"] in ("zeros", "unreadable", TORN) for row in facts.damage)
        yield LogFinding("unreadable" if unread else "corrupt", "error", says)


def _zeros(facts: Facts, row: Row, says: str) -> LogFinding:
    """Return a finding about zeros at a segment's end: a note if preallocated, else an error.

    A broker that preallocates a segment truncates it to its records when the segment is no longer
    active (LogSegment.onBecomeInactiveSegment). The active segment may have no records if another
    segment has records, or if the broker's checkpoints say that the log is empty.
    """
    segment, replica = row["segment"], facts.replica
    due = next(
        (neighbour.end for neighbour in replica.segments if neighbour.base_offset == segment),
        segment,
    )
    where = f"{segment:020d}.log has zeros from byte {row['position']} on"
    if segment == facts.last_segment:
        if facts.sum("records") or replica.hw == facts.leo:
            return LogFinding("zeros", "note", says)
        says = (
            f"{where}, and the log has no record. Either the segment was preallocated "
            "and never written, or its content was lost."
        )
    elif facts.covered(segment) + 1 >= due:
        return LogFinding("zeros", "note", says)
    else:
        says = f"{where}, instead of records up to offset {due - 1}."
    return LogFinding("zeros", "error", says, facts.covered(segment) + 1)


def _order(facts: Facts) -> Iterator[LogFinding]:
    for base, last, following in facts.overlaps[:_NAMED_MAX]:
        says = (
            f"Segment {base:020d}.log has records up to offset {last}, although the "
            f"next segment begins at {following}. This happens if a copy was written "
            "into the directory of an older copy."
        )
        yield LogFinding("overlap", "error", says, following)
    if facts.hole:
        count, first = facts.hole
        says = (
            f"The replica's log lacks {counted(count, 'record')} that another replica "
            f"has, "
            f"the "
            f"first "
            f"at "
            f"offset "
            f"{first}. Compaction does not explain this gap."
        )
        yield LogFinding("hole", "error", says, first)
    if facts.uncleaned:
        count, first = facts.uncleaned
        says = (
            f"The replica's log lacks {counted(count, 'record')} that another replica "
            f"has, "
            f"the "
            f"first "
            f"at "
            f"offset "
            f"{first}. Compaction may have removed "
            f"{'it' if count == 1 else 'them'}, but the broker's "
            "cleaner-offset-checkpoint, which would prove this, is "
            f"{'older' if facts.replica.cleaner_told else 'missing'}."
        )
        yield LogFinding("no-cleaner-checkpoint", "error", says, first)


def _missing_segments(facts: Facts) -> Iterator[LogFinding]:
    """Yield findings about missing segments.

    Only missing offsets show that a segment is missing.
    """
    replica, first = facts.replica, facts.replica.begins or 0
    begins = [(replica.log_start, LOG_START)] if replica.log_start is not None else []
    begins += [(start, LEADER_EPOCH) for _, start in (replica.epochs or ())[:1]]
    earlier = [(start, name) for start, name in begins if start < first]
    if earlier and not replica.tiered:
        start, name = min(earlier)
        says = (
            f"The replica's log begins with offset {first}, but its file {name} says that "
            f"the log begins at {start}."
        )
        yield LogFinding("missing-segment", "error", says, start)
    damaged = {row["segment"] for row in facts.damage}
    gaps = [] if _broken(facts) else [gap for gap in facts.gaps if gap[0] not in damaged]
    for _, begin, last in gaps[:_NAMED_MAX]:
        if facts.between or not (facts.compacted or begin < facts.gaps_till):
            says = f"No segment contains offsets {begin} to {last}."
            yield LogFinding("missing-segment", "error", says, begin)


def _late_start(facts: Facts, *, start: int) -> Iterator[LogFinding]:
    """Yield a note if a log begins after offset 0, and no file of its broker explains this.

    Other files do not explain it: a producer snapshot may exist longer than its segment, and
    brokers remove their segments at different times.
    """
    replica, first = facts.replica, facts.replica.begins or 0
    if first > start and log_start(facts) is None and not replica.tiered:
        says = (
            f"The replica's log begins with offset {first}. Either retention removed the "
            "first segments, or the copy lacks them. No file shows the cause."
        )
        yield LogFinding(LATE_START, "note", says, first)


def _checkpoints(facts: Facts, *, end: int) -> Iterator[LogFinding]:
    """Yield findings about checkpointed offsets above the log's end.

    Either the broker's log has lost its end, or the copy is incomplete: it lacks a segment, or the
    log was copied before the checkpoint files. A finding is an error if no replica reaches the
    offset.
    """
    broken = _broken(facts)
    for finding, value in [*_beyond(facts), *_snapshot_beyond(facts)]:
        if finding.kind == "hw-above-leo":
            if broken:
                continue
            number = counted(value - facts.leo, "committed record")
            says = f"The replica's HW is {value}, but its log ends at {facts.leo}: {number}"
            says += f" {'is' if value == facts.leo + 1 else 'are'} missing."
            finding = replace(finding, says=says)  # noqa: PLW2901
        if broken:
            yield finding
            continue
        holder = (
            "No inspected replica reaches that offset."
            if value > end
            else "Another replica reaches that offset."
        )
        severity: Severity = "error" if value > end else "warning"
        yield replace(finding, severity=severity, says=f"{finding.says} {holder}")


def _beyond(facts: Facts) -> Iterator[tuple[LogFinding, int]]:
    """Yield findings about checkpointed offsets above the LEO, each with this offset.

    Kafka never writes such a checkpoint.
    """
    replica, leo = facts.replica, facts.leo
    if replica.hw is not None and replica.hw > leo:
        gone = counted(replica.hw - leo, "committed record")
        says = (
            f"The replica's HW was {replica.hw}, but its log ends at {leo}: {gone} below the HW "
            f"{'is' if replica.hw == leo + 1 else 'are'} missing from the log."
        )
        yield LogFinding("hw-above-leo", "warning", says, leo), replica.hw
    named = (("recovery point", replica.recovery_point), ("log start offset", replica.log_start))
    for name, value in named:
        if value is not None and value > leo:
            says = f"The replica's {name} is {value}, but its log ends at {leo}."
            kind = f"{name.replace(' offset', '').replace(' ', '-')}-above-leo"
            yield LogFinding(kind, "warning", says, leo), value


def _snapshot_beyond(facts: Facts) -> Iterator[tuple[LogFinding, int]]:
    snapshot, leo = facts.replica.snapshot, facts.leo
    if snapshot is not None and snapshot > leo:
        says = f"The replica has {snapshot:020d}.snapshot, but its log ends at {leo}."
        yield LogFinding("snapshot-above-leo", "warning", says, leo), snapshot


def _epoch_list(facts: Facts, *, end: int) -> Iterator[LogFinding]:
    """Yield contradictions between a log and its leader-epoch-checkpoint."""
    past = _epoch_beyond(facts) if max(facts.replica.epochs or [(0, 0)])[1] > end else []
    for finding in _contradicted(facts):
        behind_all = finding in past and not _broken(facts)
        yield replace(finding, severity="error") if behind_all else finding


def _broken(facts: Facts) -> bool:
    """Return whether damage may explain why the log ends before a checkpointed offset."""
    return any(row["damage"] in ("corrupt", "unreadable") for row in facts.damage) or any(
        finding.kind == "unreadable" for finding in facts.replica.findings
    )


def disordered(facts: Facts) -> list[LogFinding]:
    """Return findings about leader epochs that decrease along the log.

    If a batch's epoch differs from the epochs around it, the batch is damaged. If the epochs
    decrease and stay low, the cluster lost its metadata and started again with the old logs.
    """
    findings = []
    runs = facts.epochs
    for index, run in enumerate(runs[1:], start=1):
        before = max(runs[:index], key=lambda run: run.last)
        amid = run.first <= before.last
        if amid or run.epoch < before.epoch:
            says = (
                f"Records of leader epoch {run.epoch} (from offset {run.first}) lie"
                f" {'among' if amid else 'after'} records of epoch {before.epoch} (up to offset"
                f" {before.last})."
            )
            severity: Severity = "error" if amid else "warning"
            findings.append(LogFinding("epoch-order", severity, says, run.first))
    return findings[:_NAMED_MAX]


def _contradicted(facts: Facts) -> list[LogFinding]:
    """Return differences between leader-epoch-checkpoint and the records (LeaderEpochFileCache).

    An entry has an epoch and its first offset. The epoch ends at the next entry's offset. Kafka
    removes entries before the log start offset.
    """
    entries = facts.replica.epochs
    if entries is None:
        return []
    starts = dict(entries)
    ends = dict(zip(starts, [start for _, start in entries[1:]], strict=False))
    begins = facts.replica.log_start or 0
    findings = []
    for run in facts.epochs:
        epoch, first, last = run.epoch, max(run.first, begins), run.last
        if last < begins:
            continue
        if epoch not in starts:
            findings.append(
                f"Records from offset {first} on have epoch {epoch}, which "
                "leader-epoch-checkpoint lacks."
            )
        elif first < starts[epoch]:
            findings.append(
                f"Epoch {epoch} begins at {starts[epoch]} in leader-epoch-checkpoint, "
                f"but at {first} in the log."
            )
        elif epoch in ends and last >= ends[epoch]:
            findings.append(
                f"Epoch {epoch} ends before {ends[epoch]} in leader-epoch-checkpoint, "
                f"but at {last} in the log."
            )
    listed = [_contradiction(finding) for finding in findings]
    return [*listed, *_epoch_beyond(facts)][:_NAMED_MAX]


def _epoch_beyond(facts: Facts) -> list[LogFinding]:
    """Return a finding if the last epoch in leader-epoch-checkpoint begins after the log's end."""
    entries = facts.replica.epochs
    if not entries or entries[-1][1] <= facts.leo:
        return []
    epoch, start = entries[-1]
    return [
        _contradiction(
            f"Epoch {epoch} begins at {start} in leader-epoch-checkpoint, but the log "
            f"ends at {facts.leo}."
        )
    ]


def _contradiction(finding: str) -> LogFinding:
    says = f"{LEADER_EPOCH} contradicts the log: {finding}"
    return LogFinding("epoch-list", "warning", says)


def _producers(facts: Facts) -> Iterator[LogFinding]:
    for row in facts.repeated:
        says = (
            f"{counted(row['count'], 'sequence number')} of an idempotent producer"
            f" are in "
            f"the log "
            f"twice. The "
            f"first is "
            f"{row['sequence']} of producer {row['producer_id']} at offsets"
            f" {row['first']} and {row['again']}."
        )
        yield LogFinding("repeated-sequence", "warning", says, row["first"])
    ended = {row["ending"]: row for row in facts.transactions}
    if opened := ended.get("open"):
        yield from _open(facts, opened)
    if bare := ended.get("bare"):
        marker = bare["some"][0]["marker"]
        says = (
            f"{counted(bare['count'], 'transaction marker')} without records"
            f" before {'it' if bare['count'] == 1 else 'them'}, the first at offset {marker}. The"
            " transaction wrote no record here, or compaction or retention removed its records."
        )
        yield LogFinding("bare-marker", "note", says, marker)


def _open(facts: Facts, opened: Row) -> Iterator[LogFinding]:
    first = opened["some"][0]
    says = (
        f"{counted(opened['count'], 'transaction')} without a marker, the first"
        f" from offset {first['first']} on, of producer {first['producer_id']}. A read_committed"
        " reader stops at this offset."
    )
    time = max((span["time"] for span in facts.spans if span["time"] is not None), default=0)
    age_ms = time - (first["time"] or time)
    if age_ms <= HANGING_MS:
        yield LogFinding("open-transaction", "note", says, first["first"])
        return
    says += (
        f" The log has records from up to {age_ms // 60_000} minutes later, so the transaction"
        " hangs (KIP-664)."
    )
    yield LogFinding("hanging-transaction", "warning", says, first["first"])
