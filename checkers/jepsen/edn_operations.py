"""Read the maps of ``jepsen.tests.kafka``'s operations: each map becomes one row of numbers."""

from typing import Any, TypeAlias

import numpy as np
from numba.extending import register_jitable as rule

from highwater.checkers.jepsen.edn_tokens import (
    CUT,
    NO_OPERATION,
    NO_TYPE,
    NONE,
    Bytes,
    MalformedError,
    blank,
    closes,
    form_end,
    number,
    untagged,
    word,
)

Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

# Columns of an operation. A form in the file is stored as the byte at which the form begins. SENDS
# and POLLS count the operation's micro-operations, except sends without a record: UNSENT counts
# these. UNTOLD counts the polls for which the file does not list the records. NILS counts missing
# micro-operations, or is 1 if the operation has no value.
START, STOP, TYPE, F, PROCESS, TIME, INDEX, SEEKS, VALUE_AT, LOG_AT = range(10)
SENDS, POLLS, UNSENT, UNTOLD, NILS, OP_COLUMNS = range(10, 16)

INVOKE, OK, FAIL, INFO = range(4)
SEND, READ, ASSIGN, SUBSCRIBE, SEEK, REBALANCE, END, TXN, OTHER = range(9)

_MAP, _MAP_END = b"{}"
_ASSIGN = word(b":assign", 0, 7)
_DEBUG = word(b":debug-topic-partitions", 0, 23)
_F = word(b":f", 0, 2)
_FAIL = word(b":fail", 0, 5)
_INDEX = word(b":index", 0, 6)
_INFO = word(b":info", 0, 5)
_INVOKE = word(b":invoke", 0, 7)
_OK = word(b":ok", 0, 3)
_POLL = word(b":poll", 0, 5)
_PROCESS = word(b":process", 0, 8)
_REBALANCE_LOG = word(b":rebalance-log", 0, 14)
_SEEK_TO_BEGINNING = word(b":seek-to-beginning?", 0, 19)
_SEND = word(b":send", 0, 5)
_SUBSCRIBE = word(b":subscribe", 0, 10)
_TIME = word(b":time", 0, 5)
_TXN = word(b":txn", 0, 4)
_TYPE = word(b":type", 0, 5)
_VALUE = word(b":value", 0, 6)
_TRUE = word(b"true", 0, 4)

_FUNCTIONS = (
    (SEND, _SEND),
    (READ, _POLL),
    (TXN, _TXN),
    (ASSIGN, _ASSIGN),
    (SUBSCRIBE, _SUBSCRIBE),
    (END, _DEBUG),
)


@rule
def type_of(text: Bytes, at: int, end: int) -> int:
    """Return the type of an operation: INVOKE, OK, FAIL or INFO."""
    token = word(text, at, end)
    if token == _INVOKE:
        return INVOKE
    if token == _OK:
        return OK
    if token == _FAIL:
        return FAIL
    if token == _INFO:
        return INFO
    raise MalformedError(at, NO_TYPE)


@rule
def function_of(text: Bytes, at: int, end: int) -> int:
    """Return the function of an operation: SEND, READ, TXN, ASSIGN, SUBSCRIBE, END, or OTHER."""
    token = word(text, at, end)
    for function, name in _FUNCTIONS:
        if token == name:
            return function
    return OTHER


@rule
def field(text: Bytes, name: int, name_end: int, at: int, end: int, op: Rows) -> None:
    """Store one entry (a name and a value) of an operation's map in the row ``op``."""
    token = word(text, name, name_end)
    if token == _TYPE:
        op[TYPE] = type_of(text, at, end)
    elif token == _F:
        op[F] = function_of(text, at, end)
    elif token == _PROCESS:
        op[PROCESS] = number(text, at, end)
    elif token == _TIME:
        op[TIME] = number(text, at, end)
    elif token == _INDEX:
        op[INDEX] = number(text, at, end)
    elif token == _VALUE:
        op[VALUE_AT] = at
    elif token == _REBALANCE_LOG:
        op[LOG_AT] = at
    elif token == _SEEK_TO_BEGINNING:
        op[SEEKS] = word(text, at, end) == _TRUE


@rule
def operation(text: Bytes, at: int, op: Rows) -> int:
    """Read an operation's map into the row ``op``. Return the end; CUT for an incomplete map."""
    clear(op)
    op[START] = at
    at = untagged(text, at)
    if at >= len(text):
        return CUT
    if text[at] != _MAP:
        raise MalformedError(at, NO_OPERATION)
    at = blank(text, at + 1)
    while at < len(text) and text[at] != _MAP_END:
        name_end = form_end(text, at)
        value = len(text) if name_end == CUT else untagged(text, blank(text, name_end))
        if value < len(text) and closes(text[value]):
            raise MalformedError(op[START], NO_OPERATION)
        end = form_end(text, value)
        if end in (CUT, len(text)):
            return CUT
        field(text, at, name_end, value, end, op)
        at = blank(text, end)
    if at >= len(text):
        return CUT
    if op[TYPE] == NONE or op[F] == NONE:
        raise MalformedError(op[START], NO_OPERATION)
    op[STOP] = at + 1
    return at + 1


@rule
def clear(row: Rows) -> None:
    """Set all columns to NONE. The loop is faster to compile than a slice (Numba)."""
    for column in range(len(row)):
        row[column] = NONE
