"""Decode record batches in message format v2 (Kafka 0.11 and later, KIP-98).

Kafka's classes are DefaultRecordBatch and DefaultRecord. A Python loop decodes the length of each
record; all other fields are decoded as columns. docs/results.md compares this decoder with
aiokafka's compiled parser.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from aiokafka.record._crecords import crc32c_cython as crc32c

from highwater.checkers.kafka_files import column_decoding as columns
from highwater.checkers.kafka_files.column_decoding import (
    ARENA_BYTES_MAX,
    Chunk,
    DecodedColumns,
    Flaw,
    Flaws,
    Ints,
    varints,
)
from highwater.checkers.kafka_files.compression import CodecError, decompress

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
CHECKSUM: Final = columns.Checksum(
    name="CRC-32C",
    owner="batch",
    at=17,
    covers_from=21,  # the attributes; no checksum covers offset, length, leader epoch and magic
    compute=crc32c,
)
_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_MORE: Final = 0x80  # this bit in a byte of a varint means that another byte follows
_RUN: Final = 256  # the greatest number of records of one size that are skipped at once
_RECORDS_MAX: Final = (
    1 << 22
)  # the greatest number of records in a batch; a batch of 16 KB has a few thousand
_SEQUENCES: Final = 1 << 31
_OFFSET_MAX: Final = (1 << 63) - 1


class _Records(NamedTuple):
    """Each record's batch, and its bytes in a buffer: from ``starts`` to ``ends``."""

    owner: Ints
    starts: Ints
    ends: Ints


def decode(data: memoryview, chunk: Chunk, *, floor: int) -> DecodedColumns:
    """Return the records of v2 batches.

    Args:
        data: the segment.
        chunk: batches that are completely in ``data``.
        floor: the least offset allowed.
    """
    header = columns.fields(np.frombuffer(data, dtype=np.uint8), chunk.positions, HEADER)
    flaws: Flaws = {}
    mismatched = columns.mismatches(data, chunk, header["crc"], CHECKSUM, flaws)
    first = header["base_offset"].astype(np.int64)
    last = first + header["last_offset_delta"]
    columns.check_order(first, last, flaws, floor=floor, following=chunk.following)
    arena, bounds = _unpack(data, chunk, header, flaws)
    decoded = None
    while decoded is None:  # repeat without the batches whose fields are impossible
        records = _walk(arena, bounds, header["count"].tolist(), flaws)
        decoded = _columns(arena, header, records, chunk, flaws)
    empty = np.flatnonzero(header["count"] == 0).tolist()
    flaws = (
        dict.fromkeys(empty, Flaw("compaction removed all records of the batch", "empty")) | flaws
    )
    claims = {index: _claim(header[index]) for index in flaws}
    decoded.damage.extend(columns.left_out(chunk, header, claims, flaws, mismatched))
    return decoded


def _claim(header: np.void) -> tuple[int, int | None]:
    """Return the first and last offset in a batch's header.

    An impossible last offset is None.
    """
    base = int(header["base_offset"])
    end = base + int(header["last_offset_delta"])
    return base, end if -_OFFSET_MAX <= end <= _OFFSET_MAX else None


def _unpack(
    data: memoryview, chunk: Chunk, header: np.ndarray, flaws: Flaws
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return the records of valid batches in one buffer, and (index, start, end) of each batch."""
    parts: list[memoryview] = []
    bounds, at = [], 0
    codecs = (header["attributes"] & _CODEC).tolist()
    spans = zip(chunk.positions.tolist(), chunk.sizes.tolist(), codecs, strict=True)
    for index, (position, size, codec) in enumerate(spans):
        if index in flaws:
            continue
        part = data[position + HEADER.itemsize : position + size]
        if codec:
            try:
                part = decompress(codec, part, magic=2)
            except CodecError as error:
                flaws[index] = Flaw(str(error), error.kind)
                continue
        if parts and at + len(part) > ARENA_BYTES_MAX:
            raise columns.ArenaFullError
        parts.append(part)
        bounds.append((index, at, at + len(part)))
        at += len(part)
    return columns.join(parts), bounds


def _walk(
    arena: bytes, bounds: list[tuple[int, int, int]], counts: list[int], flaws: Flaws
) -> _Records:
    starts: list[int] = []
    owners, sizes, ends = [], [], []
    for index, at, end in bounds:
        if counts[index] > _RECORDS_MAX:
            says = (
                f"the batch should have {counts[index]} records, but the reader decodes at most "
                f"{_RECORDS_MAX}"
            )
            flaws[index] = Flaw(says, "unreadable")
        if index in flaws:
            continue
        before = len(starts)
        stopped = _step(arena, at, end, counts[index], starts)
        if stopped != end:
            del starts[before:]
            flaws[index] = Flaw(
                f"the {counts[index]} records of the batch need fewer bytes than the batch has"
            )
        elif len(starts) > before:
            owners.append(index)
            sizes.append(len(starts) - before)
            ends.append(end)
    rows = np.array(starts, dtype=np.int64)
    stops = np.append(rows[1:], 0)[: len(rows)]
    counted = np.array(sizes, dtype=np.int64)
    stops[np.cumsum(counted) - 1] = ends
    owner = np.repeat(np.array(owners, dtype=np.int64), counted)
    return _Records(owner=owner, starts=rows, ends=stops)


def _step(arena: bytes, at: int, end: int, count: int, starts: list[int]) -> int:
    """Append the start positions of ``count`` records to ``starts``.

    Return the last record's end, or -1 if the records do not fit.
    """
    before = 0
    while count:
        if at >= end:
            return -1
        size, width = arena[at], 1
        if size >= _MORE:
            size, width = _length(arena, at)
        stride = width + (size >> 1)
        if (
            stride == before
        ):  # workloads write records of equal size: find many such records at once
            run = min(count, _alike(arena, at, min(end, at + _RUN * stride), stride, width))
            starts.extend(range(at, at + run * stride, stride))
            at += run * stride
            count -= run
            before = 0
        else:
            starts.append(at)
            at += stride
            count -= 1
            before = stride
    return at


def _length(arena: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned varint at ``at`` (no zigzag decoding), and its size in bytes."""
    size, shift, width = 0, 0, 0
    while True:
        byte = arena[at + width]
        size |= (byte & 0x7F) << shift
        shift += 7
        width += 1
        if byte < _MORE or width == 5:  # noqa: PLR2004 - a varint of 32 bits
            return size, width


def _alike(arena: bytes, at: int, end: int, stride: int, width: int) -> int:
    """Return how many consecutive records from ``at`` on have the same length."""
    columns = [arena[byte:end:stride] for byte in range(at, at + width)]
    return min(len(column) - len(column.lstrip(column[:1])) for column in columns)


def _columns(
    arena: bytes, header: np.ndarray, records: _Records, chunk: Chunk, flaws: Flaws
) -> DecodedColumns | None:
    """Return all fields of all records.

    If a batch has an invalid record, add the batch to ``flaws`` and return None.
    """
    data: columns.Bytes = np.frombuffer(arena, dtype=np.uint8)
    length, at = varints(data, records.starts)
    body = at
    time_delta, at = varints(data, at + 1)  # skip the record's attributes, which are unused
    offset_delta, at = varints(data, at)
    key_length, key_at = varints(data, at)
    key_length = np.clip(key_length, -2, len(data))
    value_length, value_at = varints(data, key_at + np.maximum(key_length, 0))
    value_length = np.clip(value_length, -2, len(data))
    owner = records.owner
    sound = (
        (body + length == records.ends)
        & (
            value_at + np.maximum(value_length, 0) < records.ends
        )  # after the value, at least one byte counts the headers
        & (key_length >= -1)
        & (value_length >= -1)
        & (offset_delta >= 0)
        & (offset_delta <= header["last_offset_delta"][owner])
    )
    sound[1:] &= (offset_delta[1:] > offset_delta[:-1]) | (owner[1:] != owner[:-1])
    if not sound.all():
        for index in np.unique(owner[~sound]).tolist():
            flaws[index] = Flaw("the batch's checksum is valid, but a record in it is not")
        return None
    buffer = pa.py_buffer(arena)
    sequence = header["base_sequence"][owner].astype(np.int64)
    # Without a producer id there is no sequence number: aiokafka writes 0, other clients write -1.
    numbered = (sequence >= 0) & (header["producer_id"][owner] >= 0)
    append_time = (header["attributes"] & _LOG_APPEND_TIME) != 0
    created = header["base_timestamp"].astype(np.int64)[owner] + time_delta
    appended = header["max_timestamp"].astype(np.int64)[owner]
    batches = _batch_columns(header, chunk, append_time)
    last = batches["last_offset"][columns.usable(len(header), flaws)]
    return DecodedColumns(
        batches=batches,
        owner=owner,
        offset=header["base_offset"].astype(np.int64)[owner] + offset_delta,
        timestamp_ms=np.where(append_time[owner], appended, created),
        sequence=np.where(numbered, (sequence + offset_delta) % _SEQUENCES, -1),
        crc=header["crc"].astype(np.int64)[owner],
        key=columns.slices(buffer, key_at, key_length),
        value=columns.slices(buffer, value_at, value_length),
        damage=[],
        last=int(last.max()) if len(last) else None,
    )


def _batch_columns(
    header: np.ndarray, chunk: Chunk, append_time: np.ndarray
) -> dict[str, np.ndarray]:
    attributes = header["attributes"]
    base = header["base_offset"].astype(np.int64)
    return {
        "position": chunk.positions,
        "base_offset": base,
        "last_offset": base + header["last_offset_delta"],
        "magic": header["magic"].astype(np.int32),
        "leader_epoch": header["leader_epoch"].astype(np.int32),
        "producer_id": header["producer_id"].astype(np.int64),
        "producer_epoch": header["producer_epoch"].astype(np.int32),
        "codec": attributes & _CODEC,
        "log_append_time": append_time,
        "transactional": (attributes & _TRANSACTIONAL) != 0,
        "control": (attributes & _CONTROL) != 0,
    }
