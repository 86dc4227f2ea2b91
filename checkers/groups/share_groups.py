"""Check the guarantees of share groups (KIP-932) with their members' journals.

- ``two-holders``: a record was delivered to a member while another member had acquired it. A member
  has a record until it acknowledges the record or ends, or until the record's lock expires. Only
  the broker knows when a lock began. But a lock cannot begin before the record was sent, or before
  the previous member released the record. So the next member must receive the record at least one
  lock duration after that time. There are two other signs: the delivery count does not increase, or
  the broker accepts an acknowledgement after another member got the lock. A fault may explain this
  anomaly (``disturbances``), because only the leader's memory has the locks.
- ``acknowledged-again``: a member had accepted or rejected a record, and the broker confirmed it.
  Later another member received the record, with a greater delivery count. No fault explains this
  anomaly, because the state is replicated before the response (``__share_group_state``).
- ``over-delivered``: the broker returned a delivery count greater than the limit.
- ``never-given``: a record is in the log, but no member received it, although the members polled
  until they got no record for 30 s (``highwater.runtime.workload``).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always, if_acknowledged_is_kept, if_committed_is_kept
from highwater.checkers.groups.disturbances import Disturbances
from highwater.checkers.groups.events import (
    FOREVER,
    GroupFinding,
    Row,
    anomalies,
    ended_ns,
    in_words,
)
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.releases.group_protocols import DELIVERIES_MOST, LOCK_S
from highwater.harness.runs.history import FENCE, FINAL, OK, OPERATIONS_TABLE, READ, SEND

TWO_HOLDERS: Final = "two-holders"
ACKNOWLEDGED_AGAIN: Final = "acknowledged-again"
OVER_DELIVERED: Final = "over-delivered"
NEVER_GIVEN: Final = "never-given"

_ANSWERS: Final = frozenset(("accept", "release", "reject"))
_FINAL_ANSWERS: Final = frozenset(("accept", "reject"))

Record = tuple[int, int]
"""A partition and an offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLog:
    """The facts about records that the history shows, without the members' journals.

    Attributes:
        sent: the begin of each record's acknowledged send, in ns.
        there: the sent records that the final read returned.
        disturbances: intervals in which a fault may release the records that members have acquired.
        lock_s: the time for which a record is locked for a member.
    """

    sent: Mapping[Record, int]
    there: AbstractSet[Record]
    disturbances: Disturbances
    lock_s: float = LOCK_S

    @property
    def lock_ns(self) -> int:
        """The time in nanoseconds for which a record is locked for a member."""
        return int(self.lock_s * 1e9)


@dataclass(slots=True)
class _Deliveries:
    """The deliveries of one record in one group, and the members' acknowledgements.

    Attributes:
        given: the deliveries, in the order in which polls returned them.
        answers: the members' acknowledgements.
    """

    given: list[Row] = field(default_factory=list)
    answers: list[Row] = field(default_factory=list)


def no_share_group(_tables: Tables, case: RunFiles) -> str:
    """Return why a checker of share groups has nothing to judge in a run."""
    return "" if case.plan.workload.share else "there is no share group"


@checker(
    Kind(
        TWO_HOLDERS,
        guarantee="Only one member of a share group has acquired a record at a time.",
        singular="record of a share group was acquired by two members at a time",
        plural="records of a share group were acquired by two members at a time",
        severity=Severity.SERIOUS,
        promise="exclusion: a record is locked for the member that acquired it (KIP-932)",
        breaks=always,
        says=in_words,
    ),
    Kind(
        ACKNOWLEDGED_AGAIN,
        guarantee="If a response confirms that a member of a share group accepted or rejected a "
        "record, the record is not delivered again.",
        singular="record of a share group was delivered again after it was acknowledged",
        plural="records of a share group were delivered again after they were acknowledged",
        severity=Severity.SERIOUS,
        promise="durability: an acknowledgement is replicated before its response (KIP-932)",
        breaks=if_committed_is_kept,
        says=in_words,
    ),
    Kind(
        OVER_DELIVERED,
        guarantee="No record of a share group is delivered more often than its limit.",
        singular="record of a share group was delivered too often",
        plural="records of a share group were delivered too often",
        severity=Severity.SERIOUS,
        promise="limit: group.share.delivery.count.limit (KIP-932)",
        breaks=always,
        says=in_words,
    ),
    Kind(
        NEVER_GIVEN,
        guarantee="Every acknowledged record is delivered to a member of a share group.",
        singular="acknowledged record was never delivered to a share group, which waited for it",
        plural="acknowledged records were never delivered to a share group, which waited for them",
        severity=Severity.CRITICAL,
        promise="at least once: a share group receives every record (KIP-932)",
        breaks=if_acknowledged_is_kept,
        says=in_words,
        absence=True,
    ),
    idle=no_share_group,
)
def share_groups(tables: Tables) -> pa.Table:
    """Return the wrong and the missing deliveries of records to members of share groups."""
    return anomalies(tables, _of_run)


def _of_run(case: RunFiles, rows: list[Row]) -> Iterator[GroupFinding]:
    if case.plan.workload.share:
        yield from wrongly_shared(rows, share_log(case))


def share_log(case: RunFiles) -> ShareLog:
    """Return the facts about records from a run's history."""
    sent: dict[Record, int] = {}
    there: set[Record] = set()
    if OPERATIONS_TABLE in case.tables:
        names = ["kind", "outcome", "phase", "process", "partition", "offset", "value", "invoke_ns"]
        table = pq.read_table(case.tables[OPERATIONS_TABLE], columns=names)
        table = table.filter(pc.and_(pc.equal(table["outcome"], OK), pc.is_valid(table["offset"])))
        is_send = pc.and_(pc.equal(table["kind"], SEND), pc.not_equal(table["process"], FENCE))
        is_read = pc.and_(pc.equal(table["kind"], READ), pc.equal(table["phase"], FINAL))
        values = {}
        for partition, offset, value, begun in _rows(table.filter(is_send)):
            sent[partition, offset] = begun
            values[partition, offset] = value
        there = {
            (partition, offset)
            for partition, offset, value, _ in _rows(table.filter(is_read))
            if values.get((partition, offset)) == value
        }
    return ShareLog(
        sent=sent,
        there=there,
        disturbances=Disturbances.of(case),
        lock_s=case.plan.lock_s,
    )


def _rows(table: pa.Table) -> Iterator[tuple[int, int, str, int]]:
    columns = ("partition", "offset", "value", "invoke_ns")
    yield from zip(*(table[name].to_pylist() for name in columns), strict=True)


def wrongly_shared(rows: Iterable[Row], log: ShareLog) -> Iterator[GroupFinding]:
    """Yield the anomalies of each share group."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["group"]].append(row)
    for group, of_group in sorted(groups.items()):
        records: dict[Record, _Deliveries] = defaultdict(_Deliveries)
        for row in sorted(of_group, key=ended_ns):
            record = records[row["partition"], row["offset"]]
            if row["event"] == "acquired":
                record.given.append(row)
            elif row["event"] in _ANSWERS:
                record.answers.append(row)
        ends = {
            row["process"]: int(row["invoke_ns"]) for row in of_group if row["event"] == "ended"
        }
        for place, record in sorted(item for item in records.items() if item[1].given):
            yield from _of_record(group, place, record, ends, log)
        if any(row["event"] == "drained" for row in of_group):
            yield from _withheld(group, log.there - _given(records))


def _given(records: Mapping[Record, _Deliveries]) -> set[Record]:
    return {place for place, record in records.items() if record.given}


def _withheld(group: str, records: AbstractSet[Record]) -> Iterator[GroupFinding]:
    for partition, offset in sorted(records):
        yield GroupFinding(
            kind=NEVER_GIVEN,
            group=group,
            partition=partition,
            offset=offset,
            says=f"The record at offset {offset} of partition {partition} was acknowledged and "
            f"is in the log. Group {group} waited for it, but no member ever received it.",
        )


def _of_record(
    group: str, place: Record, record: _Deliveries, ends: Mapping[str, int], log: ShareLog
) -> Iterator[GroupFinding]:
    partition, offset = place
    where = f"offset {offset} of partition {partition}"
    counts = [row["deliveries"] for row in record.given if row["deliveries"] is not None]
    says = {
        TWO_HOLDERS: _held_twice(place, record, ends, log),
        ACKNOWLEDGED_AGAIN: _again(record),
        OVER_DELIVERED: f"{{where}} was delivered for the {max(counts)}th time, but the limit is "
        f"{DELIVERIES_MOST}."
        if max(counts, default=0) > DELIVERIES_MOST
        else "",
    }
    for kind, sentence in says.items():
        if sentence:
            yield GroupFinding(
                kind=kind,
                group=group,
                partition=partition,
                offset=offset,
                says=f"Group {group}: {sentence.format(where=where)}",
            )


def _again(record: _Deliveries) -> str:
    """Return a sentence if another member got an acknowledged record; else empty text.

    A later delivery to the same member is ignored: the broker may have sent it before the
    acknowledgement.
    """
    for answer in record.answers:
        if answer["event"] not in _FINAL_ANSWERS or answer["outcome"] != OK:
            continue
        for row in record.given:
            later = row["process"] != answer["process"] and row["invoke_ns"] > ended_ns(answer)
            count = row["deliveries"]
            if later and count is not None and count > (answer["deliveries"] or FOREVER):
                return (
                    f"{answer['process']} acknowledged ({answer['event']}) {{where}}, delivery "
                    f"{answer['deliveries']}, and got a response. Later {row['process']} "
                    f"received it as delivery {count}."
                )
    return ""


def _held_twice(place: Record, record: _Deliveries, ends: Mapping[str, int], log: ShareLog) -> str:
    """Return a sentence if two members had acquired the record at one time; else empty text."""
    since_ns = log.sent.get(place)
    for holder, taker in pairwise(record.given):
        if since_ns is None:
            return ""
        taken_ns = ended_ns(taker)
        disturbed = log.disturbances.touch(since_ns, taken_ns)
        left_ns = _left_ns(holder, record.answers, ends)
        if not disturbed and left_ns >= taken_ns and taken_ns < since_ns + log.lock_ns:
            return (
                f"{holder['process']} had acquired {{where}} and had not acknowledged it. "
                f"{taker['process']} received it {(taken_ns - since_ns) / 1e9:.2f} s after a "
                f"lock could begin, but a lock lasts {log.lock_s:g} s."
            )
        if not disturbed and _same_delivery(holder, taker, ends):
            return (
                f"{holder['process']} and {taker['process']} both received {{where}} as delivery "
                f"{taker['deliveries']}."
            )
        expired_ns = since_ns if disturbed else since_ns + log.lock_ns
        if left_ns < taken_ns:
            since_ns = max(since_ns, left_ns)
            continue
        if not disturbed and _taken_late(holder, taker, record, ends, expired_ns + log.lock_ns):
            return (
                f"{taker['process']} had acquired {{where}}, because the lock of "
                f"{holder['process']} had expired. Then {holder['process']} acknowledged it, and "
                "the broker accepted this."
            )
        since_ns = expired_ns
    return ""


def _left_ns(holder: Row, answers: Sequence[Row], ends: Mapping[str, int]) -> int:
    """Return when a member may first have released a record; ``FOREVER`` if it never did."""
    process, given_ns = holder["process"], ended_ns(holder)
    answered = [
        int(row["invoke_ns"])
        for row in answers
        if row["process"] == process and row["invoke_ns"] >= given_ns
    ]
    return min([*answered, ends.get(process, FOREVER)])


def _same_delivery(holder: Row, taker: Row, ends: Mapping[str, int]) -> bool:
    """Return whether two deliveries have the same delivery count, and no member left between."""
    if holder["deliveries"] is None or holder["deliveries"] != taker["deliveries"]:
        return False
    return not any(holder["invoke_ns"] <= end <= ended_ns(taker) for end in ends.values())


def _taken_late(
    holder: Row, taker: Row, record: _Deliveries, ends: Mapping[str, int], until_ns: int
) -> bool:
    """Return whether the broker accepted ``holder``'s acknowledgement after the next delivery.

    ``until_ns`` is the earliest time at which the lock of ``taker`` can expire.
    """
    other_ns = min(until_ns, _left_ns(taker, record.answers, ends))
    return any(
        row["process"] == holder["process"]
        and row["outcome"] == OK
        and row["invoke_ns"] > ended_ns(taker)
        and ended_ns(row) < other_ns
        for row in record.answers
        if holder["process"] != taker["process"]
    )
