"""Tiny histories of what clients did, each with every anomaly that it shows, and its witness.

A line is an operation: who, what, and how it ended (``ok`` unless told).

    p1: send k0 a@0 b@1             one operation that sent two records to partition 0
    p1: send k0 c  info             whose offset no client was told
    c1: poll k0 a@0  k1 x@7         one poll, or one after the other in the same operation
    c1: peek k0 a@0                 a poll under read_uncommitted
    t1: send k0 a@0; poll k1 b@3  fail      a transaction
    c1: assign k0 k1                also subscribe, rebalance (in a poll: "rebalance k0; poll …")
    c1: seek k0@0                   go on from offset 0; "seek k0": from wherever

An anomaly is its kind, its partition, the record at fault, how far the step went where there is
one, and the rows that show it: ``poll-skip k0 c@2 +2: c1 b@1, c1 d@3``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from highwater.harness.runs.history import (
    FAIL,
    INFO,
    OK,
    READ,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    RUN,
    SEND,
)

_KINDS: Final = {"send": SEND, "poll": READ, "peek": READ}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A history and what is to be found in it, a line each."""

    name: str
    history: str
    found: tuple[str, ...] = ()


def rows(history: str) -> Iterator[Row]:
    """The operations of a history, in columns of ``history.OPERATIONS``, and ``at``."""
    begun: Counter[str] = Counter()
    at = 0
    for time, line in enumerate(filter(None, map(str.strip, history.splitlines()))):
        process, _, words = line.partition(":")
        outcome = words.split()[-1] if words.split()[-1] in {OK, FAIL, INFO} else OK
        shared = {
            "process": process,
            "phase": RUN,
            "outcome": outcome,
            "invoke_ns": 10 * time,
            "complete_ns": 10 * time + 5,
            "topic": "t",
            "op": begun[process],
        }
        begun[process] += 1
        for part in words.removesuffix(outcome).split(";"):
            for row in _part(*part.split()):
                yield {**shared, **row, "at": at}
                at += 1


def _part(verb: str, *words: str) -> Iterator[Row]:
    """The rows of one verb: of each record, or of each partition where it has no records."""
    kind = _KINDS.get(verb)
    isolation = {"poll": READ_COMMITTED, "peek": READ_UNCOMMITTED}.get(verb)
    partition: int | None = None
    if not words:
        yield {"kind": kind or verb, "partition": None, "value": ""}
    for word in words:
        name, _, offset = word.partition("@")
        place = int(offset) if offset else None
        if name[0] == "k" and name[1:].isdecimal():
            partition = int(name[1:])
            if kind is None:
                yield {"kind": verb, "partition": partition, "offset": place, "value": ""}
        else:
            row = {"kind": kind, "partition": partition, "offset": place, "value": name}
            yield {**row, "isolation": isolation}


def told(anomaly: Mapping[str, Any]) -> str:
    """An anomaly in columns of ``checkers.core.anomaly.SCHEMA`` as a line; see above."""
    steps = [f"{step['process']} {_record(step)}" for step in anomaly["steps"]]
    delta = "" if anomaly["delta"] is None else f" {anomaly['delta']:+d}"
    where = "?" if anomaly["partition"] is None else anomaly["partition"]
    return f"{anomaly['kind']} k{where} {_record(anomaly)}{delta}: {', '.join(steps)}"


def _record(row: Mapping[str, Any]) -> str:
    offset = "" if row["offset"] is None else f"@{row['offset']}"
    return f"{row['value'] or ''}{offset}"


def by_run(anomalies: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Anomalies as lines, of each run."""
    found: dict[str, list[str]] = {}
    for anomaly in anomalies:
        found.setdefault(anomaly["run"], []).append(told(anomaly))
    return {run: tuple(sorted(lines)) for run, lines in found.items()}
