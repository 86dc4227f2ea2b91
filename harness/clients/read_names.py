"""The names that records of a reader get in the history."""

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from highwater.harness.clients.libraries.interfaces import ReadRecord
from highwater.harness.clients.libraries.keyed import read_values
from highwater.harness.runs.history import record_id
from highwater.harness.runs.plan import Plan

Names: TypeAlias = Callable[[Sequence[ReadRecord]], pa.Array]
"""A function that returns the names of records, as an array of strings."""

_DIGEST_BYTES: Final = 8
_SECRET_BYTES: Final = 16


def names_for(plan: Plan) -> Names:
    """Return the names of the records that a plan's readers read.

    If the plan only reads, a name is a hash with a random key, which is not stored. So the names do
    not show a record's contents, even if these are short and can be guessed. All readers of a run
    must use the same function.
    """
    if plan.read_only:
        return partial(by_hashes, secret=secrets.token_bytes(_SECRET_BYTES))
    return by_keys if plan.named_by_keys else by_values


def by_values(messages: Sequence[ReadRecord]) -> pa.Array:
    """Return the text before ``|`` in each value. Values may have bytes that are not UTF-8."""
    values = read_values(messages)
    try:
        texts = pa.array(values, pa.binary()).cast(pa.string()).fill_null("")
    except pa.ArrowInvalid:
        return pa.array([record_id(value or b"") for value in values], pa.string())
    return pc.list_element(pc.split_pattern(texts, "|", max_splits=1), 0)


def by_keys(messages: Sequence[ReadRecord]) -> pa.Array:
    """Return each record's key. A record without a key, such as a fence, is named by its value."""
    pairs = ((message.key(), message.value()) for message in messages)
    names = (record_id(value or b"") if key is None else key.decode() for key, value in pairs)
    return pa.array(names, pa.string())


def by_hashes(messages: Sequence[ReadRecord], *, secret: bytes) -> pa.Array:
    """Return each record's time and hash, such as ``2026-11-30T11:46:01.123Z-9f86d081884c7d65``.

    Two records have the same name if partition, offset, timestamp, key, value and headers are
    equal.
    """
    return pa.array((_hashed(message, secret) for message in messages), pa.string())


def _hashed(message: ReadRecord, secret: bytes) -> str:
    kind, time_ms = message.timestamp()
    digest = blake2b(digest_size=_DIGEST_BYTES, key=secret)
    headers = [part for header in message.headers() or () for part in header]
    place = f"{message.partition()} {message.offset()} {kind} {time_ms}".encode()
    for part in (place, message.key(), message.value(), *headers):
        data = part.encode() if isinstance(part, str) else part
        # The length keeps the parts apart; -1 stands for a missing part.
        digest.update(b"%d:" % (-1 if data is None else len(data)))
        digest.update(data or b"")
    return f"{_time(time_ms)}-{digest.hexdigest()}"


def _time(time_ms: int) -> str:
    """Return a timestamp as text. A producer may send any number as a timestamp."""
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return f"{at.isoformat(timespec='milliseconds')[:-6]}Z"
