"""Read Kafka's log segments as Arrow tables, without Spark: every record of a ``.log`` file.

A damaged segment raises no exception. The reader yields all valid batches. It yields one row for
each damaged range, with a null ``offset``, its ``damage`` and an ``error``.
"""

import mmap
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.kafka_files.column_decoding import (
    Damage,
    DecodedColumns,
    column,
    record_ids,
    texts,
)
from highwater.checkers.kafka_files.compression import NAMES
from highwater.checkers.kafka_files.framing import decode, frames, tail
from highwater.checkers.kafka_files.segment_files import FILE_BYTES_MAX, SEGMENT, Segment, limited
from highwater.harness.base.files import open_regular
from highwater.harness.runs.topics.record_keys import FIRST_MS, LAST_MS, tombstone_name

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("broker", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segment", pa.int64()),  # the base offset in the file's name
        pa.field("position", pa.int64()),  # the batch's position in the file, in bytes
        pa.field(
            "base_offset", pa.int64()
        ),  # the base offset of the batch, or of the compressed wrapper
        pa.field(
            "last_offset", pa.int64()
        ),  # the last offset of the batch; compaction may have removed its record
        pa.field("offset", pa.int64()),  # null if the row describes damage instead of a record
        pa.field("magic", pa.int32()),  # 0, 1, 2
        pa.field("leader_epoch", pa.int32()),  # null before v2
        pa.field("producer_id", pa.int64()),  # this and the next two: null if not idempotent
        pa.field("producer_epoch", pa.int32()),
        pa.field("sequence", pa.int32()),
        pa.field("timestamp_ms", pa.int64()),  # null without a timestamp
        pa.field("log_append_time", pa.bool_()),  # whether the broker's clock set the timestamp
        pa.field("compression", pa.string()),  # none, gzip, snappy, lz4, zstd
        pa.field("transactional", pa.bool_()),
        pa.field("control", pa.bool_()),
        pa.field(
            "control_type", pa.string()
        ),  # abort, commit; null if the record is not a control record
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("record_id", pa.string()),  # harness.runs.history.record_id; null for markers
        pa.field("crc", pa.int64()),  # the stored checksum: the batch's in v2, else the message's
        pa.field("crc_ok", pa.bool_()),  # null if there was no checksum to check
        pa.field(
            "damage", pa.string()
        ),  # torn, zeros, empty (these are normal), corrupt, unreadable
        pa.field("error", pa.string()),  # a description of the damage
    ]
)

_MINUS_ONE_IS_NULL: Final = frozenset(
    ("leader_epoch", "producer_id", "producer_epoch", "sequence", "timestamp_ms")
)
_NAMES: Final = texts(NAMES)
_CONTROL_TYPES: Final = {b"\0\0": "abort", b"\0\1": "commit"}


def read_partition(folder: Path, *, named_by_keys: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the records of one replica, ``replicas/<broker id>/<topic>-<partition>``, in order."""
    names = (path for path in folder.glob("*.log") if SEGMENT.fullmatch(path.name))
    for segment in limited([Segment.at(path) for path in names]):
        yield from read_segment(replace(segment, named_by_keys=named_by_keys))


def read_segment(
    segment: Path | Segment, *, start: int = 0, stop: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one segment as batches of ``SCHEMA``, in order of offset.

    Rows about damage in a range of the file come after the range's records.

    Args:
        segment: the file, or a segment from ``segments``.
        start: batches that begin before this byte are left out.
        stop: batches that begin at this byte or after it are left out; None reads to the end.
    """
    where = segment if isinstance(segment, Segment) else Segment.at(segment)
    try:
        with open_regular(where.path) as file:
            yield from read_file(file, where, start=start, stop=stop)
    except OSError as error:
        damage = Damage(kind="unreadable", position=0, error=f"cannot be read: {error.strerror}")
        yield _findings([damage], where)


def read_file(
    file: IO[bytes], where: Segment, *, start: int = 0, stop: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of an open segment file; ``read_segment`` describes the result."""
    whole = file.seek(0, os.SEEK_END)
    if stop is not None and stop > whole:
        error = f"the file had {stop:,} bytes, but now it has {whole:,}"
        yield _findings([Damage(kind="unreadable", position=whole, error=error)], where)
        return
    if not whole:
        return
    size = min(whole, FILE_BYTES_MAX)
    data = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
    stop = size if stop is None else stop
    yield from _read(data, where, start, stop, file.fileno())
    if size < whole and start == 0:
        error = f"the file has {whole:,} bytes, but a segment has at most {size:,}"
        yield _findings([Damage(kind="corrupt", position=size, error=error)], where)


def read_bytes(data: bytes, where: Segment) -> Iterator[pa.RecordBatch]:
    """Yield the records of batches in memory; ``read_segment`` describes the result."""
    yield from _read(memoryview(data), where, 0, len(data))


def _read(
    data: memoryview, where: Segment, start: int, stop: int, file: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows of the batches in ``data`` that begin from ``start`` on, and before ``stop``."""
    floor = where.base_offset
    for frame in frames(data, start, stop, where.end):
        if isinstance(frame, int):
            yield _findings([tail(data, frame, file, floor)], where)
            return
        for decoded in decode(data, frame, floor):
            if decoded.last is not None:
                floor = decoded.last + 1
            if len(decoded.owner) and not frame.context:
                yield _records(decoded, where)
            if decoded.damage and not frame.context:
                yield _findings(decoded.damage, where)


def _records(decoded: DecodedColumns, where: Segment) -> pa.RecordBatch:
    rows = len(decoded.owner)
    of_batches = {name: values[decoded.owner] for name, values in decoded.batches.items()}
    codecs = column(of_batches.pop("codec"), pa.int8())
    numbers = of_batches | {
        "offset": decoded.offset,
        "timestamp_ms": decoded.timestamp_ms,
        "sequence": decoded.sequence,
        "crc": decoded.crc,
        "crc_ok": np.ones(rows, dtype=np.bool_),
        "broker": np.full(rows, where.broker),
        "partition": np.full(rows, where.partition),
        "segment": np.full(rows, where.base_offset),
    }
    columns = {
        name: column(
            values,
            SCHEMA.field(name).type,
            null=values == -1 if name in _MINUS_ONE_IS_NULL else None,
        )
        for name, values in numbers.items()
    }
    ids = _with_tombstones(record_ids(decoded.value), decoded)
    if where.named_by_keys:
        ids = pc.coalesce(_texts(decoded.key), ids)
    columns |= {
        "run": pa.repeat(texts([where.run])[0], rows),
        "topic": pa.repeat(texts([where.topic])[0], rows),
        "compression": pa.DictionaryArray.from_arrays(codecs, _NAMES).dictionary_decode(),
        "control_type": _control_types(columns["control"], decoded.key),
        "key": decoded.key,
        "value": decoded.value,
        "record_id": pc.if_else(columns["control"], None, ids) if numbers["control"].any() else ids,
        "damage": pa.nulls(rows, pa.string()),
        "error": pa.nulls(rows, pa.string()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _with_tombstones(ids: pa.StringArray, decoded: DecodedColumns) -> pa.StringArray:
    """Return the record ids. A tombstone's id comes from its key and its timestamp."""
    if not ids.null_count:
        return ids
    time = decoded.timestamp_ms
    of_workload = pa.array((time >= FIRST_MS) & (time < LAST_MS))
    named = pc.and_(pc.and_(ids.is_null(), decoded.key.is_valid()), of_workload)
    if not pc.any(named).as_py():
        return ids
    names = ids.to_pylist()
    for place in np.flatnonzero(named.to_numpy(zero_copy_only=False)).tolist():
        names[place] = tombstone_name(decoded.key[place].as_py(), int(time[place]))
    return pa.array(names, pa.string())


def _texts(keys: pa.BinaryArray) -> pa.StringArray:
    names = (None if key is None else key.decode("utf-8", "replace") for key in keys.to_pylist())
    return pa.array(names, pa.string())


def _control_types(control: pa.Array, key: pa.BinaryArray) -> pa.StringArray:
    """Return the type in each control record's key: 0 is abort, 1 is commit.

    Only KRaft's log has greater types.
    """
    if not control.true_count:
        return pa.nulls(len(control), pa.string())
    pairs = zip(control.to_pylist(), key.to_pylist(), strict=True)
    names = [
        _CONTROL_TYPES.get(data[2:4], f"type {int.from_bytes(data[2:4])}") if yes and data else None
        for yes, data in pairs
    ]
    return pa.array(names, pa.string())


def _findings(damages: list[Damage], where: Segment) -> pa.RecordBatch:
    origin = {
        "run": where.run,
        "broker": where.broker,
        "topic": where.topic,
        "partition": where.partition,
        "segment": where.base_offset,
    }
    rows = [{**origin, **asdict(damage), "damage": damage.kind} for damage in damages]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
