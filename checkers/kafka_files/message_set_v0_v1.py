"""Decode message sets in message formats v0 and v1 (Kafka 0.8 to 0.10).

Kafka's classes are LegacyRecord and AbstractLegacyRecordBatch. A compressed set is one wrapper
message whose value holds the inner messages. In v0 inner offsets are absolute. In v1 they count
from the start of the set, and the wrapper has the absolute offset of the last inner message
(KIP-31).
"""

import struct
import zlib
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from highwater.checkers.kafka_files import column_decoding as columns
from highwater.checkers.kafka_files.column_decoding import (
    ARENA_BYTES_MAX,
    Chunk,
    DecodedColumns,
    Flaw,
    Flaws,
    Ints,
    fields,
)
from highwater.checkers.kafka_files.compression import CodecError, decompress

HEADER: Final = np.dtype(
    [
        ("offset", ">i8"),
        ("size", ">i4"),
        ("crc", ">u4"),
        ("magic", "i1"),
        ("attributes", "i1"),
        ("timestamp", ">i8"),  # only in v1; in v0 these are the next bytes, which always exist
    ]
)
KEY_AT: Final = (18, 26)
"""The position of the key's length in a message of v0 and of v1, in bytes from the message's
first byte."""

CHECKSUM: Final = columns.Checksum(
    name="CRC-32",
    owner="message",
    at=12,
    covers_from=16,  # the magic byte
    compute=zlib.crc32,
)
_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_OFFSET_MAX: Final = (1 << 63) - 1
_FRAME: Final = struct.Struct(">qiIbb")
_LENGTH: Final = struct.Struct(">i")
_SIZE: Final = np.dtype([("length", ">i4")])


class _Messages(NamedTuple):
    """Messages without their wrappers, in one buffer. ``shift`` makes their offsets absolute."""

    arena: bytes
    owner: Ints
    starts: Ints
    ends: Ints
    shift: Ints


def decode(data: memoryview, chunk: Chunk, *, floor: int) -> DecodedColumns:
    """Return the records of v0 and v1 messages, including the messages inside wrappers.

    Args:
        data: the segment.
        chunk: messages that are completely in ``data``.
        floor: the least offset allowed.
    """
    header = fields(np.frombuffer(data, dtype=np.uint8), chunk.positions, HEADER)
    flaws: Flaws = {}
    mismatched = columns.mismatches(data, chunk, header["crc"], CHECKSUM, flaws)
    decoded = None
    while decoded is None:  # repeat without the messages whose fields or offsets are impossible
        messages = _unpack(data, chunk, header, flaws)
        decoded = _columns(messages, header, chunk, flaws, floor)
    claims = {index: (int(header["offset"][index]),) * 2 for index in flaws}
    decoded.damage.extend(columns.left_out(chunk, header, claims, flaws, mismatched))
    return decoded


def _unpack(data: memoryview, chunk: Chunk, header: np.ndarray, flaws: Flaws) -> _Messages:
    """Copy every valid message into one buffer.

    The inner messages of a wrapper replace the wrapper.
    """
    parts: list[memoryview] = []
    owners, starts, ends, shifts, size = [], [], [], [], 0
    rows = zip(
        *(chunk.positions.tolist(), chunk.sizes.tolist()),
        *((header["attributes"] & _CODEC).tolist(), header["magic"].tolist()),
        header["offset"].tolist(),
        strict=True,
    )
    for index, (position, length, codec, magic, offset) in enumerate(rows):
        if index in flaws:
            continue
        part = data[position : position + length]
        bounds, shift = [0, length], 0
        if codec:
            try:
                part = decompress(codec, _wrapped(part, magic), magic=magic)
                bounds, shift = _inner(part, magic, offset)
            except CodecError as error:
                flaws[index] = Flaw(str(error), error.kind)
                continue
        if parts and size + len(part) > ARENA_BYTES_MAX:
            raise columns.ArenaFullError
        parts.append(part)
        owners += [index] * (len(bounds) - 1)
        starts += [size + bound for bound in bounds[:-1]]
        ends += [size + bound for bound in bounds[1:]]
        shifts += [shift] * (len(bounds) - 1)
        size += len(part)
    messages = (np.array(column, dtype=np.int64) for column in (owners, starts, ends, shifts))
    return _Messages(columns.join(parts), *messages)


def _wrapped(message: memoryview, magic: int) -> memoryview:
    at = KEY_AT[magic]
    for part in ("key", "value"):
        (length,) = _LENGTH.unpack_from(message, at)
        start, at = at + 4, at + 4 + max(length, 0)
        if length < -1 or at > len(message) - (4 if part == "key" else 0):
            raise CodecError(f"the {part} of a wrapper message is longer than the message")
    return message[start:at]


def _inner(inner: memoryview, magic: int, wrapper_offset: int) -> tuple[list[int], int]:
    """Return the bounds of the inner messages, and the shift that makes their offsets absolute."""
    bounds = [0]
    at, offset, whole = 0, 0, len(inner)
    least = KEY_AT[magic] + 8
    unpack, crc32 = _FRAME.unpack_from, zlib.crc32
    while at < whole:
        if whole - at < least:
            raise CodecError("a wrapper message ends inside an inner message")
        offset, size, crc, inner_magic, attributes = unpack(inner, at)
        end = at + 12 + size
        if end < at + least or end > whole:
            raise CodecError("a wrapper message ends inside an inner message")
        if inner_magic != magic or attributes & _CODEC:
            raise CodecError("the format of an inner message differs from its wrapper's format")
        if crc32(inner[at + CHECKSUM.covers_from : end]) != crc:
            raise CodecError("the CRC-32 of an inner message does not match")
        bounds.append(end)
        at = end
    if not whole:
        raise CodecError("a wrapper message contains no inner message")
    if magic == 0 and offset != wrapper_offset:
        raise CodecError("the offset of the last inner message differs from its wrapper's offset")
    shift = wrapper_offset - offset
    if not -_OFFSET_MAX <= shift <= _OFFSET_MAX:
        raise CodecError(columns.MISPLACED)
    return bounds, shift


def _columns(
    messages: _Messages, header: np.ndarray, chunk: Chunk, flaws: Flaws, floor: int
) -> DecodedColumns | None:
    """Return all fields of all messages.

    If messages are invalid, add them to ``flaws`` and return None.
    """
    data: columns.Bytes = np.frombuffer(messages.arena, dtype=np.uint8)
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
            flaws[index] = Flaw("the message's checksum is valid, but its fields are not")
        return None
    batches = _batch_columns(header, chunk, owner, offset)
    first, last, before = batches["base_offset"], batches["last_offset"], len(flaws)
    columns.check_order(first, last, flaws, floor=floor, following=chunk.following)
    if len(flaws) > before:
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
        key=columns.slices(buffer, key_at + 4, key_length),
        value=columns.slices(buffer, value_at + 4, value_length),
        damage=[],
        last=int(offset.max()) if len(offset) else None,
    )


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
