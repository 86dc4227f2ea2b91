"""Partitions over time: the observed leaders, and the observed LEO and HW of each replica.

Lineage (the way of a record through the cluster), the model's explanation and the reports read
``events/partitions`` and ``events/replicas`` only by this module.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Partition: TypeAlias = tuple[str, int]
"""Topic and partition number."""

Ints: TypeAlias = npt.NDArray[np.int64]

_COLUMNS: Final = ("time_ns", "leo", "hw", "unchanged_ns")

UNKNOWN: Final = -1
"""The value of a LEO, HW or epoch that is unknown."""

SILENT_NS: Final = 2_000_000_000
"""The observer needs up to this time, from a broker's last response, to notice the broker's
failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The leader (-1: none), leader epoch and ISR that the metadata had from ``time_ns`` on.

    Attributes:
        unchanged_ns: the start of the last query with this response; None if it is unknown.
    """

    time_ns: int
    leader: int
    epoch: int
    isr: tuple[int, ...]
    unchanged_ns: int | None = None

    @property
    def event(self) -> str:
        """The leadership as text: ``leader 1, leader epoch 5, ISR [1, 2]``."""
        return f"leader {self.leader}, leader epoch {self.epoch}, ISR {list(self.isr)}"


class ReplicaSample(NamedTuple):
    """A replica's LEO and HW, observed at one time."""

    time_ns: int
    leo: int
    hw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetDrop:
    """A decrease of a replica's LEO between two responses, at ``since_ns`` and ``time_ns``.

    Attributes:
        before: the LEO in the first response.
        after: the LEO in the second response.
        hw: the replica's HW in the first response.
    """

    broker: int
    since_ns: int
    time_ns: int
    before: int
    after: int
    hw: int


@dataclass(frozen=True, kw_only=True)
class Track:
    """One replica's LEO and HW over time: a row for each change. ``UNKNOWN`` means no response.

    Attributes:
        unchanged_ns: by row, the start of the last query with this response; ``UNKNOWN`` in the
            last row, and in older runs.
    """

    broker: int
    time_ns: Ints
    leo: Ints
    hw: Ints
    unchanged_ns: Ints

    @classmethod
    def of(
        cls,
        broker: int,
        samples: Iterable[tuple[int, int, int]],
        unchanged_ns: Sequence[int] | None = None,
    ) -> Self:
        """Make a broker's track from samples of (time in ns, LEO, HW)."""
        rows = np.array(list(samples), dtype=np.int64).reshape(-1, 3)
        unchanged = np.full(len(rows), UNKNOWN) if unchanged_ns is None else np.array(unchanged_ns)
        return cls(
            broker=broker,
            time_ns=rows[:, 0],
            leo=rows[:, 1],
            hw=rows[:, 2],
            unchanged_ns=unchanged,
        )

    @cached_property
    def samples(self) -> list[ReplicaSample]:
        """The responses that had both a LEO and a HW."""
        complete = (self.leo != UNKNOWN) & (self.hw != UNKNOWN)
        columns = (column[complete].tolist() for column in (self.time_ns, self.leo, self.hw))
        return [ReplicaSample(*row) for row in zip(*columns, strict=True)]

    def at(self, time_ns: int) -> tuple[int, int, bool]:
        """Return (LEO, HW, whether the broker responded at ``time_ns``): the last known values."""
        end = int(np.searchsorted(self.time_ns, time_ns, side="right"))
        last = self._last(end)
        if last < 0:
            return UNKNOWN, UNKNOWN, False
        return int(self.leo[last]), int(self.hw[last]), last == end - 1

    def observed_at(self, time_ns: int) -> int:
        """Return the time of the last response up to ``time_ns``; -1 if there is none."""
        last = self._last(int(np.searchsorted(self.time_ns, time_ns, side="right")))
        return int(self.time_ns[last]) if last >= 0 else -1

    def with_leo(self, leo: int, time_ns: int) -> Self:
        """Add a LEO that is known from another source: the replica had ``leo`` at ``time_ns``.

        If the broker stopped responding around ``time_ns`` (within ``SILENT_NS``), the returned
        track has at least this LEO in its last response. Otherwise the track does not change.
        """
        last = self._last(int(np.searchsorted(self.time_ns, time_ns, side="right")))
        after = slice(last + 1, last + 2)
        fell = (self.leo[after] == UNKNOWN) & (self.time_ns[after] <= time_ns + SILENT_NS)
        if last < 0 or not fell.any() or self.leo[last] >= leo:
            return self
        raised = self.leo.copy()
        raised[last] = leo
        return replace(self, leo=raised)

    def answered(self, until_ns: int) -> list[tuple[int, int]]:
        """Return (begin, end) in ns of the intervals in which the replica responded."""
        times = np.append(self.time_ns, until_ns)
        return [(int(times[a]), int(times[b])) for a, b in known_ranges(self.leo)]

    def since(self, time_ns: int) -> Self:
        """Return the part of the track from a time on."""
        return self._rows(self.time_ns >= time_ns)

    def holding(self, offset: int, until_ns: int) -> Self:
        """Return the rows of the first interval in which the replica had this offset."""
        above = (self.leo > offset) & (self.time_ns <= until_ns)
        after = np.flatnonzero((self.leo != UNKNOWN) & ~above & np.logical_or.accumulate(above))
        until = after[0] if len(after) else len(above)
        return self._rows(above & (np.arange(len(above)) < until))

    def drops(self) -> Iterator[EndOffsetDrop]:
        """Yield every decrease of the LEO between two successive responses."""
        answers = self._rows(self.leo != UNKNOWN)
        times, leo, hw = answers.time_ns, answers.leo, answers.hw
        for i in np.flatnonzero(leo[1:] < leo[:-1]) + 1:
            yield EndOffsetDrop(
                broker=self.broker,
                since_ns=int(times[i - 1]),
                time_ns=int(times[i]),
                before=int(leo[i - 1]),
                after=int(leo[i]),
                hw=int(hw[i - 1]),
            )

    def _rows(self, chosen: npt.NDArray[np.bool_]) -> Self:
        columns = {name: getattr(self, name)[chosen] for name in _COLUMNS}
        return replace(self, **columns)

    def _last(self, end: int) -> int:
        """Return the index of the last response before index ``end``; -1 if there is none."""
        answers = np.flatnonzero(self.leo[:end] != UNKNOWN)
        return int(answers[-1]) if len(answers) else -1


@dataclass(frozen=True, kw_only=True)
class PartitionTrace:
    """One partition over time.

    Attributes:
        leaderships: the partition's leaderships, in order of time.
        tracks: broker id to the track of its replica.
    """

    leaderships: Sequence[Leadership] = ()
    tracks: Mapping[int, Track] = field(default_factory=dict)

    @property
    def replicas(self) -> frozenset[int]:
        """The brokers that have a replica: they were in an ISR, or reported a LEO."""
        in_sync = {broker for row in self.leaderships for broker in row.isr}
        reported = {b for b, track in self.tracks.items() if (track.leo != UNKNOWN).any()}
        return frozenset(in_sync | reported)

    def leadership(self, time_ns: int | None) -> Leadership | None:
        """Return the last leadership up to ``time_ns``, or None."""
        if time_ns is None:
            return None
        index = bisect_right(self.leaderships, time_ns, key=lambda row: row.time_ns)
        return self.leaderships[index - 1] if index else None

    def answering(
        self, sent_ns: int, answered_ns: int | None, others: Collection[int]
    ) -> Leadership | None:
        """Return the leadership whose leader acknowledged a send; None if several may have done so.

        Args:
            others: leader epochs in which a different record was written at the send's offset. The
                leaders of these epochs did not acknowledge this send.
        """
        if answered_ns is None:
            return None
        first = self.leadership(sent_ns)
        later = (row for row in self.leaderships if sent_ns < row.time_ns <= answered_ns)
        rows = [row for row in (first, *later) if row is not None and row.leader >= 0]
        left = [row for row in rows if row.epoch == UNKNOWN or row.epoch not in others]
        return left[-1] if len({row.leader for row in left}) == 1 else None

    def samples(self, broker: int) -> Sequence[ReplicaSample]:
        """Return the observed LEO and HW of a broker's replica; empty if it was never observed."""
        track = self.tracks.get(broker)
        return () if track is None else track.samples

    def sample(self, broker: int, time_ns: int) -> ReplicaSample | None:
        """Return the last observed LEO and HW of a broker's replica up to a time, or None."""
        samples = self.samples(broker)
        index = bisect_right(samples, time_ns, key=lambda sample: sample.time_ns)
        return samples[index - 1] if index else None


def partition_traces(partitions: pa.Table, replicas: pa.Table) -> dict[Partition, PartitionTrace]:
    """Return (topic, partition) -> trace, from ``events/partitions`` and ``events/replicas``."""
    leaderships, tracks = _leaderships(partitions), _tracks(replicas)
    return {
        key: PartitionTrace(leaderships=tuple(leaderships.get(key, ())), tracks=tracks.get(key, {}))
        for key in sorted({*leaderships, *tracks})
    }


def ints(column: pa.ChunkedArray) -> Ints:
    """Return a column of integers, with ``UNKNOWN`` for null."""
    filled = pc.fill_null(column, UNKNOWN).cast(pa.int64())
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def known_ranges(values: Ints) -> list[tuple[int, int]]:
    """Return (begin, end) of the index ranges in which the values are not ``UNKNOWN``."""
    is_known = np.concatenate([[False], values != UNKNOWN, [False]])
    edges = np.flatnonzero(is_known[1:] != is_known[:-1])
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _leaderships(table: pa.Table) -> dict[Partition, list[Leadership]]:
    by_partition: dict[Partition, list[Leadership]] = {}
    for row in table.sort_by("time_ns").to_pylist():
        rows = by_partition.setdefault((row["topic"], row["partition"]), [])
        if rows:
            rows[-1] = replace(rows[-1], unchanged_ns=row.get("unchanged_ns"))
        leadership = Leadership(
            time_ns=row["time_ns"],
            leader=row["leader"],
            epoch=UNKNOWN if row["leader_epoch"] is None else row["leader_epoch"],
            isr=tuple(row["isr"]),
        )
        rows.append(leadership)
    return by_partition


def _tracks(table: pa.Table) -> dict[Partition, dict[int, Track]]:
    tracks: dict[Partition, dict[int, Track]] = {}
    names = ["topic", "partition", "broker"]
    for key in table.group_by(names).aggregate([]).select(names).to_pylist():
        same = [pc.equal(table[name], key[name]) for name in names]
        rows = table.filter(pc.and_(pc.and_(same[0], same[1]), same[2])).sort_by("time_ns")
        columns = {name: ints(rows[name]) for name in ("time_ns", "leo", "hw")}
        unchanged = np.full(len(rows), UNKNOWN)
        if "unchanged_ns" in rows.column_names:  # a row has the time of the row before it
            unchanged[:-1] = ints(rows["unchanged_ns"])[1:]
        track = Track(broker=key["broker"], **columns, unchanged_ns=unchanged)
        tracks.setdefault((key["topic"], key["partition"]), {})[key["broker"]] = track
    return tracks
