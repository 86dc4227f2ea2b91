"""Flags of a history's rows, as bits. A record has the flags of all its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.harness.runs.history import (
    ASSIGN,
    END,
    FAIL,
    FENCE,
    FINAL,
    INFO,
    OK,
    READ,
    READ_UNCOMMITTED,
    REBALANCE,
    SEEK,
    SEND,
    SUBSCRIBE,
)

SENT_OK: Final = 1
SENT_INFO: Final = 2
SENT_FAIL: Final = 4
"""Flags of a row about a send: the outcome of the send."""

READ_OK: Final = 8
READ_OTHER: Final = 16
PEEK_OK: Final = 32
PEEK_OTHER: Final = 64
"""Flags of a read. A peek is a read with ``isolation.level=read_uncommitted``: it does not prove
that the record was committed. OTHER: a read whose operation failed, or whose outcome is unknown."""

BLIND: Final = 128
ADRIFT: Final = 4096
"""BLIND: a read or an acknowledged send without an offset (in some Jepsen histories). ADRIFT: a
send whose partition the client never learned."""

ASSIGNED: Final = 256
SEEK_FLAG: Final = 512
REBALANCED: Final = 1024
EVERYWHERE: Final = 2048
MOVES: Final = ASSIGNED | SEEK_FLAG | REBALANCED
"""Flags of a reader's moves: assignments and seeks. ``assign`` and ``subscribe`` have the same
flag. EVERYWHERE: the move concerns all partitions of the reader. A failed call has no flag, because
it changed nothing for the reader."""

ENDED: Final = 8192
"""The operation returned this offset as the end of the log."""

IN_FINAL: Final = 1 << 14
OF_FENCE: Final = 1 << 15
"""IN_FINAL: a row of the run's final phase. OF_FENCE: a row about the fence, the last record that
the harness writes to a partition."""

PROOF: Final = 1 << 16
PROVEN: Final = 1 << 17
"""Flags of sends that are set when records are summarised. PROOF: the outcome of a send is unknown,
and a successful operation read its record. If several operations sent the record, only the
operation with the greatest number gets the flag. PROVEN: another send of the same operation has
PROOF, so the operation took effect (Jepsen's ``must-have-committed?``). A read of uncommitted
records proves nothing."""

GROUPED: Final = 1 << 18
"""The history names the group with which a client subscribed."""

SENT: Final = SENT_OK | SENT_INFO | SENT_FAIL
READ_BY_ANY: Final = READ_OK | READ_OTHER
PEEK: Final = PEEK_OK | PEEK_OTHER
SEEN: Final = READ_BY_ANY | PEEK
SEEN_OK: Final = READ_OK | PEEK_OK
STRAY: Final = SENT_INFO | SENT_FAIL | BLIND
"""Flags of rows that lack their record's offset, or that do not prove that the record is in the
log."""


@dataclass(frozen=True, slots=True)
class RowFlags:
    """The flags of all rows with one kind and outcome.

    The fields after ``bits`` are additional flags: for a row without an offset, for a row without a
    partition, and for a row that names a group.
    """

    bits: int
    no_offset: int = 0
    no_partition: int = 0
    named: int = 0


def _saying(kind: str, outcome: str, *, peek: bool) -> RowFlags:
    if kind == SEND:
        bits = {OK: SENT_OK, INFO: SENT_INFO, FAIL: SENT_FAIL}[outcome]
        return RowFlags(bits, BLIND if outcome == OK else 0, ADRIFT)
    if kind == READ and peek:
        return RowFlags(PEEK_OK if outcome == OK else PEEK_OTHER, BLIND)
    if kind == READ:
        return RowFlags(READ_OK if outcome == OK else READ_OTHER, BLIND)
    if kind == END:
        return RowFlags(ENDED if outcome == OK else 0)
    if outcome == FAIL:
        return RowFlags(0)
    moved = {SEEK: SEEK_FLAG, REBALANCE: REBALANCED}.get(kind, ASSIGNED)
    return RowFlags(moved, no_partition=EVERYWHERE, named=GROUPED if kind == SUBSCRIBE else 0)


KINDS: Final = (SEND, READ, ASSIGN, SUBSCRIBE, SEEK, REBALANCE, END)
OUTCOMES: Final = (OK, INFO, FAIL)
SAYINGS: Final = {
    (kind, outcome, peek): _saying(kind, outcome, peek=peek)
    for kind in KINDS
    for outcome in OUTCOMES
    for peek in (False, True)
}
"""The flags of a row, by three values: its kind, its outcome, and whether its isolation is
``read_uncommitted``. Rows of other kinds have no flags (0)."""


def fact() -> Column:
    """Return the column of flags for rows of ``harness.runs.history.OPERATIONS``."""
    case = _case("kind", {kind: _by_outcome(kind) for kind in KINDS})
    final = f"if(phase <=> '{FINAL}', {IN_FINAL}, 0)"
    fence = f"if(process <=> '{FENCE}', {OF_FENCE}, 0)"
    return F.expr(f"{case} | {final} | {fence}")


def _by_outcome(kind: str) -> str:
    cases = {}
    for outcome in OUTCOMES:
        committed, peek = (
            _expression(SAYINGS[kind, outcome, outcome_kind]) for outcome_kind in (False, True)
        )
        peeks = f"isolation <=> '{READ_UNCOMMITTED}'"
        cases[outcome] = committed if committed == peek else f"if({peeks}, {peek}, {committed})"
    return _case("outcome", cases)


def _case(column: str, cases: Mapping[str, str]) -> str:
    whens = " ".join(f"WHEN '{word}' THEN {what}" for word, what in cases.items())
    return f"CASE {column} {whens} ELSE 0 END"


def _expression(saying: RowFlags) -> str:
    expression = str(saying.bits)
    for name in ("offset", "partition"):
        if more := getattr(saying, f"no_{name}"):
            expression += f" | if(`{name}` IS NULL, {more}, 0)"
    if saying.named:
        expression += f" | if(value <> '', {saying.named}, 0)"
    return f"({expression})"
