"""Data types of a run's evidence: observations, faults, truncations and sends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from highwater.harness.runs.faults.counts import FaultCounts
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.faults.message_spans import MessageSpan
from highwater.harness.runs.history import LOG_LINES
from highwater.harness.runs.partition_trace import Ints, Partition, PartitionTrace

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition number and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationEvent:
    """A replica truncated its log: offsets from ``offset`` on are gone."""

    time_ns: int
    broker: int
    offset: int
    line: str = ""


@dataclass(frozen=True, kw_only=True)
class PartitionObservations(PartitionTrace):
    """Everything observed about one partition."""

    partition: Partition
    cuts: tuple[TruncationEvent, ...]

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
        messages: single messages that the wire acted on, in the order in which they came.
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
    messages: tuple[MessageSpan, ...] = ()
    deeds: FaultCounts | None = None
    acks: dict[Partition, Ints] = field(default_factory=dict)
    done: str = "acknowledged"
    acked_at: Mapping[str, int] = field(default_factory=dict)
    sends: Mapping[Place, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    pace: SendTimes = field(default_factory=_no_pace)
    log_lines: pa.Table = field(default_factory=LOG_LINES.empty_table)
    end_ns: int = 0
    missing: tuple[str, ...] = ()
