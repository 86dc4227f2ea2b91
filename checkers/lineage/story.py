"""Collects the evidence for a lost or duplicated record, in order of time."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from highwater.checkers.core.anomaly_kinds import CORRUPT, LOST, UNSEEN, VANISHED
from highwater.checkers.lineage.evidence import Row
from highwater.checkers.lineage.remote_tier import copies, log_starts, retention
from highwater.checkers.lineage.subject import NEVER, Subject, where
from highwater.harness.runs.history import FINAL, INFO, OK
from highwater.harness.runs.partition_trace import UNKNOWN, Leadership
from highwater.harness.runs.verdict import ACKNOWLEDGED, Witness

_FAULTS_MAX: Final = 12
"""The greatest number of faults in a record's evidence. If a run has more faults, the evidence has
only the first and the last faults."""

_NO_VALUE: Final = "a record without a value"

_OPS, _LEADERS, _REPLICAS = "history/ops", "events/partitions", "events/replicas"
_FAULTS, _LINES, _DISKS = "events/faults", "events/log_lines", "replicas"


def witnesses(subject: Subject) -> tuple[Witness, ...]:
    """Return all evidence about an anomaly in order of time. Evidence from disks comes last."""
    evidence = [
        *_sent(subject),
        *_acknowledged(subject),
        *_copies(subject),
        *_faults(subject),
        *_truncated(subject),
        *retention(subject),
        *_elected(subject),
        *_replaced(subject),
        *_read(subject),
        *_passed(subject),
    ]
    evidence.sort(key=lambda witness: NEVER if witness.time_ns is None else witness.time_ns)
    return (*evidence, *_disks(subject), *copies(subject))


def _sent(subject: Subject) -> Iterator[Witness]:
    for row in subject.sends:
        acks = f" with acks={row['acks']}" if row["acks"] else ""
        yield Witness(
            who=row["process"],
            what="sent",
            time_ns=row["invoke_ns"],
            says=f"{row['process']} sent {subject.value}{acks}.",
            source=_OPS,
        )


def _unacknowledged(row: Row) -> str:
    """Return the outcome of an unacknowledged send. A failed send without an error was aborted."""
    if row["outcome"] != INFO and row["error"] is None:
        return ": its transaction was aborted"
    outcome = (
        "the run does not show whether it was written" if row["outcome"] == INFO else "refused"
    )
    return f" ({row['error']}): {outcome}"


def _acknowledged(subject: Subject) -> Iterator[Witness]:
    for row in subject.sends:
        if row["outcome"] != OK:
            outcome = _unacknowledged(row)
            says = f"{subject.value} was not acknowledged{outcome}."
            yield _by_client(row, row["outcome"], says)
            continue
        if row["acks"] in ACKNOWLEDGED:
            says = f"{subject.value} {ACKNOWLEDGED[row['acks']]}; no broker acknowledges it."
            yield _by_client(row, "sent", says)
            continue
        if row["error"]:
            send_failed = f"The send of {subject.value} failed ({row['error']})"
            yield _by_client(row, "committed", f"{send_failed}, and its transaction was committed.")
            continue
        at = "" if row["offset"] is None else f" at offset {row['offset']}"
        says = f"acknowledged {subject.value}{at}."
        yield _answer(subject, row, "acknowledged", says, title=", the leader,")


def _by_client(row: Row, what: str, says: str) -> Witness:
    return Witness(
        who=row["process"], what=what, time_ns=row["complete_ns"], says=says, source=_OPS
    )


def _answer(subject: Subject, row: Row, what: str, says: str, *, title: str = "") -> Witness:
    """Return the response to a send, with the leader at that time if a leader was observed."""
    leader = subject.leader_of(row)
    by = "The cluster" if leader is None else f"Broker {leader.leader}{title}"
    return Witness(
        who="cluster" if leader is None else f"broker {leader.leader}",
        broker=None if leader is None else leader.leader,
        what=what,
        time_ns=row["complete_ns"],
        leader_epoch=_epoch(row, leader),
        says=f"{by} {says}",
        source=_OPS,
    )


def _of_broker(broker: int, what: str, time_ns: int | None, says: str, source: str) -> Witness:
    who = f"broker {broker}"
    return Witness(who=who, broker=broker, what=what, time_ns=time_ns, says=says, source=source)


def _copies(subject: Subject) -> Iterator[Witness]:
    """Yield evidence about each replica that had the record, and about the replica's HW."""
    if subject.kind == CORRUPT:
        return
    for track in subject.holders:
        assert subject.offset is not None
        learned = np.flatnonzero(track.hw > subject.offset)
        first_hw, last_hw = track.hw[[0, -1]].tolist()
        says = f"Broker {track.broker} held offset {subject.offset} (LEO {track.leo[0]})"
        if not len(learned):
            says += (
                f" above its HW, which was still {last_hw}: the broker did not know that the "
                "record was committed."
            )
        elif learned[0] == 0:
            says += f" and knew it as committed (HW {first_hw})."
        else:
            passed = _clock(int(track.time_ns[learned[0]]))
            says += f" above its HW {first_hw}; its HW passed it at {passed}."
        yield _of_broker(track.broker, "held", int(track.time_ns[0]), says, _REPLICAS)


def _faults(subject: Subject) -> Iterator[Witness]:
    rows = [
        row
        for row in subject.evidence.faults
        if subject.began_ns <= row["time_ns"] <= subject.ended_ns
    ]
    half = _FAULTS_MAX // 2
    faults = rows if len(rows) <= _FAULTS_MAX else [*rows[:half], *rows[-half:]]
    for row in faults:
        yield Witness(
            who="nemesis",
            broker=row["broker"],
            what="healed" if row["phase"] == "heal" else row["fault"],
            time_ns=row["time_ns"],
            says=_sentence(row["says"]),
            source=_FAULTS,
        )


def _truncated(subject: Subject) -> Iterator[Witness]:
    for cut in subject.cuts:
        if subject.taken_from(cut):
            what, says = "taken", f"came back with LEO {cut.after}, which had been {cut.before}:"
            says += " the fault had removed the rest."
        elif subject.lost_while_down(cut):
            what, says = "shorter", f"came back with LEO {cut.after}, which had been {cut.before}."
        else:
            what, says = "truncated", f"truncated its log: LEO {cut.before} became {cut.after}."
            says += f" Its HW had been {cut.hw}." if UNKNOWN < cut.hw <= cut.after else ""
        says = f"Broker {cut.broker} {says}"
        yield _of_broker(cut.broker, what, cut.time_ns, says, _REPLICAS)
    for row in subject.evidence.log_lines:
        broker, offset, time_ns = row["broker"], row["offset"], row["time_ns"]
        if row["kind"] != "truncation" or row["partition"] != subject.partition:
            continue
        if offset is None or subject.offset is None:
            continue
        if offset <= subject.offset and subject.began_ns <= (time_ns or 0) <= subject.ended_ns:
            says = f"Broker {broker} logged: “{row['line'].strip()}”"
            yield _of_broker(broker, "truncated", time_ns, says, _LINES)


def _elected(subject: Subject) -> Iterator[Witness]:
    for now in subject.elections:
        epoch = "" if now.epoch == UNKNOWN else f" in epoch {now.epoch}"
        isr = ", ".join(map(str, now.isr))
        if now.leader < 0:
            says = f"The partition has no leader{epoch}; ISR [{isr}]."
        else:
            says = f"Broker {now.leader} became leader{epoch}, ISR [{isr}]."
        yield Witness(
            who="controller",
            broker=now.leader if now.leader >= 0 else None,
            what="elected",
            time_ns=now.time_ns,
            leader_epoch=None if now.epoch == UNKNOWN else now.epoch,
            says=says,
            source=_LEADERS,
        )


def _replaced(subject: Subject) -> Iterator[Witness]:
    for row in () if subject.kind == VANISHED else subject.others:
        says = f"acknowledged another record, {row['value']}, at the same offset {row['offset']}."
        yield _answer(subject, row, "replaced", says)


def _read(subject: Subject) -> Iterator[Witness]:
    for row in subject.reads:
        reader = "The final reader" if row["phase"] == FINAL else row["process"]
        same = subject.value in (None, row["value"])
        not_this_record = "" if same else f", and not {subject.value},"
        yield Witness(
            who=row["process"],
            what="read",
            time_ns=row["complete_ns"],
            says=f"{reader} read {row['value']}{not_this_record} at offset {row['offset']} of"
            f" {where(row['topic'], row['partition'])}.",
            source=_OPS,
        )


def _passed(subject: Subject) -> Iterator[Witness]:
    if subject.kind not in (LOST, UNSEEN, VANISHED):
        return
    topic = subject.evidence.topic
    if subject.partition is None:
        yield _reader(f"The final reader read all of {topic} and did not receive {subject.value}.")
        return
    name = where(topic, subject.partition)
    reach = subject.evidence.reach.get(subject.partition)
    if reach is None:
        yield _reader(f"The final reader read nothing of {name}.")
    elif subject.kind == UNSEEN:
        yield _reader(f"The final reader reached offset {reach.last} of {name} and no further.")
    else:
        yield _reader(
            f"The final reader reached offset {reach.last} of {name} and did not receive"
            f" {subject.value}."
        )


def _reader(says: str) -> Witness:
    return Witness(who="reader", what="passed", says=says, source=_OPS)


def _disks(subject: Subject) -> Iterator[Witness]:
    if subject.offset is None or subject.partition is None or subject.kind == CORRUPT:
        return
    place = f"offset {subject.offset}"
    disk_copies = subject.evidence.disk.get((subject.partition, subject.offset), [])
    began = log_starts(subject)
    for end in sorted(subject.evidence.ends, key=lambda end: end.broker):
        if end.partition != subject.partition:
            continue
        copies_there = [copy for copy in disk_copies if copy[0] == end.broker]
        for broker, epoch, value in copies_there or [(end.broker, None, None)]:
            record = value or _NO_VALUE
            written_in_epoch = "" if epoch is None else f", written in epoch {epoch}"
            if copies_there and began.get(broker, 0) > subject.offset:
                says = f"The disk of broker {broker} holds {record} at {place}"
                says += f"{written_in_epoch}, but its log"
                says += f" begins at {began[broker]}: the record cannot be read."
            elif copies_there:
                says = f"The disk of broker {broker} holds {record} at {place}{written_in_epoch}."
            elif end.last is None or end.last < subject.offset:
                says = f"The disk of broker {broker} ends before {place}."
            else:
                says = f"The disk of broker {broker} holds no record at {place}."
            yield Witness(
                who=f"broker {broker}",
                broker=broker,
                what="disk",
                leader_epoch=epoch,
                says=says,
                source=f"{_DISKS}/{broker}/{where(end.topic, end.partition)}",
            )


def _epoch(row: Row, leader: Leadership | None) -> int | None:
    if row["leader_epoch"] is not None:
        return int(row["leader_epoch"])
    return None if leader is None or leader.epoch == UNKNOWN else leader.epoch


def _clock(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3f} s"


def _sentence(words: str) -> str:
    words = words.strip()
    first = words.split(" ", 1)[0]
    capitalised = (
        words[:1].upper() + words[1:] if first.isalpha() else words
    )  # a word with a digit, such as m4, is a name
    return capitalised if capitalised.endswith((".", "!", "?")) else f"{capitalised}."
