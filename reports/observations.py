"""Data types of a run's evidence: observations, faults, truncations and sends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from highwater.harness.runs.faults.counts import FaultCounts
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.history import LOG_LINES

Partition: TypeAlias = tuple[str, int]
"""Topic and partition number."""

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition number and offset."""

Ints: TypeAlias = npt.NDArray[np.int64]

SILENT_NS: Final = 2_000_000_000
"""So soon after its last answer a broker that fell silent is seen to be."""

UNKNOWN: Final = -1
"""Stands for a LEO or HW that the broker did not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetDrop:
    """A LEO that went down from one answer, at ``since_ns``, to the next, at ``time_ns``."""

    since_ns: int
    time_ns: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """LEO and HW of one replica over time, a row a change (``UNKNOWN``: it did not answer)."""

    time_ns: Ints
    leo: Ints
    hw: Ints

    def at(self, time_ns: int) -> tuple[int, int, bool]:
        """Return the last reported LEO and HW, and whether the broker still answered."""
        end = int(np.searchsorted(self.time_ns, time_ns, side="right"))
        last = self._last(end)
        if last < 0:
            return UNKNOWN, UNKNOWN, False
        return int(self.leo[last]), int(self.hw[last]), last == end - 1

    def observed_at(self, time_ns: int) -> int:
        """Return the time of the last answer up to ``time_ns``; -1: there was none."""
        last = self._last(int(np.searchsorted(self.time_ns, time_ns, side="right")))
        return int(self.time_ns[last]) if last >= 0 else -1

    def with_leo(self, leo: int, time_ns: int) -> Self:
        """Raise the last LEO before a silence to ``leo``, which it had reached by ``time_ns``.

        Returns:
            The track itself if ``leo`` was observed, or if no silence begins within ``SILENT_NS``.
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
        """Return the intervals in which the replica answered, in ns."""
        is_known = np.concatenate([[False], self.leo != UNKNOWN, [False]])
        edges = np.flatnonzero(is_known[1:] != is_known[:-1])
        times = np.append(self.time_ns, until_ns)
        return [(int(times[a]), int(times[b])) for a, b in edges.reshape(-1, 2)]

    def drops(self) -> Iterator[EndOffsetDrop]:
        """Yield every fall of the LEO from one answer to the next, across silences too."""
        has_leo = self.leo != UNKNOWN
        times, leo = self.time_ns[has_leo], self.leo[has_leo]
        for i in np.flatnonzero(leo[1:] < leo[:-1]) + 1:
            yield EndOffsetDrop(
                since_ns=int(times[i - 1]),
                time_ns=int(times[i]),
                before=int(leo[i - 1]),
                after=int(leo[i]),
            )

    def _last(self, end: int) -> int:
        """Return the last row before index ``end`` with an answer; -1: there is none."""
        answers = np.flatnonzero(self.leo[:end] != UNKNOWN)
        return int(answers[-1]) if len(answers) else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipPeriod:
    """Leader (-1: none), epoch and ISR by the controller's metadata from ``time_ns`` on."""

    time_ns: int
    leader: int
    epoch: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationEvent:
    """A replica truncated its log: offsets from ``offset`` on are gone."""

    time_ns: int
    broker: int
    offset: int
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObservations:
    """Everything observed about one partition."""

    partition: Partition
    tracks: dict[int, Track]
    leaderships: tuple[LeadershipPeriod, ...]
    cuts: tuple[TruncationEvent, ...]

    def leadership(self, time_ns: int) -> LeadershipPeriod | None:
        """Return the leadership that the controller reported as of that time."""
        before = [leadership for leadership in self.leaderships if leadership.time_ns <= time_ns]
        return before[-1] if before else None

    @property
    def brokers(self) -> list[int]:
        """Every broker seen with this partition, by id."""
        tracks = set(self.tracks)
        for leadership in self.leaderships:
            tracks |= {*leadership.isr} | ({leadership.leader} if leadership.leader >= 0 else set())
        return sorted(tracks | {cut.broker for cut in self.cuts})


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTimes:
    """Times of the sends of the phase ``run``, in ns.

    Attributes:
        ended_ns: times of acknowledgement, ascending.
        took_ns: latencies of the acknowledged sends, in the same order.
        failed_ns: times at which the other sends began.
    """

    ended_ns: Ints
    took_ns: Ints
    failed_ns: Ints


def _no_pace() -> SendTimes:
    nothing = np.empty(0, np.int64)
    return SendTimes(ended_ns=nothing, took_ns=nothing, failed_ns=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunObservations:
    """All that is known of a run besides its verdict.

    Attributes:
        deeds: what was done to the cluster; None where that cannot be read.
        acks: per partition, the times in ns at which sends were acknowledged, ascending.
        done: what that was: with acks=0 nobody acknowledges.
        acked_at: id of a record to the time of its acknowledgement, for the asked-for ids only.
        sends: for the asked-for places, who was acknowledged there: (sent at, id) in order of time.
        log_lines: ``events/log_lines``.
        missing: what could not be read, a sentence each.
    """

    scenes: dict[Partition, PartitionObservations] = field(default_factory=dict)
    faults: tuple[FaultInterval, ...] = ()
    steps: tuple[FaultInterval, ...] = ()
    deeds: FaultCounts | None = None
    acks: dict[Partition, Ints] = field(default_factory=dict)
    done: str = "acknowledged"
    acked_at: Mapping[str, int] = field(default_factory=dict)
    sends: Mapping[Place, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    pace: SendTimes = field(default_factory=_no_pace)
    log_lines: pa.Table = field(default_factory=LOG_LINES.empty_table)
    end_ns: int = 0
    missing: tuple[str, ...] = ()
