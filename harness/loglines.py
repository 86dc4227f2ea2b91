"""The lines of a broker's log that matter to replication, as rows of ``events/log_lines``."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

_PARTITION: Final = r"\[?(?P<topic>[\w.-]+)[,-](?P<partition>\d+)\]?"
"""``[events,0]`` as old brokers write it, ``events-0`` as all others do."""

_PATTERNS: Final = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        # 0.10 to 0.11, then 1.0 and later: Log.truncateTo
        ("truncation", rf"Truncating log {_PARTITION} to offset (?P<offset>\d+)"),
        ("truncation", rf"Log partition={_PARTITION}[,\]].* Truncating to offset (?P<offset>\d+)"),
        ("kept", rf"Truncating {_PARTITION} to (?P<offset>\d+) has no effect"),
        ("kept", rf"Log partition={_PARTITION}[,\]].* Truncating to (?P<offset>\d+) has no effect"),
        # 0.11: ReplicaFetcherThread.maybeTruncate, then AbstractFetcherThread
        ("follower", rf"leader replied with an .*offset.* in {_PARTITION}"),
        ("follower", rf"Truncating partition {_PARTITION} with TruncationState"),
        ("follower", rf"Follower {_PARTITION} starts at leader epoch"),
        ("leader", rf"Leader {_PARTITION} .*starts at leader epoch"),
        ("leader", rf"{_PARTITION} starts at [Ll]eader [Ee]poch"),
        ("election", rf"Selected new leader .* for offline partition {_PARTITION}"),
        (
            "isr",
            rf"Partition {_PARTITION} (?:on broker \d+: |broker=\d+\] )(?:Shrinking|Expanding) ISR",
        ),
        ("isr", rf"Partition {_PARTITION} broker=\d+\] ISR updated to"),
        (
            "start",
            r"\[Kafka Server \d+\], started|KafkaServer id=\d+\] started|Kafka Server started",
        ),
        ("error", r"\b(?:FATAL|ERROR)\b"),
    )
)
"""Kind and pattern, 0.10 to 4.x; the first that matches a line names it."""

_STAMP: Final = re.compile(r"^\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3})([+-]\d{2}:?\d{2}|Z)?")

LINE_MAX: Final = 500
LINES_MAX: Final = 20_000
"""Characters of a line, and lines of a broker: one in a loop of errors must not flood the run."""


def log_lines(logs: Path, topic: str, *, started_at_ns: int) -> Iterator[dict[str, object]]:
    """The lines that matter of every ``broker-<id>.log`` below ``logs``.

    Args:
        topic: lines about other topics are left out.
        started_at_ns: wall clock at time 0 of the history, nanoseconds since the epoch.
    """
    for path in sorted(logs.glob("broker-*.log")):
        broker = int(path.stem.removeprefix("broker-"))
        taken = 0
        with path.open(encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                row = _row(line, topic, broker, started_at_ns)
                if row is not None:
                    yield row
                    taken += 1
                    if taken >= LINES_MAX:
                        break


def _row(line: str, topic: str, broker: int, started_at_ns: int) -> dict[str, object] | None:
    stamp = _STAMP.match(line)
    if stamp is None:
        return None
    for kind, pattern in _PATTERNS:
        found = pattern.search(line)
        if found is None:
            continue
        parts = found.groupdict()
        if parts.get("topic") not in (None, topic):
            return None
        partition, offset = parts.get("partition"), parts.get("offset")
        return {
            "time_ns": _nanoseconds(stamp) - started_at_ns,
            "broker": broker,
            "kind": kind,
            "topic": parts.get("topic"),
            "partition": None if partition is None else int(partition),
            "offset": None if offset is None else int(offset),
            "line": line.strip()[:LINE_MAX],
        }
    return None


def _nanoseconds(stamp: re.Match[str]) -> int:
    text = stamp[1].replace(",", ".").replace(" ", "T") + (stamp[2] or "+00:00")
    moment = datetime.fromisoformat(text)
    return round(moment.timestamp() * 1000) * 1_000_000
