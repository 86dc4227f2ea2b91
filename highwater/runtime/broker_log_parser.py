"""Parse lines about replication in brokers' logs, as rows of the table ``events/log_lines``."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from highwater.clusters.nodes.broker_clock import ClockJournal
from highwater.harness.releases.cluster_facts import POSITIONS
from highwater.harness.runs.faults.clock_notes import clock_note

_PARTITION: Final = r"\[?(?P<topic>[\w.-]+)[,-](?P<partition>\d+)\]?"
"""A pattern for a partition's name: ``[events,0]`` in logs of old brokers, ``events-0`` in others.
"""

_OFFSET: Final = r"(?P<offset>\d+)"

_PATTERNS: Final = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        # 0.10 to 0.11, then 1.0 and later: Log.truncateTo
        ("truncation", rf"Truncating log {_PARTITION} to offset (?P<offset>\d+)"),
        ("truncation", rf"Log partition={_PARTITION}[,\]].* Truncating to offset (?P<offset>\d+)"),
        ("kept", rf"Truncating {_PARTITION} to (?P<offset>\d+) has no effect"),
        ("kept", rf"Log partition={_PARTITION}[,\]].* Truncating to (?P<offset>\d+) has no effect"),
        # 0.11: ReplicaFetcherThread.maybeTruncate, then AbstractFetcherThread
        (
            "answer",
            (
                rf"replied with an unknown offset in {_PARTITION}\."
                rf"(?: High watermark| The initial fetch offset) {_OFFSET}"
            ),
        ),
        ("answer", rf"replied with an offset (?P<offset>\d+) .* in {_PARTITION}\. No truncation"),
        ("answer", rf"Truncating partition {_PARTITION} with TruncationState\(offset={_OFFSET}"),
        ("answer", rf"Truncating partition {_PARTITION} to local high watermark {_OFFSET}"),
        # ReplicaFetcherThread.handleOffsetOutOfRange, then AbstractFetcherThread
        ("range", rf"partition {_PARTITION} reset its fetch offset from \d+ to .* {_OFFSET}\b"),
        ("range", rf"Reset fetch offset for partition {_PARTITION} from \d+ to .* {_OFFSET}\b"),
        ("follower", rf"Follower {_PARTITION} .*starts at leader epoch \d+ from offset {_OFFSET}"),
        ("leader", rf"Leader {_PARTITION} .*starts at leader epoch \d+ from offset {_OFFSET}"),
        ("leader", rf"{_PARTITION} starts at [Ll]eader [Ee]poch \d+ from offset {_OFFSET}"),
        # RemoteLogManager, since 3.6: retention in the remote tier, and copies (KIP-405)
        (
            "expired",
            (
                rf"RemoteLogManager=\d+ partition=[\w-]+:{_PARTITION} About to delete remote log"
                r" segment .* due to retention"
            ),
        ),
        (
            "copying",
            (
                rf"RemoteLogManager=\d+ partition=[\w-]+:{_PARTITION} Copying 0*{_OFFSET}\.log to"
                r" remote storage"
            ),
        ),
        (
            "copied",
            (
                rf"RemoteLogManager=\d+ partition=[\w-]+:{_PARTITION} Copied 0*{_OFFSET}\.log to"
                r" remote storage"
            ),
        ),
        (
            "remote-start",
            rf"Found the logStartOffset: {_OFFSET} for partition: [\w-]+:{_PARTITION}",
        ),
        # RetentionMsBreach, since 2.6; before it Log.deleteOldSegments
        (
            "retention",
            (
                rf"partition={_PARTITION}, .*Deleting segment LogSegment\(baseOffset={_OFFSET},"
                r" .* due to (?:log )?retention time \d+ms breach"
            ),
        ),
        (
            "retention",
            (
                rf"partition={_PARTITION}, .*Found deletable segments with base offsets"
                rf" \[{_OFFSET}\b.* due to retention time \d+ms breach"
            ),
        ),
        (
            "log-start",
            rf"partition={_PARTITION}, .*Increment(?:ed|ing) log start offset to {_OFFSET}\b",
        ),
        ("log-start", rf"Incrementing log start offset of partition {_PARTITION} to {_OFFSET} in"),
        # LogManager.recoverAbandonedFutureLogs, since 3.7.1: the end of the copy
        (
            "replaced-by-copy",
            (
                rf"recover abandoned future log for {_PARTITION} at .*?logEndOffset={_OFFSET}\)"
                r" and removing "
            ),
        ),
        ("created", rf"Created log for partition {_PARTITION} in "),
        ("loaded", rf"loaded for partition {_PARTITION} with initial high watermark {_OFFSET}"),
        # OfflinePartitionLeaderSelector, then ReplicationControlManager
        ("unclean", rf"No broker in ISR is alive for {_PARTITION}\. Elect leader"),
        ("unclean", rf"UNCLEAN partition change for {_PARTITION} .*leader: -?\d+ -> \d+"),
        # ReplicaStateMachine, from 1.1 on; later releases log no unclean election with ZooKeeper
        ("offline", rf"Partition {_PARTITION} state changed to \(Leader:-1,ISR:[\d,]+,LeaderEp"),
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
        (
            "stop",
            (
                r"\[Kafka Server \d+\], shutting down|KafkaServer id=\d+\] shutting down"
                r"|BrokerServer id=\d+\] shutting down|Terminating process due to signal SIGTERM"
            ),
        ),
        # GroupMetadataManager.loadGroupsAndOffsets, before 4.0
        ("unloaded", rf"Error (?:in )?loading offsets from \[?{POSITIONS}[-,]0\b"),
        ("error", r"\b(?:FATAL|ERROR)\b"),
    )
)
"""The kinds of log lines and their patterns, for 0.10 to 4.x. The first pattern that matches
decides the kind."""

_FETCHERS: Final = re.compile(r"(.*Added fetcher )(to broker .*?)?for partitions \w*\(")
_FETCHER: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_PARTITION}, initOffset {_OFFSET} to broker BrokerEndPoint\(\d+",
        rf"{_PARTITION} -> \(offset={_OFFSET}, leaderEpoch=\d+",
        rf"{_PARTITION} -> InitialFetchState\(.*?BrokerEndPoint.*?[\])],-?\d+,{_OFFSET}",
    )
)
"""Patterns for one partition in AbstractFetcherManager's line about all partitions. The three
patterns are for releases up to 2.0, up to 2.7, and later."""

_STAMP: Final = re.compile(r"^\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3})([+-]\d{2}:?\d{2}|Z)?")

_FATAL: Final = re.compile(
    r"\bFATAL (?P<old>.+)"
    r"|\bERROR (?P<new>.*(?:[Ff]atal (?:fault|error|exception)|Exiting|Halting).*)"
)
"""A pattern for a line about a fatal error after which the broker exits. Up to 1.1 such lines have
the level FATAL."""

CONTROLLER: Final = -1
"""The value of ``broker`` in rows from a KRaft controller's log."""

_DECISION: Final = "UNCLEAN"
"""A pattern for the text about an unclean election in a controller's log line. Several controllers
may log the same election."""

LINE_MAX: Final = 500
LINES_MAX: Final = 20_000
"""The greatest number of characters per line, and of lines per broker: an error may repeat in a
loop."""


def log_lines(logs: Path, topic: str, *, started_at_ns: int) -> Iterator[dict[str, object]]:
    """Yield rows about replication from every ``broker-<id>.log`` below ``logs``.

    If a fault shifted a broker's clock, the times of its lines are corrected, and the lines get a
    note. KRaft controllers' logs yield only unclean elections, each once, with -1 as ``broker``.

    Args:
        topic: lines about other topics are ignored.
        started_at_ns: wall clock at time 0 of the history, in nanoseconds since the Unix epoch.
    """
    for path in sorted(logs.glob("broker-*.log")):
        broker = int(path.stem.removeprefix("broker-"))
        clock = ClockJournal(path)
        for row in itertools.islice(_ours(path, topic), LINES_MAX):
            ahead_ns = clock.ahead_ns(row["time_ns"])
            time_ns = row["time_ns"] - ahead_ns - started_at_ns
            line = row["line"] + clock_note(ahead_ns)
            yield {**row, "broker": broker, "time_ns": time_ns, "line": line}
    decided: set[str] = set()
    for row in sorted(_unclean(logs, topic), key=lambda row: int(row["time_ns"])):
        decision = str(row["line"]).partition(_DECISION)[2]
        if decision not in decided:
            decided.add(decision)
            yield {**row, "broker": CONTROLLER, "time_ns": row["time_ns"] - started_at_ns}


def _unclean(logs: Path, topic: str) -> Iterator[dict[str, Any]]:
    """Yield unclean elections from KRaft controllers' logs, each once."""
    for path in logs.glob("controller*.log"):
        clock = ClockJournal(path)
        for row in _ours(path, topic):
            if row["kind"] == "unclean":
                yield {**row, "time_ns": row["time_ns"] - clock.ahead_ns(row["time_ns"])}


def endings(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return a sentence for each broker that logged a fatal error, with the first such line.

    A broker may hang during its shutdown, and still send heartbeats. Then only its log shows the
    fatal error. For example, 0.10.2 hangs if its log is ahead of the leader's:
    ``handleOffsetOutOfRange`` calls ``System.exit`` under a lock that the shutdown needs.
    """
    lines: dict[object, str] = {}
    for row in rows:
        match = _FATAL.search(str(row["line"])) if row["kind"] == "error" else None
        if match and int(str(row["time_ns"])) >= 0:
            words = (match["old"] or match["new"]).strip()
            lines.setdefault(row["broker"], f"broker {row['broker']} logged that it exits: {words}")
    return [*lines.values()]


def _ours(path: Path, topic: str) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            yield from (row for row in _rows(line) if row["topic"] in (None, topic))


def _rows(line: str) -> Iterator[dict[str, Any]]:
    stamp = _STAMP.match(line)
    if stamp is None:
        return
    if fetchers := _FETCHERS.match(line):
        head, leader = fetchers.groups("")
        for pattern in _FETCHER:
            for fetcher in pattern.finditer(line, fetchers.end()):
                yield _row(stamp, "fetcher", fetcher, f"{head}{leader}for {fetcher[0]}")
        return
    for kind, compiled in _PATTERNS:
        if match := compiled.search(line):
            yield _row(stamp, kind, match, line)
            return


def _row(stamp: re.Match[str], kind: str, match: re.Match[str], line: str) -> dict[str, Any]:
    parts = match.groupdict()
    partition, offset = parts.get("partition"), parts.get("offset")
    return {
        "time_ns": _nanoseconds(stamp),
        "kind": kind,
        "topic": parts.get("topic"),
        "partition": None if partition is None else int(partition),
        "offset": None if offset is None else int(offset),
        "line": line.strip()[:LINE_MAX],
    }


def _nanoseconds(stamp: re.Match[str]) -> int:
    text = stamp[1].replace(",", ".").replace(" ", "T") + (stamp[2] or "+00:00")
    moment = datetime.fromisoformat(text)
    return round(moment.timestamp() * 1000) * 1_000_000
