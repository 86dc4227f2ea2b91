"""The trace of one partition in one run: leaders, observations, log lines, and disks.

A trace stores changes, not one value for each record. Only disks (NumPy arrays) and operations
(Arrow tables) have an entry for each record.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.explain.observations import Observation
from highwater.checkers.explain.software import SoftwareHistory
from highwater.checkers.explain.tolerances import WITHIN
from highwater.harness.releases.cluster_facts import UNCLEAN
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.history import READ, SEND
from highwater.harness.runs.partition_trace import Leadership, PartitionTrace
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import RunStatus

_EPOCH: Final = re.compile(r"[Ll]eader [Ee]poch (\d+)|LeaderEpoch:(\d+)")
_DECISION: Final = re.compile(r"partition epoch (\d+)|[vV]ersion updated to \[?(\d+)")
_ISR: Final = re.compile(
    r"ISR (?:for partition \S+ )?(?:updated|from \[?[\d, ]*\]?) to \[?([\d, ]+)|,ISR:([\d,]+),"
)
_LEADER: Final = re.compile(
    r"to broker (?:BrokerEndPoint\((?:id=)?)?(\d+)|Current leader is (-?\d+)"
)

Number: TypeAlias = tuple[int | None, int | None, int | None]
"""A producer id, a producer epoch and a sequence number (KIP-98)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogLine:
    """A line of a broker's log about a partition or about the broker."""

    time_ns: int
    broker: int
    kind: str
    offset: int
    text: str

    @property
    def epoch(self) -> int:
        """The leader epoch in the line; -1 if the line has none."""
        match = _EPOCH.search(self.text)
        return int(match[1] or match[2]) if match else -1

    @property
    def partition_epoch(self) -> int:
        """The partition epoch in the line; -1 if the line has none."""
        match = _DECISION.search(self.text)
        return int(match[1] or match[2]) if match else -1

    @property
    def isr(self) -> frozenset[int]:
        """The new ISR in the line; empty if the line has none."""
        match = _ISR.search(self.text)
        return (
            frozenset(map(int, re.findall(r"\d+", match[1] or match[2]))) if match else frozenset()
        )

    @property
    def leader(self) -> int:
        """The leader in the line; -1 if the line has none."""
        match = _LEADER.search(self.text)
        return int(match[1] or match[2]) if match else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipStart:
    """The beginning of a broker's leadership: its offset, and the evidence.

    Attributes:
        time_ns: the time at which the leader was observed.
        offset: the offset at which the leader began.
        unclean: text that shows that the leader was elected from outside the ISR, or None.
        last_leader: text that shows that the leader was elected as the last known leader of an
            empty ISR (KIP-966), or None. Kafka calls such an election unclean, but allows it.
        logged: True if the broker's log, a record of the epoch, or a fault shows the offset; False
            if the offset is the last observed LEO.
        unlogged_election: True if the election was observed, but no broker logged it.
        isr_known: whether the ISR at the election was logged or observed.
        event: the evidence as text.
        led_ns: the time at which the broker logged that it leads, maybe long after its election.
    """

    time_ns: int
    broker: int
    epoch: int
    offset: int
    isr: tuple[int, ...]
    unclean: str | None
    logged: bool
    event: str
    last_leader: str | None = None
    unlogged_election: bool = False
    isr_known: bool = True
    led_ns: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenReplica:
    """A replica as it was frozen: parallel arrays with one element for each record, in file order.

    Attributes:
        epochs: the records' leader epochs; -1 for record formats without epochs.
        ids: the records' ids; None for a record without an id, such as a marker.
        overlapping: last offsets of message sets (before 0.11) that overlap other sets, although
            their checksum is right. The arrays do not have the records of these sets.
        numbers: each record's producer id, producer epoch and sequence number; None where they are
            missing.
    """

    offsets: np.ndarray[Any, np.dtype[np.int64]]
    epochs: np.ndarray[Any, np.dtype[np.int64]]
    ids: list[str | None]
    overlapping: frozenset[int] = frozenset()
    numbers: list[Number] = field(default_factory=list)

    def copies(self, record: str) -> list[tuple[int, Number]]:
        """Return the offset and the sequence number (``Number``) of each copy of a record."""
        rows = zip(self.offsets.tolist(), self.ids, self.numbers, strict=False)
        return [(offset, number) for offset, name, number in rows if name == record]

    @cached_property
    def records(self) -> frozenset[str | None]:
        """The ids of all records."""
        return frozenset(self.ids)

    @cached_property
    def at(self) -> dict[int, int]:
        """The index of each offset in the arrays."""
        return {int(offset): index for index, offset in enumerate(self.offsets)}

    def record(self, offset: int | None) -> str | None:
        """Return the record at an offset."""
        index = None if offset is None else self.at.get(offset)
        return None if index is None else self.ids[index]

    def epoch(self, offset: int) -> int:
        """Return the leader epoch at an offset; -1 if it is not known."""
        index = self.at.get(offset)
        return -1 if index is None else int(self.epochs[index])

    @property
    def epoch_starts(self) -> dict[int, int]:
        """The first offset of each leader epoch."""
        stated = self.epochs >= 0
        epochs, first = np.unique(self.epochs[stated], return_index=True)
        return dict(zip(epochs.tolist(), self.offsets[stated][first].tolist(), strict=True))

    def after(self, offset: int) -> int:
        """Return the offset of the next record above ``offset``; the log's end if there is none."""
        index = int(np.searchsorted(self.offsets, offset, side="right"))
        return int(self.offsets[index]) if index < len(self.offsets) else self.end

    @property
    def end(self) -> int:
        """The offset after the last record; 0 for an empty log."""
        return int(self.offsets[-1]) + 1 if len(self.offsets) else 0


@dataclass(frozen=True, kw_only=True)
class Trace(PartitionTrace):
    """All observations of one partition, each list in order of time.

    Attributes:
        partition: the partition's number.
        lines: each broker's log lines.
        disks: each broker's frozen replica.
        epoch_starts: the lowest observed offset of a record of each leader epoch.
    """

    partition: int
    lines: dict[int, list[BrokerLogLine]]
    disks: dict[int, FrozenReplica]
    starts: list[LeadershipStart] = field(default_factory=list)
    epoch_starts: dict[int, int] = field(default_factory=dict)

    @property
    def last_disk(self) -> FrozenReplica | None:
        """The frozen replica of the last leader; None if it is not known."""
        return self.disks.get(self.leaderships[-1].leader) if self.leaderships else None

    def sent_whole(self, broker: int, last: int) -> BrokerLogLine | None:
        """Return the truncation that led to the overlapping set that ends at ``last``, or None.

        Before 0.11, a leader sends a compressed set as a unit, even if the set begins before the
        fetch offset. A follower checks only the set's last offset (``Log.append`` of 0.10.2). Logs
        that forked have different sets, so the sets may overlap.
        """
        disk = self.disks.get(broker)
        if disk is None or last not in disk.overlapping:
            return None
        before = disk.offsets[disk.offsets < last]
        end = int(before[-1]) + 1 if len(before) else 0
        return self.cut_to(broker, end)

    def log_start(self, broker: int) -> int:
        """Return a replica's log start offset, if its broker logged that it moved (KIP-405).

        Local segments below that offset may still exist.
        """
        return max((line.offset for line in self.of_kind(broker, "log-start")), default=0)

    def cut_to(self, broker: int, offset: int) -> BrokerLogLine | None:
        """Return the truncation of a replica to an offset, which may be inside a batch, or None.

        A truncation inside a batch removes the complete batch from the file
        (``LogSegment.truncateTo``), but sets the LEO to the offset (``Log.truncateTo``). The next
        batch begins there, after a gap.
        """
        cuts = (line for line in self.of_kind(broker, "truncation") if line.offset == offset)
        return next(cuts, None)

    def older(self, broker: int, offset: int, epoch: int) -> bool:
        """Return whether a replica's record at an offset was written before a leader epoch."""
        disk = self.disks.get(broker)
        return disk is not None and 0 <= disk.epoch(offset) < epoch

    def was_eligible(self, before: Leadership, now: Leadership) -> bool:
        """Return whether the new leader may have been in the ISR when it was elected.

        This is possible if the last known ISR has the broker, or if a leader logged that the broker
        joined. It is also possible if the ISR at the election is not known. From an empty ISR the
        controller may elect an eligible replica (KIP-966).
        """
        offline = self.offline(now.epoch - 1)
        isr = offline.isr if offline else before.isr
        return (
            now.leader in isr
            or not isr
            or (offline is None and self._joined(now.leader, before, now))
            or not self.knows_isr(before, now)
        )

    def knows_isr(self, before: Leadership, now: Leadership) -> bool:
        """Return whether the ISR at an election was logged, or is the last observed ISR.

        It is not known after a decision of the controller that was not observed.
        """
        return self.offline(now.epoch - 1) is not None or not (
            now.epoch > before.epoch + 1 or self._decided_unobserved(now)
        )

    def offline(self, epoch: int) -> BrokerLogLine | None:
        """Return a ZooKeeper controller's line about the ISR in an epoch without a leader."""
        lines = (line for broker in self.lines for line in self.of_kind(broker, "offline"))
        return next((line for line in lines if line.epoch == epoch), None)

    def _decided_unobserved(self, now: Leadership) -> bool:
        """Return whether decisions before this election were neither logged nor observed.

        The partition epoch increases with each decision (KIP-497). A controller may add a replica
        to the ISR, and elect it, before the old leader knows the new ISR. The next observation then
        shows both decisions as one.
        """
        lines = [
            line
            for broker in self.lines
            for line in self.of_kind(broker, "leader", "follower", "isr")
            if line.partition_epoch >= 0
        ]
        begun = [line for line in lines if line.broker == now.leader and line.kind == "leader"]
        elected = max((a.partition_epoch for a in begun if a.epoch == now.epoch), default=-1)
        earlier = [line for line in lines if line.partition_epoch < elected]
        if not earlier:
            return False
        last = max(earlier, key=lambda line: (line.partition_epoch, -line.time_ns))
        # The same decision may be observed again, from another broker.
        decisions = [
            row
            for last_row, row in pairwise(self.leaderships)
            if (row.leader, row.epoch, {*row.isr})
            != (last_row.leader, last_row.epoch, {*last_row.isr})
        ]
        seen = sum(last.time_ns + WITHIN.look < row.time_ns <= now.time_ns for row in decisions)
        return elected - last.partition_epoch > seen

    def _joined(self, broker: int, before: Leadership, now: Leadership) -> bool:
        """Return whether a leader logged, between two leaderships, that a broker joined the ISR."""
        return any(
            before.time_ns - WITHIN.look <= line.time_ns <= now.time_ns + WITHIN.look
            and broker in line.isr
            for leader in self.lines
            for line in self.of_kind(leader, "isr")
        )

    def of_kind(self, broker: int, *kinds: str) -> list[BrokerLogLine]:
        """Return a broker's log lines whose kind is one of ``kinds``."""
        return [line for line in self.lines.get(broker, ()) if line.kind in kinds]


@dataclass(frozen=True, slots=True)
class ClientLogLine:
    """A line of a client's log."""

    time_ns: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTraces:
    """A run, with the traces of all its partitions.

    Attributes:
        ops: ``history/ops``, with decoded dictionaries.
        clients: log lines about requests that timed out or lost their connection, by client.
        divided: log lines about batches that a client divided because they were too large, by
            client.
        left_ns: for each producer that another producer replaced, the time of its last response.
        messages: requests that the relay delayed or repeated: the rows ``sent`` and ``repeated`` of
            ``events/messages``.
        refusals: the rows ``refused`` of ``events/messages``: the relay's errors to clients.
        late_answers: the responses between brokers that the relay delayed.
        suspects: the sends of the records in the run's anomalies, by record id.
        journal: the actions of group members, with their responses: rows of ``history/groups``.
        missing: the observations that the run lacks.
    """

    plan: Plan
    status: RunStatus
    software: SoftwareHistory
    faults: list[FaultInterval]
    traces: dict[int, Trace]
    ops: pa.Table
    clients: dict[str, list[ClientLogLine]] = field(default_factory=dict)
    divided: dict[str, list[ClientLogLine]] = field(default_factory=dict)
    left_ns: dict[str, int] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    late_answers: list[dict[str, Any]] = field(default_factory=list)
    suspects: dict[str, dict[str, Any]] = field(default_factory=dict)
    journal: list[dict[str, Any]] = field(default_factory=list)
    missing: frozenset[Observation] = frozenset()

    def lacks(self, *needed: Observation) -> bool:
        """Return whether the run lacks any of the ``needed`` observations."""
        return not self.missing.isdisjoint(needed)

    @property
    def scripted(self) -> Trace:
        """The trace of the partition that a story or a schedule of the model tests."""
        return self.traces[(self.plan.schedule or {}).get("partition", 0)]

    @property
    def topic(self) -> str:
        """The topic under test."""
        return self.plan.topic.name

    @property
    def elects_anybody(self) -> bool:
        """True if the settings, or an operator's command, may elect a broker from outside the ISR.

        Without a setting of the topic the controllers' settings decide, so the value is True.
        """
        steps = self.plan.schedule["steps"] if self.plan.schedule else ()
        by_hand = any(step.get("action") == "elect-unclean" for step in steps)
        topic = self.plan.topic
        left_open = UNCLEAN not in topic.settings()
        return topic.unclean_leader_election or left_open or by_hand

    def sends(self, **columns: str | int | None) -> pa.Table:
        """Return the send rows of the history with these values, as in ``sends(process="p0")``."""
        mask = pc.equal(self.ops["kind"], SEND)
        for name, value in columns.items():
            mask = pc.and_(mask, pc.equal(self.ops[name], value))
        return self.ops.filter(mask)

    def late(
        self, api: str, *, partition: int | None = None, source: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the requests of an API that the relay delayed and then sent, in order of time."""
        for row in self.messages:
            here = partition is None or (row["topic"], row["partition"]) == (self.topic, partition)
            if here and row["api"] == api and source in (None, row["source"]):
                yield row

    def removals(self, partition: int) -> Iterator[tuple[FaultInterval, range]]:
        """Yield each fault that removed records of a partition from a log, with their offsets."""
        for fault in self.faults:
            for offsets in fault.removed_from(self.topic, partition):
                yield fault, offsets

    def may_have_removed(self, partition: int) -> Iterator[FaultInterval]:
        """Yield each fault that removed records from its broker's log, or may have removed some.

        If an inventory's command kills a broker, the lost records are unknown, because the command
        may cut the machine's power.
        """
        yield from (fault for fault, offsets in self.removals(partition) if offsets)
        if self.plan.external is not None:
            yield from (fault for fault in self.faults if facts_of(fault.name).killed)

    def first_read(self, value: str) -> dict[str, Any] | None:
        """Return the first row in which a client read a record; None without one."""
        reads = pc.and_(pc.equal(self.ops["value"], value), pc.equal(self.ops["kind"], READ))
        rows = self.ops.filter(reads).to_pylist()
        return min(rows, key=lambda row: row["invoke_ns"], default=None)

    def suspect(self, values: Iterable[str]) -> None:
        """Look up the sends of some records in one pass, and add them to ``suspects``."""
        sends = self.sends()
        named = pc.is_in(sends["value"], pa.array(sorted(values), pa.string()))
        self.suspects.update((row["value"], row) for row in sends.filter(named).to_pylist())
