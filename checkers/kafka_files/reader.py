"""Kafka's log segments as Arrow tables, without Spark: every record of a ``.log`` file.

A broken segment is a finding, never an exception: sound batches are read, and each damaged range
    yields one row with a null ``offset``, its ``damage`` and an ``error``.
"""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.kafka_files.column_decoding import (
    Damage,
    DecodedColumns,
    Mask,
    column,
    record_ids,
    texts,
)
from highwater.checkers.kafka_files.compression import NAMES
from highwater.checkers.kafka_files.framing import decode, frames, tail
from highwater.checkers.kafka_files.segment_files import FILE_BYTES_MAX, SEGMENT, Segment, limited
from highwater.harness.base.files import open_regular

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("broker", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segment", pa.int64()),  # base offset, as the file's name says
        pa.field("position", pa.int64()),  # of the batch in the file, bytes
        pa.field("base_offset", pa.int64()),  # of the batch, or the compressed wrapper
        pa.field("last_offset", pa.int64()),  # compaction may have removed that record
        pa.field("offset", pa.int64()),  # null: no record but a finding, see damage
        pa.field("magic", pa.int32()),  # 0, 1, 2
        pa.field("leader_epoch", pa.int32()),  # null: before v2
        pa.field("producer_id", pa.int64()),  # null: not idempotent, as the next two
        pa.field("producer_epoch", pa.int32()),
        pa.field("sequence", pa.int32()),
        pa.field("timestamp_ms", pa.int64()),  # null: none
        pa.field("log_append_time", pa.bool_()),  # the broker's clock, not the producer's
        pa.field("compression", pa.string()),  # none, gzip, snappy, lz4, zstd
        pa.field("transactional", pa.bool_()),
        pa.field("control", pa.bool_()),
        pa.field("control_type", pa.string()),  # abort, commit; null: not a control record
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("record_id", pa.string()),  # harness.runs.history.record_id; null for markers
        pa.field("crc", pa.int64()),  # as stored: of the message before v2, of the batch in v2
        pa.field("crc_ok", pa.bool_()),  # null: there was no checksum to check
        pa.field("damage", pa.string()),  # torn, zeros, empty (all ordinary), corrupt, unreadable
        pa.field("error", pa.string()),  # what the damage is, for a person
    ]
)

_MINUS_ONE_IS_NULL: Final = frozenset(
    ("leader_epoch", "producer_id", "producer_epoch", "sequence", "timestamp_ms")
)
_NAMES: Final = texts(NAMES)
_CONTROL_TYPES: Final = {b"\0\0": "abort", b"\0\1": "commit"}


def read_partition(folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield the records of one replica, ``replicas/<broker id>/<topic>-<partition>``, in order."""
    names = (path for path in folder.glob("*.log") if SEGMENT.fullmatch(path.name))
    for segment in limited([Segment.at(path) for path in names]):
        yield from read_segment(segment)


def read_segment(
    segment: Path | Segment, *, start: int = 0, stop: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one segment as batches of ``SCHEMA``.

    Args:
        segment: the file, or one from ``segments``. start: batches that begin before this byte are
            left out. stop: batches that begin at this byte or behind it are left out; None reads to
            the end.

    Rows come in order of offset; the findings of a range of the file come behind its records.
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
    """Yield the same from an open file."""
    whole = file.seek(0, os.SEEK_END)
    if stop is not None and stop > whole:
        error = f"the file had {stop:,} bytes and has {whole:,}"
        yield _findings([Damage(kind="unreadable", position=whole, error=error)], where)
        return
    if not whole:
        return
    size = min(whole, FILE_BYTES_MAX)
    data = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
    stop = size if stop is None else stop
    yield from _read(data, where, start, stop, file.fileno())
    if size < whole and start == 0:
        error = f"the file has {whole:,} bytes; no segment has more than {size:,}"
        yield _findings([Damage(kind="corrupt", position=size, error=error)], where)


def _read(
    data: memoryview, where: Segment, start: int, stop: int, file: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batches that begin in ``start`` to ``stop``.

    Args:
        file: the descriptor of the file behind ``data``, for finding its holes.
    """
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
    """Return a table of ``SCHEMA`` from decoded columns."""
    rows = len(decoded.owner)
    numbers = {
        name: values[decoded.owner] for name, values in decoded.batches.items() if name != "codec"
    }
    for name in ("offset", "timestamp_ms", "sequence", "crc"):
        numbers[name] = getattr(decoded, name)
    columns = {
        name: column(values, SCHEMA.field(name).type, null=_none(name, values))
        for name, values in numbers.items()
    }
    codecs = column(decoded.batches["codec"][decoded.owner], pa.int8())
    columns |= {
        "compression": pa.DictionaryArray.from_arrays(codecs, _NAMES).dictionary_decode(),
        "control_type": _control_types(columns["control"], decoded.key),
        "key": decoded.key,
        "value": decoded.value,
        "record_id": record_ids(decoded.value),
        "crc_ok": column(np.ones(rows, dtype=np.bool_), pa.bool_()),
    }
    if numbers["control"].any():
        columns["record_id"] = pc.if_else(columns["control"], None, columns["record_id"])
    return _table(columns, rows, where)


def _none(name: str, values: np.ndarray) -> Mask | None:
    """Return where -1 stands for no value."""
    return values == -1 if name in _MINUS_ONE_IS_NULL else None


def _control_types(control: pa.Array, key: pa.BinaryArray) -> pa.StringArray:
    """Return the type in a control record's key: 0 abort, 1 commit, more in KRaft's own log."""
    if not control.true_count:
        return pa.nulls(len(control), pa.string())
    pairs = zip(control.to_pylist(), key.to_pylist(), strict=True)
    names = [
        _CONTROL_TYPES.get(data[2:4], f"type {int.from_bytes(data[2:4])}") if yes and data else None
        for yes, data in pairs
    ]
    return pa.array(names, pa.string())


def _findings(damage: list[Damage], where: Segment) -> pa.RecordBatch:
    names = ("position", "base_offset", "last_offset", "magic", "crc", "crc_ok", "error")
    columns = {
        name: pa.array([getattr(part, name) for part in damage], SCHEMA.field(name).type)
        for name in names
    }
    columns["damage"] = pa.array([part.kind for part in damage])
    return _table(columns, len(damage), where)


def _table(columns: dict[str, pa.Array], rows: int, where: Segment) -> pa.RecordBatch:
    """Add the columns of the rows' origin, and nulls for missing columns."""
    for name in ("run", "topic"):
        columns[name] = pa.repeat(texts([getattr(where, name)])[0], rows)
    for name, value in (
        *(("broker", where.broker), ("partition", where.partition)),
        ("segment", where.base_offset),
    ):
        columns[name] = column(np.full(rows, value), SCHEMA.field(name).type)
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
