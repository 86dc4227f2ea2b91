"""Evidence about retention, and about the records of the remote tier (KIP-405)."""

import re
from collections.abc import Iterator
from typing import Final

from highwater.checkers.lineage.subject import Subject
from highwater.harness.runs.store import REMOTE_TIER
from highwater.harness.runs.verdict import Witness

_STAMP: Final = re.compile(r"^\S+ [A-Z]+ ")
_LOG_DIR: Final = re.compile(r", dir=[^\]]*")


def log_starts(subject: Subject) -> dict[int, int]:
    """Return the log start offset of each broker whose log says that this offset increased."""
    starts: dict[int, int] = {}
    for row in subject.evidence.log_lines:
        if row["kind"] == "log-start" and row["partition"] == subject.partition:
            starts[row["broker"]] = max(row["offset"], starts.get(row["broker"], 0))
    return starts


def gone_by_retention(subject: Subject) -> dict[int, int]:
    """Return the log start offset of each broker whose log begins after the record."""
    if subject.offset is None:
        return {}
    return {b: start for b, start in log_starts(subject).items() if start > subject.offset}


def retention(subject: Subject) -> Iterator[Witness]:
    """Yield brokers' log lines about retention, if retention deleted the record."""
    if not gone_by_retention(subject):
        return
    for row in subject.evidence.log_lines:
        if (
            row["kind"] not in ("expired", "retention", "log-start")
            or row["partition"] != subject.partition
        ):
            continue
        if (row["time_ns"] or 0) >= subject.began_ns:
            line = _STAMP.sub("", _LOG_DIR.sub("", row["line"].strip()))
            yield Witness(
                who=f"broker {row['broker']}",
                broker=row["broker"],
                what=row["kind"],
                time_ns=row["time_ns"],
                says=f"Broker {row['broker']} logged: “{line}”",
                source="events/log_lines",
            )


def copies(subject: Subject) -> Iterator[Witness]:
    """Yield the remote tier's record at the anomaly's offset, if the topic has a remote tier."""
    if subject.offset is None or subject.partition is None or subject.evidence.remote is None:
        return
    values = subject.evidence.remote.get((subject.partition, subject.offset), [])
    for value in dict.fromkeys(values) or (None,):
        holds_record = f"holds {value}" if value else "holds no record"
        yield Witness(
            who="remote tier",
            what="disk",
            says=f"The remote tier {holds_record} at offset {subject.offset}.",
            source=REMOTE_TIER,
        )
