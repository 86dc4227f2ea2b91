"""Tokens of an EDN text: plain functions over bytes, which Numba compiles.

A history may contain ``[:send 3 [17 641]]`` a million times. A *form* is an EDN value. An object
for each form would take minutes, as in Python's EDN library. So a form here is only a pair of
positions: its first byte and the byte after it. Metadata (``^``) and discarded forms (``#_``) are
errors, because Jepsen never writes them.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numba.extending import register_jitable as rule

Bytes: TypeAlias = Any
"""The text of a history: ``bytes`` in plain Python, an array of uint8 in compiled code."""

CUT: Final = -1
"""The number that is returned as the end of an EDN value, if the file ends inside this value."""

NONE: Final = -(2**63)
"""The value that stands for a missing number."""

NO_EDN, NO_OPERATION, NO_TYPE, NO_MICRO_OP, REFUSED = range(5)
COMPLAINTS: Final = (
    "is not EDN: this closing bracket has no opening bracket",
    "is not an operation: an operation is a map with :type, :f and :process",
    "is not an operation: its :type must be :invoke, :ok, :fail or :info",
    "is not a micro-operation of jepsen.tests.kafka, such as [:send key value] or [:poll …]",
    "is EDN that Jepsen never writes: metadata, or a discarded form",
)

_SPACE, _COMMA, _SEMICOLON, _NEWLINE, _QUOTE, _BACKSLASH = b' ,;\n"\\'
_HASH, _CARET, _UNDERSCORE, _MINUS, _ZERO, _NINE = b"#^_-09"
_LIST, _VECTOR, _MAP, _LIST_END, _VECTOR_END, _MAP_END = b"([{)]}"
_TAB, _RETURN = b"\t\r"


_BETWEEN, _OPENS, _CLOSES, _WITHIN = range(4)


def _classes() -> Any:  # noqa: ANN401
    classes = np.full(256, _WITHIN, np.uint8)
    classes[:33] = _BETWEEN
    for byte in b',;"':
        classes[byte] = _BETWEEN
    for byte in b"[{(":
        classes[byte] = _OPENS
    for byte in b"]})":
        classes[byte] = _CLOSES
    return classes


_CLASS: Final = _classes()
"""A table with the class of each byte. An atom (a value without parts) has only bytes of the class
``_WITHIN``."""


_ASIDE: Final = 2**40
_DIGITS_MAX: Final = 18  # every number with so many digits fits into 64 bits


def _depths() -> Any:  # noqa: ANN401
    depths = np.where(_CLASS == _OPENS, 1, np.where(_CLASS == _CLOSES, -1, 0))
    for byte in b'"\\;':
        depths[byte] = _ASIDE
    return depths


_DEPTH: Final = _depths()
"""A table with each byte's change of the nesting depth. ``_ASIDE`` marks a byte that may begin a
string, a character or a comment."""


class MalformedError(Exception):
    """The text is not in Jepsen's format.

    Arguments: the position, and an index in ``COMPLAINTS``.
    """


@rule
def blank(text: Bytes, at: int) -> int:
    """Return the position of the next byte after white space, commas and comments."""
    while at < len(text):
        byte = text[at]
        if byte in (_COMMA, _SPACE) or _TAB <= byte <= _RETURN:
            at += 1
        elif byte == _SEMICOLON:
            while at < len(text) and text[at] != _NEWLINE:
                at += 1
        else:
            break
    return at


@rule
def opens(byte: int) -> bool:
    """Return whether a vector, list, map or set begins with this byte."""
    return bool(_CLASS[byte] == _OPENS)


@rule
def closes(byte: int) -> bool:
    """Return whether a vector, list, map or set ends with this byte."""
    return bool(_CLASS[byte] == _CLOSES)


@rule
def atom_end(text: Bytes, at: int) -> int:
    """Return the end of the string, number, keyword, symbol, character or tag at ``at``, or CUT."""
    if text[at] == _QUOTE:
        at += 1
        while at < len(text) and text[at] != _QUOTE:
            at += 2 if text[at] == _BACKSLASH else 1
        return at + 1 if at < len(text) else CUT
    if text[at] == _CARET:
        raise MalformedError(at, REFUSED)
    at += 2 if text[at] == _BACKSLASH else 1  # a character may be a bracket
    while at < len(text) and _CLASS[text[at]] == _WITHIN:
        at += 1
    return min(at, len(text))


@rule
def untagged(text: Bytes, at: int) -> int:
    """Return the position after a value's tag (``#jepsen.history.Op``), or of a set's ``{``."""
    while at < len(text) and text[at] == _HASH:
        behind = text[at + 1] if at + 1 < len(text) else 0
        if behind == _UNDERSCORE:
            raise MalformedError(at, REFUSED)
        if behind == _HASH:  # ##Inf is a number
            break
        at = at + 1 if behind == _MAP else blank(text, atom_end(text, at))
    return at


@rule
def _collection_end(text: Bytes, at: int) -> int:
    depth = 0
    while at < len(text):
        depth += _DEPTH[text[at]]
        if depth == 0:
            return at + 1
        if depth >= _ASIDE:  # a string, character or comment begins, and may contain brackets
            depth -= _ASIDE
            at = blank(text, at) if text[at] == _SEMICOLON else atom_end(text, at)
            if at == CUT:
                return CUT
        else:
            at += 1
    return CUT


@rule
def form_end(text: Bytes, at: int) -> int:
    """Return the end of the EDN value that begins at ``at``; CUT if the value is incomplete."""
    at = untagged(text, blank(text, at))
    if at >= len(text):
        return CUT
    if opens(text[at]):
        return _collection_end(text, at)
    if closes(text[at]):
        raise MalformedError(at, NO_EDN)
    return atom_end(text, at)


@rule
def word(text: Bytes, at: int, end: int) -> int:
    """Return a number for the keyword at ``at``, from its length and its first seven letters.

    In Jepsen's histories, no other word has the number of a keyword of ``jepsen.tests.kafka``.
    """
    code = 0
    for place in range(at + 1, min(end, at + 8)):
        code = code << 8 | text[place]
    return code | min(end - at, 127) << 56


@rule
def number(text: Bytes, at: int, end: int) -> int:
    """Return the integer from ``at`` to ``end``, or NONE."""
    negative = text[at] == _MINUS
    first = at + 1 if negative else at
    if end - first < 1 or end - first > _DIGITS_MAX:
        return NONE
    total = 0
    for place in range(first, end):
        if not _ZERO <= text[place] <= _NINE:
            return NONE
        total = total * 10 + (text[place] - _ZERO)
    return -total if negative else total
