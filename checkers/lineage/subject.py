"""The record or offset that an anomaly is about, with its evidence."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from highwater.checkers.core.anomaly_kinds import DUPLICATE, LOST, VANISHED
from highwater.checkers.lineage.evidence import RecordEvidence, Row
from highwater.harness.runs.faults.effects import removed_offsets
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.history import FENCE, OK, READ, SEND
from highwater.harness.runs.partition_trace import (
    UNKNOWN,
    EndOffsetDrop,
    Leadership,
    PartitionTrace,
    Track,
)

NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The offset of an anomaly, and the record that should be there.

    The anomaly's interval begins when the record is sent. It ends when later events cannot change
    the record's outcome.
    """

    evidence: RecordEvidence
    kind: str
    partition: int | None
    offset: int | None
    value: str | None

    @cached_property
    def sends(self) -> list[Row]:
        """The sends of this record, as rows of the history."""
        return [
            row
            for row in self.evidence.operations
            if row["kind"] == SEND and row["value"] == self.value
        ]

    @cached_property
    def others(self) -> list[Row]:
        """The acknowledged sends of other records at this offset.

        If the record vanished from a topic that the run only reads: the reads of other records.
        """
        if self.kind == VANISHED:
            return [row for row in self._here(READ) if row["value"] != self.value]
        return [
            row
            for row in self._here(SEND)
            if row["value"] != self.value and row["outcome"] == OK and row["process"] != FENCE
        ]

    @cached_property
    def reads(self) -> list[Row]:
        """The reads of this record at any offset, and the reads of other records at its offset."""
        rows = [
            row
            for row in self.evidence.operations
            if row["kind"] == READ and row["value"] == self.value
        ]
        return rows + [row for row in self._here(READ) if row["value"] != self.value]

    @cached_property
    def began_ns(self) -> int:
        """When the record was first sent, or first read if it vanished; 0 if that is unknown."""
        rows = self.reads if self.kind == VANISHED else self.sends
        return min((row["invoke_ns"] for row in rows), default=0)

    @cached_property
    def ended_ns(self) -> int:
        """The end of the interval.

        For a lost or vanished record, this is the time when a replica that has truncated the record
        begins to lead, or when another record is acknowledged or read at its offset. For a
        duplicate, it is the time of the last acknowledgement. Other intervals have no end.
        """
        if self.kind == DUPLICATE:
            return max((row["complete_ns"] or NEVER for row in self.sends), default=NEVER)
        if self.kind not in (LOST, VANISHED):
            return NEVER
        replaced = [row["complete_ns"] for row in self.others if row["complete_ns"]]
        leaders = [
            change.time_ns
            for change in self._changes
            if any(
                cut.broker == change.leader and cut.time_ns <= change.time_ns
                for cut in self._all_cuts
            )
        ]
        later = [time for time in (*replaced, *leaders) if time > self.began_ns]
        return min(later, default=NEVER)

    @cached_property
    def cuts(self) -> list[EndOffsetDrop]:
        """The drops of a replica's LEO from above the offset to the offset or below it."""
        return [cut for cut in self._all_cuts if cut.time_ns <= self.ended_ns]

    def taken_from(self, cut: EndOffsetDrop) -> bool:
        """Return whether a fault, and not a truncation by Kafka, removed the record from a log."""
        return any(
            self.offset in offsets
            for row in self.evidence.faults
            if row["broker"] == cut.broker and self.began_ns <= row["time_ns"] <= cut.time_ns
            for offsets in removed_offsets(row, self.evidence.topic, self.partition or 0)
        )

    def lost_while_down(self, cut: EndOffsetDrop) -> bool:
        """Return whether a broker restarted with a shorter log, but logged no truncation."""
        was_down = any(
            row["broker"] == cut.broker
            and row["phase"] == "inject"
            and facts_of(row["fault"]).silent
            and not facts_of(row["fault"]).frozen
            and cut.since_ns <= row["time_ns"] <= cut.time_ns
            for row in self.evidence.faults
        )
        lines = (row for row in self.evidence.log_lines if row["kind"] == "truncation")
        return was_down and not any(row["broker"] == cut.broker for row in lines)

    @cached_property
    def elections(self) -> list[Leadership]:
        """The changes of leader or leader epoch in the interval."""
        return [change for change in self._changes if change.time_ns <= self.ended_ns]

    @cached_property
    def holders(self) -> list[Track]:
        """The observations of each replica while it had the record at the offset."""
        if self.offset is None:
            return []
        tracks = (track.holding(self.offset, self.ended_ns) for track in self._tracks)
        return [track for track in tracks if len(track.time_ns)]

    @property
    def trace(self) -> PartitionTrace:
        """The leaders and replicas of this partition over time."""
        observed = {} if self.partition is None else self.evidence.traces
        return observed.get(self.partition or 0, PartitionTrace())

    def leader_of(self, row: Row) -> Leadership | None:
        """Return the leader and epoch that acknowledged a send; None if this was not observed.

        The observer may see a leader late, or not at all. So the epoch in which the record was
        written comes from a client or a disk, if one of them shows it. Otherwise the result is the
        leader that was observed at the time of the send. It is None if that leader was down, or if
        another record at the offset is from that epoch.
        """
        place = self.partition or 0, row["offset"]
        records = [(epoch, value) for _, epoch, value in self.evidence.disk.get(place, ())]
        records += [
            (read["leader_epoch"], read["value"])
            for read in self.evidence.operations
            if read["kind"] == READ and (read["partition"], read["offset"]) == place
        ]
        written = [(epoch, value == row["value"]) for epoch, value in records if epoch is not None]
        epochs = {epoch for epoch, same in written if same and epoch >= 0}
        others = {epoch for epoch, same in written if not same}
        observed = self.trace.answering(row["invoke_ns"], row["complete_ns"], others)
        if row["leader_epoch"] is not None:
            epochs = {row["leader_epoch"]}
        if not epochs and observed is not None and self._was_down(observed.leader, row):
            return None
        if len(epochs) != 1 or (observed is not None and observed.epoch in {*epochs, UNKNOWN}):
            return observed
        leaders = (now for now in self.trace.leaderships if now.leader >= 0 and now.epoch in epochs)
        return next(leaders, None)

    def _was_down(self, broker: int, row: Row) -> bool:
        down_ns = NEVER
        for fault in self.evidence.faults:
            if fault["broker"] == broker and facts_of(fault["fault"]).silent:
                if fault["phase"] == "inject" and fault["time_ns"] <= row["invoke_ns"]:
                    down_ns = fault["time_ns"]
                elif fault["phase"] == "heal" and fault["time_ns"] < (row["complete_ns"] or NEVER):
                    down_ns = NEVER
        return down_ns != NEVER

    @cached_property
    def _changes(self) -> list[Leadership]:
        return [
            now
            for before, now in pairwise(self.trace.leaderships)
            if (now.leader, now.epoch) != (before.leader, before.epoch)
            and now.time_ns >= self.began_ns
        ]

    @cached_property
    def _all_cuts(self) -> list[EndOffsetDrop]:
        return [
            drop
            for track in self._tracks
            for drop in track.drops()
            if self.offset is not None and drop.before > self.offset >= drop.after
        ]

    @cached_property
    def _tracks(self) -> list[Track]:
        return [track.since(self.began_ns) for track in self.trace.tracks.values()]

    def _here(self, kind: str) -> list[Row]:
        return [
            row
            for row in self.evidence.operations
            if row["kind"] == kind
            and self.offset is not None
            and (row["partition"], row["offset"]) == (self.partition, self.offset)
        ]


def where(topic: str, partition: int | None) -> str:
    """Return a partition's name in Kafka's form; without a partition, the topic's name."""
    return topic if partition is None else f"{topic}-{partition}"
