"""Decode columns of many records at once, without a loop over records, in every on-disk format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from highwater.harness.runs.history import record_id

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

DamageKind = Literal["torn", "zeros", "empty", "corrupt", "unreadable"]

PADDING: Final = bytes(32)
"""The zero bytes after the joined bytes of batches (an arena). A field that ends too late reads
these zeros, without an error."""

_VARINT_BYTES_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A range of a segment without a valid record.

    Attributes:
        kind: three kinds are normal: ``torn`` (the file ends inside its last batch, because the
            writer was killed), ``zeros`` (a preallocated end of the file) and ``empty`` (compaction
            removed all records of a batch, but not the batch). ``corrupt`` and ``unreadable`` are
            anomalies.
        position: the byte in the file at which the range begins.
        error: a description of the damage.
        base_offset, last_offset: the offsets in the batch's header. The header may be damaged, too.
        crc_ok: False if the checksum does not match; None if there is no checksum.
    """

    kind: DamageKind
    position: int
    error: str
    base_offset: int | None = None
    last_offset: int | None = None
    magic: int | None = None
    crc: int | None = None
    crc_ok: bool | None = None


class Flaw(NamedTuple):
    """The reason why a batch is not decoded."""

    says: str
    kind: DamageKind = "corrupt"


Flaws = dict[int, Flaw]

MISPLACED: Final = (
    "the batch's offsets are not between the offsets of the batches before and after it"
)

BATCH_BYTES_MAX: Final = 128 << 20
"""The greatest size of a batch that is read. A larger batch is reported as ``unreadable``, because
a batch is decoded in one step."""

ARENA_BYTES_MAX: Final = 64 << 20
"""The greatest decompressed size of a chunk (several batches). A larger chunk is split into
halves."""


class ArenaFullError(Exception):
    """A chunk of several batches decompresses to more than ``ARENA_BYTES_MAX``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive batches in formats of one family (v0 and v1, or v2), not yet decoded.

    Attributes:
        legacy: true for v0 and v1.
        positions: the byte in the file at which each batch begins.
        sizes: the size of each batch in bytes, including its offset and length fields.
        following: the least offset that the next batch or segment may have.
        context: true if the chunk is before the range to read. Only its last offset is used: all
            offsets in the range must be greater.
    """

    legacy: bool
    positions: Ints
    sizes: Ints
    following: int
    context: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedColumns:
    """The records of a chunk, as columns.

    Attributes:
        batches: one value per batch for columns of ``reader.SCHEMA`` and for ``codec``.
        owner: the index of every record's batch.
        offset: the absolute offset of every record. In the next three columns, -1 means no value.
        damage: the batches that are not decoded, with the reason.
        last: the greatest offset of any valid batch; None without a valid batch.
    """

    batches: dict[str, npt.NDArray[np.generic]]
    owner: Ints
    offset: Ints
    timestamp_ms: Ints
    sequence: Ints
    crc: Ints
    key: pa.BinaryArray
    value: pa.BinaryArray
    damage: list[Damage]
    last: int | None


def varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Return the zigzag varints of up to 64 bits at the positions ``at``, and their end positions.

    The value is undefined if the bytes are not a varint.
    """
    at = np.minimum(at, len(data) - _VARINT_BYTES_MAX)
    first = data[at]
    value = (first & 0x7F).astype(np.uint64)
    at = at + 1
    more = np.flatnonzero(first > 0x7F)  # noqa: PLR2004
    for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
        if not more.size:
            break
        byte = data[at[more]]
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[more] += 1
        more = more[byte > 0x7F]  # noqa: PLR2004
    return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64), at


def fields(data: Bytes, at: Ints, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Return the fixed-size structures of type ``dtype`` at the positions ``at``."""
    window = np.lib.stride_tricks.sliding_window_view(data, dtype.itemsize)
    return np.ascontiguousarray(window[at]).view(dtype)[:, 0]


def slices(data: pa.Buffer, start: Ints, length: Ints) -> pa.BinaryArray:
    """Return ``data[start : start + length]`` for every row; null if the length is negative.

    Rows must be in order and must not overlap. The function makes an Arrow array in which rows and
    gaps alternate. Then it takes every second element, with one copy and no loop.
    """
    rows = len(start)
    bounds = np.empty(2 * rows, dtype=np.int64)
    bounds[0::2] = start
    bounds[1::2] = start + np.maximum(length, 0)
    offsets = pa.py_buffer(np.append(bounds, bounds[-1:]))
    spans = pa.Array.from_buffers(pa.large_binary(), 2 * rows, [None, offsets, data])
    value_column = column(np.arange(0, 2 * rows, 2), pa.int64(), null=length < 0)
    return spans.take(value_column).cast(pa.binary())


def column(values: np.ndarray, kind: pa.DataType, *, null: Mask | None = None) -> pa.Array:
    """Return an Arrow column of numbers, without a copy if the numbers have the right width.

    ``pa.array`` does the same, but imports pandas, which is slow in every Spark worker.
    """
    if pa.types.is_boolean(kind):
        data = np.packbits(values, bitorder="little")
    else:
        data = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    valid = None
    if null is not None and null.any():
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def texts(values: Sequence[str]) -> pa.StringArray:
    """Return a short Arrow column of strings, without pandas."""
    encoded = [value.encode() for value in values]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """The checksum of a format.

    Attributes:
        name: its name in messages.
        owner: the part of a batch that has the checksum, in messages.
        at: the checksum's position in a batch or message.
        covers_from: the first byte that the checksum covers.
        compute: a function that returns the checksum of bytes.
    """

    name: str
    owner: str
    at: int
    covers_from: int
    compute: Callable[[memoryview], int]


def mismatches(
    data: memoryview, chunk: Chunk, stored: Ints, checksum: Checksum, flaws: Flaws
) -> set[int]:
    """Return the indices of the batches or messages with a wrong checksum.

    The function adds these batches, and batches that are too large, to ``flaws``.
    """
    wrong = set()
    spans = zip(chunk.positions.tolist(), chunk.sizes.tolist(), stored.tolist(), strict=True)
    for index, (position, size, stated) in enumerate(spans):
        if size > BATCH_BYTES_MAX:
            flaws[index] = Flaw(
                f"the batch has {size:,} bytes, but the reader decodes at most {BATCH_BYTES_MAX:,}",
                "unreadable",
            )
            continue
        computed = checksum.compute(data[position + checksum.covers_from : position + size])
        if computed != stated:
            wrong.add(index)
            flaws[index] = Flaw(
                f"the computed {checksum.name} is {computed:#010x}, but the {checksum.owner} has "
                f"{stated:#010x}"
            )
    return wrong


def in_order(first: Ints, last: Ints, *, floor: int, following: int) -> Mask:
    """Return a mask of the batches whose offsets are in order. No CRC covers offsets.

    Args:
        first: the first offset in each batch's header.
        last: the last offset in each batch's header.
        floor: the least offset allowed.
        following: the first offset after the last batch.
    """
    sound = np.ones(len(first), dtype=np.bool_)
    follows = np.append(first[1:], following)
    before = np.insert(last[:-1], 0, floor - 1)
    if np.all((first > before) & (last >= first) & (follows > last)):
        return sound
    least = floor
    for index in range(len(first)):
        starts, ends, then = int(first[index]), int(last[index]), int(follows[index])
        leaps = (
            starts != least and least <= then <= ends
        )  # without this batch, the order of the offsets is correct
        sound[index] = starts >= least and ends >= starts and not leaps
        if sound[index]:
            least = ends + 1
    return sound


def check_order(first: Ints, last: Ints, flaws: Flaws, *, floor: int, following: int) -> None:
    """Add to ``flaws`` every batch whose offsets overlap those of its valid neighbours."""
    sound = usable(len(first), flaws)
    fits = in_order(first[sound], last[sound], floor=floor, following=following)
    for index in sound[~fits].tolist():
        flaws[index] = Flaw(MISPLACED)


def usable(batches: int, flaws: Flaws) -> npt.NDArray[np.intp]:
    """Return the indexes of the batches that are not in ``flaws``."""
    return np.array([index for index in range(batches) if index not in flaws], dtype=np.intp)


def left_out(
    chunk: Chunk,
    header: np.ndarray,
    claims: Mapping[int, tuple[int, int | None]],
    flaws: Flaws,
    mismatched: set[int],
) -> list[Damage]:
    """Return a ``Damage`` for each batch that is not decoded.

    Args:
        claims: the first and the last offset in each batch's header, by batch index.
        flaws: the batches that are not decoded, with the reason.
        mismatched: the batches with a wrong checksum.
    """
    return [
        Damage(
            kind=flaws[index].kind,
            position=int(chunk.positions[index]),
            error=flaws[index].says,
            base_offset=claims[index][0],
            last_offset=claims[index][1],
            magic=int(header["magic"][index]),
            crc=int(header["crc"][index]),
            crc_ok=index not in mismatched,
        )
        for index in sorted(flaws)
    ]


def record_ids(values: pa.BinaryArray) -> pa.StringArray:
    """Return ``harness.runs.history.record_id`` of every value; null if the value is null."""
    ids = pc.list_element(pc.split_pattern(values, b"|", max_splits=1), 0)
    try:
        return ids.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else record_id(value) for value in ids.to_pylist()]
        return pa.array(texts, pa.string())


def join(parts: Sequence[object]) -> bytes:
    """Return one buffer (an arena): all parts in sequence, with padding at its end."""
    return b"".join((*parts, PADDING))  # type: ignore[arg-type]
