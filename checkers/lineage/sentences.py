"""Describes an anomaly in a few sentences: "Let R be …", "Then …", "However, …"."""

from collections.abc import Sequence
from typing import Final

from highwater.checkers.core.anomaly_kinds import (
    ABOVE,
    BELOW,
    CORRUPT,
    DIVERGENCE,
    DUPLICATE,
    LOST,
    VANISHED,
)
from highwater.checkers.lineage.evidence import Row
from highwater.checkers.lineage.remote_tier import gone_by_retention
from highwater.checkers.lineage.subject import Subject, where
from highwater.harness.base.wording import joined
from highwater.harness.runs.history import OK
from highwater.harness.runs.partition_trace import UNKNOWN, EndOffsetDrop, Leadership
from highwater.harness.runs.verdict import ACKNOWLEDGED


def sentence(row: Row, subject: Subject | None) -> str:
    """Return sentences that explain an anomaly of a record.

    Args:
        row: the anomaly, in columns of ``anomaly.ANOMALY``.
        subject: the anomaly's record with its evidence; None if no evidence was read.
    """
    if row["kind"] == DIVERGENCE:
        return _divergence(row)
    if row["kind"] == DUPLICATE:
        return _duplicate(row)
    if row["kind"] == CORRUPT:
        return _corrupt(row)
    if row["kind"] == VANISHED:
        return _vanished(row, subject)
    let_r_be = f"Let R be {row['value']}, {_acknowledged(row, subject)}."
    if row["kind"] == LOST:
        return " ".join([let_r_be, *_lost(row, subject)])
    return (
        f"{let_r_be} However, no reader reached R's offset, so the run does not show whether the "
        "log has R."
    )


def _acknowledged(row: Row, subject: Subject | None) -> str:
    acks = f"acknowledged with acks={row['acks']}" if row["acks"] else "acknowledged"
    name = where(row["topic"], row["partition"])
    at_offset = (
        f"at offset {row['offset']} of {name}" if row["offset"] is not None else f"in {name}"
    )
    if row["acks"] in ACKNOWLEDGED:
        return f"sent with acks={row['acks']}, which no broker acknowledges, {at_offset}"
    by = ""
    for send in subject.sends if subject else ():
        if send["outcome"] == OK and send["error"]:
            return (
                f"in a transaction committed {at_offset}, though its send had failed"
                f" ({send['error']})"
            )
        leader = subject.leader_of(send) if subject else None
        if send["outcome"] == OK and leader is not None and leader.leader >= 0:
            by = f" by broker {leader.leader}{_in_epoch(leader)}"
    return f"{acks} {at_offset}{by}"


def _vanished(row: Row, subject: Subject | None) -> str:
    place = f"offset {row['offset']} of {where(row['topic'], row['partition'])}"
    by = f" by {subject.reads[0]['process']}" if subject and subject.reads else ""
    parts = [f"Let R be {row['value']}, read{by} at {place}."]
    if subject is not None:
        parts += _cut(subject) + _succession(subject)
        if subject.others:
            parts.append(f"However, {subject.others[0]['value']} was read later at R's offset.")
    return " ".join(
        [*parts, "The final reader passed R's offset and did not receive R: R is gone."]
    )


def _lost(row: Row, subject: Subject | None) -> list[str]:
    parts = []
    if subject is not None:
        parts += _cut(subject) + _succession(subject) + _expired(subject)
        others = subject.others
        if others:
            parts.append(f"However, R's offset was given to {others[0]['value']}.")
    passed_r = "read the whole partition" if row["offset"] is None else "passed its offset"
    return [*parts, f"The final reader {passed_r} and did not receive R: R is lost."]


def _expired(subject: Subject) -> list[str]:
    """Return a list: a sentence if a broker's retention deleted the record, else no sentence."""
    gone = gone_by_retention(subject)
    for row in subject.evidence.log_lines:
        broker, kind = row["broker"], row["kind"]
        if kind in _DELETED and broker in gone and row["partition"] == subject.partition:
            deleted_by_retention = (
                f"Broker {broker} deleted the oldest segments{_DELETED[kind]} by retention"
            )
            moved = f"moved the beginning of the log after R, to offset {gone[broker]}"
            return [f"{deleted_by_retention}, and {moved}."]
    return []


_DELETED: Final = {"expired": " of the remote tier", "retention": ""}
"""The kinds of brokers' log lines about deleted segments. The value says where the segments
were."""


def _cut(subject: Subject) -> list[str]:
    gone = [cut for cut in subject.cuts if subject.taken_from(cut)]
    back = [cut for cut in subject.cuts if cut not in gone and subject.lost_while_down(cut)]
    cuts = [cut for cut in subject.cuts if cut not in (*gone, *back)]
    return _removed(gone) + _came_back(back) + (_by_themselves(subject, cuts) if cuts else [])


def _removed(gone: list[EndOffsetDrop]) -> list[str]:
    brokers = sorted({cut.broker for cut in gone})
    disks = "the disk of broker" if len(brokers) == 1 else "the disks of brokers"
    return [f"Then a fault removed R from {disks} {joined(map(str, brokers))}."] if gone else []


def _came_back(back: list[EndOffsetDrop]) -> list[str]:
    brokers = sorted({cut.broker for cut in back})
    broker_or_brokers = "broker" if len(brokers) == 1 else "brokers"
    return (
        [f"Then {broker_or_brokers} {joined(map(str, brokers))} came back without R."]
        if back
        else []
    )


def _by_themselves(subject: Subject, cuts: list[EndOffsetDrop]) -> list[str]:
    brokers = sorted({cut.broker for cut in cuts})
    first = cuts[0]
    with_old_hw = ""  # the broker's HW; the model explains by which rule it truncated
    if subject.offset is not None and UNKNOWN < first.hw <= subject.offset:
        with_old_hw = f", whose HW was still {first.hw},"
    if len(brokers) == 1:
        return [
            f"Then broker {first.broker}{with_old_hw} truncated its log to offset {first.after}."
        ]
    return [f"Then brokers {joined(map(str, brokers))} truncated their logs, and removed R."]


def _succession(subject: Subject) -> list[str]:
    elected = [change for change in subject.elections if change.leader >= 0]
    if not elected:
        return []
    last = elected[-1]
    lacked = any(cut.broker == last.leader for cut in subject.cuts)
    without = ", without R" if lacked else ""
    return [f"Then broker {last.leader} became leader{_in_epoch(last)}{without}."]


def _in_epoch(leadership: Leadership) -> str:
    return "" if leadership.epoch == UNKNOWN else f" in epoch {leadership.epoch}"


def _divergence(row: Row) -> str:
    place = f"offset {row['offset']} of {where(row['topic'], row['partition'])}"
    copies = row["copies"] or []
    holders: dict[tuple[str | None, int | None], list[str]] = {}
    for copy in copies:
        holders.setdefault((copy["value"], copy["leader_epoch"]), []).append(str(copy["broker"]))
    if len(holders) == 1:
        ((value, _), brokers) = next(iter(holders.items()))
        skips = (
            f"At {place} {_brokers_hold(brokers)} {value}, but another replica skips that offset."
        )
        return skips + _compared_with_hw(copies)
    clauses = [
        f"{_brokers_hold(brokers)} {value}" + ("" if epoch is None else f" of epoch {epoch}")
        for (value, epoch), brokers in holders.items()
    ]
    copies_by_broker = ", however ".join(clauses)
    return (
        f"At {place} {copies_by_broker}: readers get the record of the current leader."
        f"{_compared_with_hw(copies)}"
    )


def _compared_with_hw(copies: Sequence[Row]) -> str:
    """Return a sentence that compares the offset with the brokers' checkpointed HWs."""
    notes = [(copy["broker"], copy.get("note") or "") for copy in copies]
    above = [(broker, note) for broker, note in notes if note.startswith(ABOVE)]
    if above:
        brokers = [f"broker {broker} ({note.removeprefix(ABOVE)})" for broker, note in above]
        return f" This offset is not below the HW that {joined(brokers)} had last checkpointed."
    if notes and all(note.startswith(BELOW) for _, note in notes):
        return (
            " This offset is below the HW of every replica that holds it: no replica will "
            "truncate it."
        )
    return ""


def _duplicate(row: Row) -> str:
    places = [
        f"offset {copy['offset']} of {where(row['topic'], copy['partition'])}"
        for copy in row["copies"]
    ]
    return f"Let R be {row['value']}, sent once. The final reader read R at {joined(places)}."


def _corrupt(row: Row) -> str:
    copy = row["copies"][0]
    folder = f"{copy['broker']}/{where(row['topic'], row['partition'])}"
    return f"The disk of broker {copy['broker']} cannot be read in {folder}/{copy['note']}."


def _brokers_hold(ids: Sequence[str]) -> str:
    return f"broker {ids[0]} holds" if len(ids) == 1 else f"brokers {joined(ids)} hold"
