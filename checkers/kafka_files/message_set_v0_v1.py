"""Message sets, message formats v0 and v1 (0.8 to 0.10): LegacyRecord, AbstractLegacyRecordBatch.

A compressed set is one wrapper message whose value holds the inner messages. In v0 inner offsets
are absolute; in v1 they count from the start of the set, and the wrapper bears the offset of the
last one (KIP-31).
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.kafka_files.column_decoding import (
    ARENA_BYTES_MAX,
    ArenaFullError,
    Bytes,
    Checksum,
    Chunk,
    Damage,
    DecodedColumns,
    Flaw,
    Flaws,
    Ints,
    fields,
    in_order,
    join,
    mismatches,
    slices,
)
from highwater.checkers.kafka_files.compression import CodecError, TooLargeError, decompress

HEADER: Final = np.dtype(
    [
        ("offset", ">i8"),
        ("size", ">i4"),
        ("crc", ">u4"),
        ("magic", "i1"),
        ("attributes", "i1"),
        ("timestamp", ">i8"),  # v1 alone; in v0 what follows, and no message is too short for it
    ]
)
KEY_AT: Final = (18, 26)
"""Where the key's length stands in a message of v0 and of v1, bytes from its offset field."""

_CRC_FROM: Final = 16  # the magic byte
_CHECKSUM: Final = Checksum(
    name="CRC-32", owner="message", covers_from=_CRC_FROM, compute=zlib.crc32
)
_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_FRAME: Final = struct.Struct(">qiIbb")
_LENGTH: Final = struct.Struct(">i")
_SIZE: Final = np.dtype([("length", ">i4")])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Messages:
    """Messages, wrappers unpacked: where each lies in the arena, what to add to its offset."""

    arena: bytes
    starts: Ints
    ends: Ints
    owner: Ints
    shift: Ints


class _MessageError(Exception):
    """A message inside a wrapper is not sound."""


def decode(data: memoryview, chunk: Chunk, *, floor: int) -> DecodedColumns:
    """Return the records of v0 and v1 messages, wrappers unpacked.

    Args:
        data: the segment.
        chunk: messages whose whole bytes lie in ``data``.
        floor: the least offset allowed.
    """
    header = fields(np.frombuffer(data, dtype=np.uint8), chunk.positions, HEADER)
    flaws: Flaws = {}
    mismatched = mismatches(data, chunk, header["crc"], _CHECKSUM, flaws)
    decoded = None
    while decoded is None:  # again without the messages whose fields or offsets make no sense
        messages = _unpack(data, chunk, header, flaws)
        decoded = _columns(messages, header, chunk, flaws, floor)
    decoded.damage.extend(_damage(chunk, header, flaws, mismatched))
    return decoded


def _unpack(data: memoryview, chunk: Chunk, header: np.ndarray, flaws: Flaws) -> _Messages:
    """Put every sound message into one arena; a wrapper's messages replace it."""
    codecs = header["attributes"] & _CODEC
    if not (codecs.any() or flaws):  # as they lie in the file
        first, end = int(chunk.positions[0]), int(chunk.positions[-1] + chunk.sizes[-1])
        starts = chunk.positions - first
        owner = np.arange(len(starts))
        arena = join([data[first:end]])
        return _Messages(
            arena=arena, starts=starts, ends=starts + chunk.sizes, owner=owner, shift=owner * 0
        )
    parts: list[memoryview] = []
    bounds, owners, shifts, size = [], [], [], 0
    rows = zip(
        *(chunk.positions.tolist(), chunk.sizes.tolist(), codecs.tolist()),
        *(header["magic"].tolist(), header["offset"].tolist()),
        strict=True,
    )
    for index, (position, length, codec, magic, offset) in enumerate(rows):
        if index in flaws:
            continue
        part = data[position : position + length]
        inner, shift = [0, length], 0
        if codec:
            try:
                part = decompress(codec, _wrapped(part, magic), magic=magic)
                inner, shift = _inner(part, magic, offset)
            except (CodecError, _MessageError) as error:
                swollen = isinstance(error, TooLargeError)
                flaws[index] = Flaw(str(error), "unreadable" if swollen else "corrupt")
                continue
        if parts and size + len(part) > ARENA_BYTES_MAX:
            raise ArenaFullError
        parts.append(part)
        bounds.append(np.array(inner) + size)
        owners.append(np.full(len(inner) - 1, index))
        shifts.append(np.full(len(inner) - 1, shift))
        size += len(part)
    none = np.empty(0, dtype=np.int64)
    return _Messages(
        arena=join(parts),
        starts=np.concatenate([none, *(bound[:-1] for bound in bounds)]),
        ends=np.concatenate([none, *(bound[1:] for bound in bounds)]),
        owner=np.concatenate([none, *owners]),
        shift=np.concatenate([none, *shifts]),
    )


def _wrapped(message: memoryview, magic: int) -> memoryview:
    """Return the value of a wrapper message."""
    at = KEY_AT[magic]
    for part in ("key", "value"):
        (length,) = _LENGTH.unpack_from(message, at)
        start, at = at + 4, at + 4 + max(length, 0)
        if length < -1 or at > len(message) - (4 if part == "key" else 0):
            raise _MessageError(f"the {part} of a wrapper message does not fit into it")
    return message[start:at]


def _inner(inner: memoryview, magic: int, wrapper_offset: int) -> tuple[list[int], int]:
    """Return where a wrapper's messages begin and end, and what to add to their offsets."""
    bounds = [0]
    at, offset, whole = 0, 0, len(inner)
    least = KEY_AT[magic] + 8
    unpack, crc32, note = _FRAME.unpack_from, zlib.crc32, bounds.append
    while at < whole:
        if whole - at < least:
            raise _MessageError("a wrapper message ends inside an inner message")
        offset, size, crc, inner_magic, attributes = unpack(inner, at)
        end = at + 12 + size
        if end < at + least or end > whole:
            raise _MessageError("a wrapper message ends inside an inner message")
        if inner_magic != magic or attributes & _CODEC:
            raise _MessageError("an inner message is of another format than its wrapper")
        if crc32(inner[at + _CRC_FROM : end]) != crc:
            raise _MessageError("the CRC-32 of an inner message does not match")
        note(end)
        at = end
    if not whole:
        raise _MessageError("a wrapper message holds no message")
    if magic == 0 and offset != wrapper_offset:
        raise _MessageError("the last inner message is not at its wrapper's offset")
    return bounds, wrapper_offset - offset


def _columns(
    messages: _Messages, header: np.ndarray, chunk: Chunk, flaws: Flaws, floor: int
) -> DecodedColumns | None:
    """Return every field of every message; None if some are invalid: ``flaws`` names them then."""
    data: Bytes = np.frombuffer(messages.arena, dtype=np.uint8)
    starts, owner = messages.starts, messages.owner
    message = fields(data, starts, HEADER)
    versions = message["magic"].astype(np.int64)
    key_at = starts + np.where(versions > 0, KEY_AT[1], KEY_AT[0])
    key_length = fields(data, key_at, _SIZE)["length"].astype(np.int64)
    value_at = np.minimum(key_at + 4 + np.maximum(key_length, 0), len(data) - 4)
    value_length = fields(data, value_at, _SIZE)["length"].astype(np.int64)
    sound = (
        (key_length >= -1)
        & (value_length >= -1)
        & (value_at + 4 + np.maximum(value_length, 0) == messages.ends)
    )
    offset = message["offset"].astype(np.int64) + messages.shift
    sound[1:] &= (offset[1:] > offset[:-1]) | (owner[1:] != owner[:-1])
    if not sound.all():
        for index in np.unique(owner[~sound]).tolist():
            flaws[index] = Flaw("its checksum is sound but its fields make no sense")
        return None
    batches = _batch_columns(header, chunk, owner, offset)
    if not _ordered(batches, chunk, flaws, floor):
        return None
    append_time = batches["log_append_time"]
    wrapped = append_time[owner] & ((header["attributes"][owner] & _CODEC) != 0)
    time = np.where(wrapped, header["timestamp"][owner], message["timestamp"]).astype(np.int64)
    buffer = pa.py_buffer(messages.arena)
    return DecodedColumns(
        batches=batches,
        owner=owner,
        offset=offset,
        timestamp_ms=np.where(versions > 0, time, -1),
        sequence=np.full(len(owner), -1, dtype=np.int64),
        crc=message["crc"].astype(np.int64),
        key=slices(buffer, key_at + 4, key_length),
        value=slices(buffer, value_at + 4, value_length),
        damage=[],
        last=int(offset.max()) if len(offset) else None,
    )


def _ordered(batches: dict[str, np.ndarray], chunk: Chunk, flaws: Flaws, floor: int) -> bool:
    """Return whether offsets only grow; ``flaws`` gets the messages that break the order."""
    good = np.array([i for i in range(len(chunk.sizes)) if i not in flaws], dtype=np.intp)
    first, last = batches["base_offset"][good], batches["last_offset"][good]
    ordered = in_order(first, last, floor=floor, following=chunk.following)
    for index in good[~ordered].tolist():
        flaws[index] = Flaw("its offsets do not fit between its neighbours'")
    return bool(ordered.all())


def _batch_columns(
    header: np.ndarray, chunk: Chunk, owner: Ints, offset: Ints
) -> dict[str, np.ndarray]:
    last = header["offset"].astype(np.int64)
    base = last.copy()
    np.minimum.at(base, owner, offset)
    none = np.full(len(header), -1, dtype=np.int32)
    no = np.zeros(len(header), dtype=np.bool_)
    return {
        "position": chunk.positions,
        "base_offset": base,
        "last_offset": last,
        "magic": header["magic"].astype(np.int32),
        "leader_epoch": none,
        "producer_id": none.astype(np.int64),
        "producer_epoch": none,
        "codec": header["attributes"] & _CODEC,
        "log_append_time": ((header["attributes"] & _LOG_APPEND_TIME) != 0) & (header["magic"] > 0),
        "transactional": no,
        "control": no,
    }


def _damage(chunk: Chunk, header: np.ndarray, flaws: Flaws, mismatched: set[int]) -> list[Damage]:
    return [
        Damage(
            kind=flaws[index].kind,
            position=int(chunk.positions[index]),
            error=flaws[index].says,
            base_offset=int(header["offset"][index]),
            last_offset=int(header["offset"][index]),
            magic=int(header["magic"][index]),
            crc=int(header["crc"][index]),
            crc_ok=index not in mismatched,
        )
        for index in sorted(flaws)
    ]
