"""What an anomaly is about, and the questions that its story asks of the evidence."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from checkers.evidence import Evidence, Row
from checkers.fates import FENCE
from checkers.policy import LOST
from harness.history import OK, READ, SEND

NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A replica that held an offset and then did not: LEO before and after, HW before."""

    broker: int
    time_ns: int
    before: int
    after: int
    hw: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an anomaly is about: a place in a partition, and the record that should stand there."""

    evidence: Evidence
    kind: str
    partition: int | None
    offset: int | None
    value: str | None

    def sends(self) -> list[Row]:
        """The sends of this record."""
        return [
            row
            for row in self.evidence.operations
            if row["kind"] == SEND and row["value"] == self.value
        ]

    def others(self) -> list[Row]:
        """Acknowledgements of other records at this very place."""
        return [
            row
            for row in self._here(SEND)
            if row["value"] != self.value and row["outcome"] == OK and row["process"] != FENCE
        ]

    def reads(self) -> list[Row]:
        """Reads of this record anywhere, and of any record at its place."""
        mine = [
            row
            for row in self.evidence.operations
            if row["kind"] == READ and row["value"] == self.value
        ]
        return mine + [row for row in self._here(READ) if row["value"] != self.value]

    def began_ns(self) -> int:
        """When the record was sent; the beginning of time where no send is known."""
        return min((row["invoke_ns"] for row in self.sends()), default=0)

    def ended_ns(self) -> int:
        """When something else stood in its place: after that, faults explain nothing."""
        if self.kind != LOST:
            return NEVER
        began = self.began_ns()
        later = [row["complete_ns"] for row in self.others() if row["complete_ns"]]
        return min((time for time in later if time > began), default=NEVER)

    def cuts(self) -> list[Cut]:
        """Replicas whose LEO fell from above the offset to it or below it, since the sending."""
        if self.offset is None:
            return []
        return [cut for rows in self._by_broker().values() for cut in self._cuts_of(rows)]

    def leader_at(self, time_ns: int | None) -> Row | None:
        """The last word on the partition's leader at a time."""
        rows = [
            row
            for row in self.evidence.leaders
            if row["partition"] == self.partition
            and time_ns is not None
            and row["time_ns"] <= time_ns
        ]
        return rows[-1] if rows else None

    def elections(self) -> list[Row]:
        """Changes of leader or epoch after the record was sent."""
        rows = [row for row in self.evidence.leaders if row["partition"] == self.partition]
        pairs = pairwise(rows)
        return [
            now
            for before, now in pairs
            if (now["leader"], now["leader_epoch"]) != (before["leader"], before["leader_epoch"])
            and self.began_ns() <= now["time_ns"] <= self.ended_ns()
        ]

    def held(self) -> Iterator[tuple[Row, Row]]:
        """For each replica that held the offset: when that was first seen, and the last time."""
        if self.offset is None:
            return
        for rows in self._by_broker().values():
            run: list[Row] = []
            for row in rows:
                if row["leo"] is not None and row["leo"] > self.offset:
                    run.append(row)
                elif run and row["leo"] is not None:
                    break
            if run:
                yield run[0], run[-1]

    def _cuts_of(self, rows: list[Row]) -> Iterator[Cut]:
        assert self.offset is not None
        seen = [row for row in rows if row["leo"] is not None]
        for before, now in pairwise(seen):
            if before["leo"] > self.offset >= now["leo"] and now["time_ns"] <= self.ended_ns():
                yield Cut(
                    broker=now["broker"],
                    time_ns=now["time_ns"],
                    before=before["leo"],
                    after=now["leo"],
                    hw=before["hw"],
                )

    def _by_broker(self) -> dict[int, list[Row]]:
        """What each replica told of itself since the record was sent."""
        found: dict[int, list[Row]] = {}
        for row in self.evidence.replicas:
            if row["partition"] == self.partition and row["time_ns"] >= self.began_ns():
                found.setdefault(row["broker"], []).append(row)
        return found

    def _here(self, kind: str) -> list[Row]:
        return [
            row
            for row in self.evidence.operations
            if row["kind"] == kind
            and self.offset is not None
            and (row["partition"], row["offset"]) == (self.partition, self.offset)
        ]


def where(topic: str, partition: int | None) -> str:
    """A partition as Kafka writes it."""
    return topic if partition is None else f"{topic}-{partition}"
