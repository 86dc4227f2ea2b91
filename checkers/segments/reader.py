"""Kafka's log segments as Arrow tables, without Spark: every record of a ``.log`` file, or why not.

A broken segment is a finding, never an exception: what is sound is read, and each stretch that is
not yields one row with a null ``offset``, its ``damage`` and an ``error``.
"""

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.segments import batches, messages
from checkers.segments.codecs import NAMES
from checkers.segments.columns import Chunk, Damage, Decoded, Mask, column, record_ids, texts
from harness.errors import UsageError

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("broker", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segment", pa.int64()),  # base offset, as the file's name says
        pa.field("position", pa.int64()),  # of the batch in the file, bytes
        pa.field("base_offset", pa.int64()),  # of the batch, or the compressed wrapper
        pa.field("last_offset", pa.int64()),  # likewise; compaction may have removed that record
        pa.field("offset", pa.int64()),  # null: no record but a finding, see damage
        pa.field("magic", pa.int32()),  # 0, 1, 2
        pa.field("leader_epoch", pa.int32()),  # null: before v2
        pa.field("producer_id", pa.int64()),  # null: not idempotent; likewise the next two
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
        pa.field("record_id", pa.string()),  # harness.history.record_id; null for markers
        pa.field("crc", pa.int64()),  # as stored: of the message before v2, of the batch in v2
        pa.field("crc_ok", pa.bool_()),  # null: there was no checksum to check
        pa.field("damage", pa.string()),  # torn, zeros (both ordinary), corrupt, unreadable
        pa.field("error", pa.string()),  # what the damage is, for a person
    ]
)

CHUNK_BYTES: Final = 1 << 21
"""Batches are decoded together until they fill this many bytes of the file, a quarter of it where
they are compressed: an arena of tens of megabytes falls out of the processor's caches."""

_PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_FRAME: Final = struct.Struct(">qi4xb")  # offset, length, (epoch or checksum), magic
_OFFSET_AND_LENGTH: Final = 12
_LEAST: Final = (26, 34, 61)  # whole bytes of the smallest batch of each format
_CODEC_AT: Final = (17, 17, 22)  # the byte of each format's batch that names its codec
_CODEC: Final = 0x07
_MINUS_ONE_IS_NULL: Final = frozenset(
    ("leader_epoch", "producer_id", "producer_epoch", "sequence", "timestamp_ms")
)
_NAMES: Final = texts(NAMES)
_CONTROL_TYPES: Final = {b"\0\0": "abort", b"\0\1": "commit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One ``.log`` file, and what its place says of it."""

    path: str
    run: str
    broker: int
    topic: str
    partition: int
    base_offset: int

    @classmethod
    def at(cls, path: Path) -> Self:
        """The segment at ``<run>/replicas/<broker id>/<topic>-<partition>/<base offset>.log``.

        Raises:
            UsageError: the path does not end like that.
        """
        home = _PARTITION.fullmatch(path.parent.name)
        broker = path.parent.parent.name
        if not (home and broker.isdecimal() and _SEGMENT.fullmatch(path.name)):
            raise UsageError(
                f"{path} is not the path of a segment",
                hint="Segments lie at replicas/<broker id>/<topic>-<partition>/<base offset>.log.",
            )
        return cls(
            path=str(path),
            run=path.absolute().parents[3].name,
            broker=int(broker),
            topic=home["topic"],
            partition=int(home["partition"]),
            base_offset=int(path.stem),
        )


def segments(replicas: Path) -> list[Segment]:
    """Every segment below a run's ``replicas`` folder, in order; Kafka's internal topics left out.

    Deleted, swapped and cleaned files, and folders about to be deleted, are no part of the log.

    Raises:
        UsageError: there is no such folder.
    """
    if not replicas.is_dir():
        raise UsageError(
            f"{replicas} is not a folder",
            hint="Name the folder replicas of a run; it has one folder a broker id.",
        )
    found = [
        Segment.at(path)
        for path in replicas.glob("*/*/*.log")
        if _SEGMENT.fullmatch(path.name)
        and _PARTITION.fullmatch(path.parent.name)
        and not path.parent.name.startswith("__")
        and path.parent.parent.name.isdecimal()
    ]
    return sorted(found, key=lambda s: (s.broker, s.topic, s.partition, s.base_offset))


def read_partition(folder: Path) -> Iterator[pa.RecordBatch]:
    """The records of one replica, ``replicas/<broker id>/<topic>-<partition>``, in order."""
    for path in sorted(folder.glob("*.log")):
        if _SEGMENT.fullmatch(path.name):
            yield from read_segment(path)


def read_segment(
    segment: Path | Segment, *, start: int = 0, stop: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of one segment as batches of ``SCHEMA``.

    Args:
        segment: the file, or what ``segments`` found.
        start: leave out batches that begin before this byte of the file.
        stop: and those that begin at this byte or behind it; None reads to the end.

    Rows come in order of offset; the findings of a stretch of the file come behind its records.
    """
    where = segment if isinstance(segment, Segment) else Segment.at(segment)
    try:
        with open(where.path, "rb") as file:  # noqa: PTH123 - the path travels to Spark as a string
            size = file.seek(0, 2)
            if not size:
                return
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            yield from _read(data, where, start, size if stop is None else stop)
    except OSError as error:
        damage = Damage(kind="unreadable", position=0, error=f"cannot be read: {error.strerror}")
        yield _findings([damage], where)


def _read(data: memoryview, where: Segment, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    floor = where.base_offset if start == 0 else 0
    for found in _frames(data, start, stop):
        if isinstance(found, Damage):
            yield _findings([found], where)
            return
        decode = messages.decode if found.legacy else batches.decode
        decoded = decode(data, found, floor=floor)
        if decoded.last is not None:
            floor = decoded.last + 1
        if len(decoded.owner):
            yield _records(decoded, where)
        if decoded.damage:
            yield _findings(decoded.damage, where)


def _frames(data: memoryview, start: int, stop: int) -> Iterator[Chunk | Damage]:
    """Walk from batch to batch by their lengths; a damage ends the walk."""
    positions: list[int] = []
    legacy, at, full, end = False, 0, 0, len(data)
    frame = _FRAME.unpack_from
    while end - at >= _FRAME.size and at < stop:
        offset, length, magic = frame(data, at)
        behind = at + length + _OFFSET_AND_LENGTH
        if not (0 <= magic < len(_LEAST) and at + _LEAST[magic] <= behind <= end):
            break
        if positions and (at >= full or (magic < 2) != legacy):  # noqa: PLR2004
            yield _chunk(positions, at, legacy=legacy, following=offset)
            positions = []
        if at >= start:
            if not positions:
                legacy = magic < 2  # noqa: PLR2004
                full = at + (CHUNK_BYTES >> 2 * bool(data[at + _CODEC_AT[magic]] & _CODEC))
            positions.append(at)
        at = behind
    if positions:
        yield _chunk(positions, at, legacy=legacy, following=None)
    if start <= at < min(stop, end):
        yield _tail(data, at)


def _chunk(positions: list[int], end: int, *, legacy: bool, following: int | None) -> Chunk:
    bounds = np.array([*positions, end], dtype=np.int64)
    return Chunk(legacy=legacy, positions=bounds[:-1], sizes=np.diff(bounds), following=following)


def _tail(data: memoryview, at: int) -> Damage:
    """What to say of the bytes from ``at`` on, which do not begin a whole batch."""
    left = len(data) - at
    rest = np.frombuffer(data, dtype=np.uint8)[at:]
    if not rest.any():
        return Damage(kind="zeros", position=at, error=f"{left} preallocated bytes are unused")
    if left < _FRAME.size:
        return Damage(kind="torn", position=at, error=f"{left} bytes of a batch's header, no more")
    offset, length, magic = _FRAME.unpack_from(data, at)
    size = length + _OFFSET_AND_LENGTH
    if not 0 <= magic < len(_LEAST):
        error = f"a batch of format {magic}, which does not exist; {left} bytes cannot be read"
    elif size < _LEAST[magic]:
        error = f"a batch of {size} bytes, which is too few; {left} bytes cannot be read"
    elif _another_batch(rest[1:], offset, magic):
        error = f"a batch of {size} bytes where {left} are left, though more batches follow"
    else:
        error = f"{left} of the last batch's {size} bytes; the rest was never written"
        return Damage(kind="torn", position=at, error=error, base_offset=offset, magic=magic)
    return Damage(kind="corrupt", position=at, error=error, base_offset=offset, crc_ok=False)


def _another_batch(rest: np.ndarray, offset: int, magic: int) -> bool:
    """Whether a sound batch of a greater offset lies in the rest: then a length was broken."""
    if len(rest) < _LEAST[magic]:
        return False
    places = np.flatnonzero(rest[16:] == magic)
    view = memoryview(rest.data)
    for at in places.tolist():
        claimed, length, _ = _FRAME.unpack_from(view, at)
        size = length + _OFFSET_AND_LENGTH
        if not (_LEAST[magic] <= size <= len(rest) - at and 0 < claimed - offset <= len(rest)):
            continue  # an offset takes a byte at least: greater leaps are chance
        one = _chunk([at], at + size, legacy=magic < 2, following=None)  # noqa: PLR2004
        decode = messages.decode if one.legacy else batches.decode
        if len(decode(view, one, floor=0).owner):
            return True
    return False


def _records(decoded: Decoded, where: Segment) -> pa.RecordBatch:
    """A table of ``SCHEMA`` from decoded columns."""
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
    """Where -1 stands for no value."""
    return values == -1 if name in _MINUS_ONE_IS_NULL else None


def _control_types(control: pa.Array, key: pa.BinaryArray) -> pa.StringArray:
    """The second 16 bits of a control record's key: 0 abort, 1 commit, more in KRaft's own log."""
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
        name: pa.array([getattr(each, name) for each in damage], SCHEMA.field(name).type)
        for name in names
    }
    columns["damage"] = pa.array([each.kind for each in damage])
    return _table(columns, len(damage), where)


def _table(columns: dict[str, pa.Array], rows: int, where: Segment) -> pa.RecordBatch:
    """Fill in where the rows come from, and null for what they do not have."""
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
