"""Logs of a run's clients: requests without an answer, and when clients left."""

import re
from collections import defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.model.explain.tolerances import SECOND
from highwater.checkers.model.explain.trace import ClientLogLine
from highwater.harness.runs.history import SEND
from highwater.harness.runs.store import Run

_DAY: Final = 86_400 * SECOND
_UNANSWERED: Final = re.compile(
    r"(?:\d{4}-\d\d-\d\dT)?(?P<time>\d\d:\d\d:\d\d\.\d{3})Z? (?:REQTMOUT|FAIL)"
    r" \[(?P<client>[\w.-]+)#"
)
"""librdkafka: a request timed out, or its connection broke."""


def unanswered(run: Run) -> dict[str, list[ClientLogLine]]:
    """Return the clients' log lines about requests without an answer; empty without a log."""
    log_lines: dict[str, list[ClientLogLine]] = defaultdict(list)
    path = run.logs / "clients.log"
    if not path.exists():
        return log_lines
    started_at_ns = run.environment().started_at_ns
    midnight_ns = started_at_ns - started_at_ns % _DAY
    with path.open(encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            if match := _UNANSWERED.match(line):
                hours, minutes, seconds = match["time"].split(":")
                time_ns = int((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * SECOND)
                since_ns = (midnight_ns + time_ns - started_at_ns) % _DAY
                log_lines[match["client"]].append(ClientLogLine(since_ns, line.strip()))
    return log_lines


def left(ops: pa.Table) -> dict[str, int]:
    """When each producer that another followed had its last answer; of ``p``, ``p.1``, ``p.2``."""
    sends = ops.filter(pc.equal(ops["kind"], SEND)).select(["process", "complete_ns"])
    rows = sends.group_by("process").aggregate([("complete_ns", "max")]).to_pylist()
    last = {row["process"]: row["complete_ns_max"] or 0 for row in rows}
    stayed: dict[str, int] = {}
    for process, at_ns in last.items():
        client = process.partition(".")[0]
        stayed[client] = max(stayed.get(client, 0), at_ns)
    return {client: at for client, at in last.items() if at < stayed[client.partition(".")[0]]}
