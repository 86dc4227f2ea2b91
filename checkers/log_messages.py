"""Message sets, message formats v0 and v1 (0.8 to 0.10): LegacyRecord, AbstractLegacyRecordBatch.

A compressed set is one wrapper message whose value holds the inner messages. In v0 inner offsets
are absolute; in v1 they count from the start of the set, and the wrapper bears the offset of the
last one (KIP-31).
"""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.log_codecs import CodecError, decompress
from checkers.log_columns import (
    Bytes,
    Chunk,
    Damage,
    Decoded,
    Ints,
    fields,
    in_order,
    join,
    slices,
)

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
_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_FRAME: Final = struct.Struct(">qiIbb")
_LENGTH: Final = struct.Struct(">i")
_SIZE: Final = np.dtype([("length", ">i4")])


@dataclass(slots=True)
class _Walk:
    """Messages found so far, wrappers unpacked: the arena's parts, and where each message lies."""

    parts: list[bytes | memoryview] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    shifts: list[int] = field(default_factory=list)
    size: int = 0


class _MessageError(Exception):
    """A message inside a wrapper is not sound."""


def decode(data: memoryview, chunk: Chunk, *, floor: int) -> Decoded:
    """The records of v0 and v1 messages, wrappers unpacked.

    Args:
        data: the segment.
        chunk: messages whose whole bytes lie in ``data``.
        floor: the least offset that may come.
    """
    header = fields(np.frombuffer(data, dtype=np.uint8), chunk.positions, HEADER)
    errors: dict[int, str] = {}
    mismatched = _check_crc(data, chunk, header, errors)
    decoded = None
    while decoded is None:  # again without the messages whose fields or offsets make no sense
        walk = _unpack(data, chunk, header, errors)
        decoded = _columns(walk, header, chunk, errors, floor)
    decoded.damage.extend(_damage(chunk, header, errors, mismatched))
    return decoded


def _check_crc(
    data: memoryview, chunk: Chunk, header: np.ndarray, errors: dict[int, str]
) -> set[int]:
    """Name every message whose CRC-32 does not match."""
    wrong = set()
    spans = zip(chunk.positions.tolist(), chunk.sizes.tolist(), header["crc"].tolist(), strict=True)
    for index, (position, size, stored) in enumerate(spans):
        computed = zlib.crc32(data[position + _CRC_FROM : position + size])
        if computed != stored:
            wrong.add(index)
            errors[index] = f"CRC-32 is {computed:#010x}, the message says {stored:#010x}"
    return wrong


def _unpack(data: memoryview, chunk: Chunk, header: np.ndarray, errors: dict[int, str]) -> _Walk:
    """Put every good message into one arena, a wrapper replaced by what it holds."""
    walk = _Walk()
    rows = zip(
        chunk.positions.tolist(),
        chunk.sizes.tolist(),
        (header["attributes"] & _CODEC).tolist(),
        header["magic"].tolist(),
        header["offset"].tolist(),
        strict=True,
    )
    for index, (position, size, codec, magic, offset) in enumerate(rows):
        if index in errors:
            continue
        message = data[position : position + size]
        if not codec:
            walk.parts.append(message)
            walk.starts.append(walk.size)
            walk.size += size
            walk.ends.append(walk.size)
            walk.owners.append(index)
            walk.shifts.append(0)
            continue
        try:
            inner = bytes(decompress(codec, _wrapped(message, magic), magic=magic))
            starts, ends, shift = _inner(inner, magic, offset)
        except (CodecError, _MessageError) as error:
            errors[index] = str(error)
            continue
        walk.parts.append(inner)
        walk.starts.extend(walk.size + start for start in starts)
        walk.ends.extend(walk.size + end for end in ends)
        walk.owners.extend([index] * len(starts))
        walk.shifts.extend([shift] * len(starts))
        walk.size += len(inner)
    return walk


def _wrapped(message: memoryview, magic: int) -> memoryview:
    """The value of a wrapper message."""
    at = KEY_AT[magic]
    for part in ("key", "value"):
        (length,) = _LENGTH.unpack_from(message, at)
        start, at = at + 4, at + 4 + max(length, 0)
        if length < -1 or at > len(message) - (4 if part == "key" else 0):
            raise _MessageError(f"the {part} of a wrapper message does not fit into it")
    return message[start:at]


def _inner(inner: bytes, magic: int, wrapper_offset: int) -> tuple[list[int], list[int], int]:
    """Starts and ends of a wrapper's messages, and what to add to their offsets."""
    starts, ends = [], []
    at, offset, view = 0, 0, memoryview(inner)
    least = KEY_AT[magic] + 8
    while at < len(inner):
        if len(inner) - at < least:
            raise _MessageError("a wrapper message ends inside an inner message")
        offset, size, crc, inner_magic, attributes = _FRAME.unpack_from(inner, at)
        end = at + 12 + size
        if size < least - 12 or end > len(inner):
            raise _MessageError("a wrapper message ends inside an inner message")
        if inner_magic != magic or attributes & _CODEC:
            raise _MessageError("an inner message is of another format than its wrapper")
        if zlib.crc32(view[at + _CRC_FROM : end]) != crc:
            raise _MessageError("the CRC-32 of an inner message does not match")
        starts.append(at)
        ends.append(end)
        at = end
    if not starts:
        raise _MessageError("a wrapper message holds no message")
    if magic == 0 and offset != wrapper_offset:
        raise _MessageError("the last inner message is not at its wrapper's offset")
    return starts, ends, wrapper_offset - offset


def _columns(
    walk: _Walk, header: np.ndarray, chunk: Chunk, errors: dict[int, str], floor: int
) -> Decoded | None:
    """Every field of every message; None if some make no sense: ``errors`` names them then."""
    arena = join(walk.parts)
    data: Bytes = np.frombuffer(arena, dtype=np.uint8)
    starts = np.array(walk.starts, dtype=np.int64)
    ends = np.array(walk.ends, dtype=np.int64)
    owner = np.array(walk.owners, dtype=np.int64)
    message = fields(data, starts, HEADER)
    versions = message["magic"].astype(np.int64)
    key_at = starts + np.where(versions > 0, KEY_AT[1], KEY_AT[0])
    key_length = fields(data, key_at, _SIZE)["length"].astype(np.int64)
    value_at = np.minimum(key_at + 4 + np.maximum(key_length, 0), len(data) - 4)
    value_length = fields(data, value_at, _SIZE)["length"].astype(np.int64)
    sound = (
        (key_length >= -1)
        & (value_length >= -1)
        & (value_at + 4 + np.maximum(value_length, 0) == ends)
    )
    offset = message["offset"].astype(np.int64) + np.array(walk.shifts, dtype=np.int64)
    sound[1:] &= (offset[1:] > offset[:-1]) | (owner[1:] != owner[:-1])
    if not sound.all():
        for index in np.unique(owner[~sound]).tolist():
            errors[index] = "its checksum is sound but its fields make no sense"
        return None
    batches = _batch_columns(header, chunk, owner, offset)
    if not _ordered(batches, chunk, errors, floor):
        return None
    append_time = batches["log_append_time"]
    wrapped = append_time[owner] & ((header["attributes"][owner] & _CODEC) != 0)
    time = np.where(wrapped, header["timestamp"][owner], message["timestamp"]).astype(np.int64)
    buffer = pa.py_buffer(arena)
    return Decoded(
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


def _ordered(
    batches: dict[str, np.ndarray], chunk: Chunk, errors: dict[int, str], floor: int
) -> bool:
    """Whether offsets only grow; if not, ``errors`` names the messages that break the order."""
    good = np.array([i for i in range(len(chunk.sizes)) if i not in errors], dtype=np.intp)
    first, last = batches["base_offset"][good], batches["last_offset"][good]
    ordered = in_order(first, last, floor=floor, following=chunk.following)
    for index in good[~ordered].tolist():
        errors[index] = "its offsets do not fit between its neighbours'"
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


def _damage(
    chunk: Chunk, header: np.ndarray, errors: dict[int, str], mismatched: set[int]
) -> list[Damage]:
    return [
        Damage(
            kind="corrupt",
            position=int(chunk.positions[index]),
            error=errors[index],
            base_offset=int(header["offset"][index]),
            last_offset=int(header["offset"][index]),
            magic=int(header["magic"][index]),
            crc=int(header["crc"][index]),
            crc_ok=index not in mismatched,
        )
        for index in sorted(errors)
    ]
