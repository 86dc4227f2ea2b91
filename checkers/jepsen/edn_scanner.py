"""Read the sends and polls of ``jepsen.tests.kafka``'s clients in one pass over the bytes."""

from typing import TypeAlias

import numpy as np
from numba.extending import register_jitable as rule

from highwater.checkers.jepsen.edn_operations import (
    ASSIGN,
    END,
    INVOKE,
    LOG_AT,
    NILS,
    POLLS,
    PROCESS,
    READ,
    REBALANCE,
    SEEK,
    SEEKS,
    SEND,
    SENDS,
    SUBSCRIBE,
    TXN,
    TYPE,
    UNSENT,
    UNTOLD,
    VALUE_AT,
    F,
    Rows,
    clear,
    operation,
)
from highwater.checkers.jepsen.edn_tokens import (
    CUT,
    NO_MICRO_OP,
    NONE,
    Bytes,
    MalformedError,
    blank,
    closes,
    form_end,
    number,
    opens,
    word,
)

# Columns of a micro-operation. OP is the operation's index in its batch. For a form in the file,
# …_AT is the byte at which the form begins, and …_END is the byte after it.
OP, KIND, KEY_AT, KEY_END, KEY, OFFSET, RECORD_AT, RECORD_END, COLUMNS = range(9)

Rest: TypeAlias = tuple[Rows, int]
"""An array of rows, one for each micro-operation, and the number of rows in use."""

_VECTOR, _MAP, _N = b"[{n"
_KEYS = word(b":keys", 0, 5)
_OFFSET = word(b":offset", 0, 7)
_POLL = word(b":poll", 0, 5)
_SEND = word(b":send", 0, 5)
_NIL = word(b"nil", 0, 3)


@rule
def put(rows: Rows, used: int, op: int, kind: int) -> Rows:
    """Clear the row with the index ``used``, store ``op`` and ``kind`` in it, and return ``rows``.

    If ``rows`` is full, return an array of double size.
    """
    if used == len(rows):
        grown = np.empty((2 * len(rows), COLUMNS), np.int64)
        for row in range(used):
            for column in range(COLUMNS):
                grown[row, column] = rows[row, column]
        rows = grown
    clear(rows[used])
    rows[used, OP] = op
    rows[used, KIND] = kind
    return rows


@rule
def within(text: Bytes, at: int) -> int:
    """Return the position of the next value inside a micro-operation; raise if there is none."""
    at = blank(text, at)
    if closes(text[at]):
        raise MalformedError(at, NO_MICRO_OP)
    return at


@rule
def is_nil(text: Bytes, at: int, end: int) -> bool:
    """Return whether the EDN value at this position is ``nil``."""
    return text[at] == _N and word(text, at, end) == _NIL


@rule
def put_key(text: Bytes, at: int, row: Rows) -> int:
    """Store the key at this position in the row, and return the position after the key."""
    at = within(text, at)
    end = form_end(text, at)
    row[KEY_AT] = at
    row[KEY_END] = end
    row[KEY] = number(text, at, end)
    return end


@rule
def put_record(text: Bytes, at: int, row: Rows) -> int:
    """Store the next ``[offset value]``, or single value, in the row; return the position after it.

    A ``nil`` value means no record. An offset of -1 means that the offset is unknown, as with
    acks=0.
    """
    at = within(text, at)
    end = form_end(text, at)
    if text[at] == _VECTOR:
        at = within(text, at + 1)
        offset_end = form_end(text, at)
        offset = number(text, at, offset_end)
        row[OFFSET] = offset if offset >= 0 else NONE
        at = within(text, offset_end)
    record_end = form_end(text, at)
    if not is_nil(text, at, record_end):
        row[RECORD_AT] = at
        row[RECORD_END] = record_end
    return end


@rule
def put_keys(text: Bytes, at: int, rows: Rows, used: int, op: int, kind: int) -> tuple[Rows, int]:
    """Add a row for each key in the vector at the position ``at``."""
    at = blank(text, at + 1)
    while not closes(text[at]):
        rows = put(rows, used, op, kind)
        at = blank(text, put_key(text, at, rows[used]))
        used += 1
    return rows, used


@rule
def put_polled(text: Bytes, at: int, entry: Rows, rows: Rows, used: int, op: int) -> Rest:
    """Add a row for each record in ``{key [[offset value] …] …}``.

    If the history does not list some records, count the poll in ``UNTOLD``.
    """
    untold = text[at] != _MAP
    at = blank(text, at + 1)
    while not (untold or closes(text[at])):
        key = at
        at = blank(text, form_end(text, at))
        end = form_end(text, at)
        untold = not opens(text[at])
        at = blank(text, at + 1)
        while at < end - 1 and not untold:
            rows = put(rows, used, op, READ)
            put_key(text, key, rows[used])
            record_end = form_end(text, at)
            if opens(text[at]) or not is_nil(text, at, record_end):
                put_record(text, at, rows[used])
            untold = rows[used, RECORD_AT] == NONE
            at = blank(text, record_end)
            used += not untold
        at = blank(text, end)
    entry[UNTOLD] += untold
    return rows, used


@rule
def put_sent(text: Bytes, at: int, entry: Rows, rows: Rows, used: int, op: int) -> Rest:
    """Add a row for the record of a ``:send``, if there is one. The send's key begins at ``at``."""
    rows = put(rows, used, op, SEND)
    put_record(text, put_key(text, at, rows[used]), rows[used])
    if rows[used, RECORD_AT] == NONE:
        entry[UNSENT] += 1
        return rows, used
    entry[SENDS] += 1
    return rows, used + 1


@rule
def put_micro_ops(text: Bytes, entry: Rows, rows: Rows, used: int, op: int) -> tuple[Rows, int]:
    """Add a row for each record that a ``:send``, ``:poll`` or ``:txn`` sent or polled."""
    at = blank(text, entry[VALUE_AT] + 1)
    while not closes(text[at]):
        end = form_end(text, at)
        if is_nil(text, at, end):
            entry[NILS] += 1
            at = blank(text, end)
            continue
        if not opens(text[at]):
            raise MalformedError(at, NO_MICRO_OP)
        name = within(text, at + 1)
        name_end = form_end(text, name)
        first = blank(text, name_end)
        if word(text, name, name_end) == _SEND:
            rows, used = put_sent(text, name_end, entry, rows, used, op)
        elif word(text, name, name_end) != _POLL:
            raise MalformedError(at, NO_MICRO_OP)
        else:
            entry[POLLS] += 1
            rows, used = put_polled(text, first, entry, rows, used, op)
        at = blank(text, end)
    return rows, used


@rule
def put_rebalanced(text: Bytes, at: int, rows: Rows, used: int, op: int) -> tuple[Rows, int]:
    """Add a row for each key in every ``:keys [key …]`` of a ``:rebalance-log``."""
    end = form_end(text, at)
    while at < end:
        if opens(text[at]) or closes(text[at]):
            at = blank(text, at + 1)
            continue
        word_end = form_end(text, at)
        named = word(text, at, word_end) == _KEYS
        at = blank(text, word_end)
        if named and at < end and opens(text[at]):
            rows, used = put_keys(text, at, rows, used, op, REBALANCE)
            at = blank(text, form_end(text, at))
    return rows, used


@rule
def put_moves(text: Bytes, entry: Rows, rows: Rows, used: int, op: int) -> tuple[Rows, int]:
    """Add a row for each key of an ``:assign`` or ``:subscribe`` (at least one) and each seek."""
    first, has_value = used, entry[NILS] == 0
    if has_value:
        rows, used = put_keys(text, entry[VALUE_AT], rows, used, op, entry[F])
    if used == first:
        rows = put(rows, used, op, entry[F])
        used += 1
    if has_value and entry[SEEKS] == 1:
        rows, used = put_keys(text, entry[VALUE_AT], rows, used, op, SEEK)
    return rows, used


@rule
def put_end(text: Bytes, at: int, row: Rows) -> None:
    """Store the ``:offset`` of the map at ``at`` in the row, if the map has one."""
    if text[at] != _MAP:
        return
    at = blank(text, at + 1)
    while not closes(text[at]):
        name_end = form_end(text, at)
        value = within(text, name_end)
        end = form_end(text, value)
        if word(text, at, name_end) == _OFFSET:
            row[OFFSET] = number(text, value, end)
        at = blank(text, end)


@rule
def put_ends(text: Bytes, at: int, rows: Rows, used: int, op: int) -> tuple[Rows, int]:
    """Add a row for each key in ``{key {:offset n …} …}``, with the end offset of the key's log.

    Only Bufstream's client writes this offset to its history.
    """
    if text[at] != _MAP:
        return rows, used
    at = blank(text, at + 1)
    while not closes(text[at]):
        rows = put(rows, used, op, END)
        value = within(text, put_key(text, at, rows[used]))
        put_end(text, value, rows[used])
        if rows[used, OFFSET] != NONE:
            used += 1
        at = blank(text, form_end(text, value))
    return rows, used


@rule
def put_operation(text: Bytes, entry: Rows, rows: Rows, used: int, op: int) -> tuple[Rows, int]:
    """Add all rows for one operation of a client. Rows of assignments come before rows of reads."""
    for column in (SENDS, POLLS, UNSENT, UNTOLD, NILS):
        entry[column] = 0
    at = entry[VALUE_AT]
    has_value = at != NONE and opens(text[at])
    entry[NILS] = not has_value
    if entry[F] in (ASSIGN, SUBSCRIBE):
        return put_moves(text, entry, rows, used, op)
    if entry[F] == END and has_value:
        return put_ends(text, at, rows, used, op)
    if entry[F] not in (SEND, READ, TXN):
        return rows, used
    if entry[LOG_AT] != NONE:
        rows, used = put_rebalanced(text, entry[LOG_AT], rows, used, op)
    return put_micro_ops(text, entry, rows, used, op) if has_value else (rows, used)


@rule
def scan(
    text: Bytes, at: int, ops: Rows, rows: Rows, invocations: bool
) -> tuple[int, int, int, Rows, int]:
    """Read operations until ``ops`` is full, or the file or its vector ends.

    Args:
        text: the file.
        at: the byte at which to begin, between two operations.
        ops: the array to fill, one row with ``OP_COLUMNS`` for each operation.
        rows: the array to fill, one row with ``COLUMNS`` for each micro-operation. A larger array
            replaces it if it is too small.
        invocations: whether to return the rows of invocations, which are the requests.

    Returns:
        The byte at which the scan stopped, the number of operations, the number of rows, the rows,
        and 0, or ``CUT`` if the last operation is incomplete.

    Raises:
        MalformedError: the text is not in Jepsen's format.
    """
    count = used = 0
    while count < len(ops):
        at = blank(text, at)
        if at >= len(text) or closes(text[at]):
            break
        entry = ops[count]
        end = operation(text, at, entry)
        if end == CUT:
            return at, count, used, rows, CUT
        if entry[PROCESS] != NONE:
            rows, end_of_rows = put_operation(text, entry, rows, used, count)
            used = end_of_rows if invocations or entry[TYPE] != INVOKE else used
        count += 1
        at = end
    return at, count, used, rows, 0
