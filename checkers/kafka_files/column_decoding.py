"""Decoding of whole columns, for both on-disk formats, without a loop over records."""

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
"""Follows every arena, so that a field decoded past the end reads zeros instead of raising."""

_VARINT_BYTES_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A range of a segment that holds no sound record.

    Attributes:
        kind: ``torn`` (the file ends inside its last batch: the writer was killed), ``zeros`` (a
            preallocated tail) and ``empty`` (compaction took every record of a batch, but left the
            batch) are ordinary; ``corrupt`` and ``unreadable`` are not.
        position: byte in the file where it begins.
        error: what is wrong, for a person.
        base_offset: as the batch claims; its first and last offset may be what is damaged.
        crc_ok: False when the checksum does not match; None when there is none to check.
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
    """Why a batch is left out; ``Flaws`` are by the index of the batch in its chunk."""

    says: str
    kind: DamageKind = "corrupt"


Flaws = dict[int, Flaw]

MISPLACED: Final = "its offsets do not fit between its neighbours'"

BATCH_BYTES_MAX: Final = 128 << 20
"""A larger batch is left out, as ``unreadable``: a batch is decoded as a whole."""

ARENA_BYTES_MAX: Final = 64 << 20
"""Decompressed size of a chunk at most; of a larger one each half is decoded alone."""


class ArenaFullError(Exception):
    """A chunk of several batches decompresses to more than ``ARENA_BYTES_MAX``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Neighbouring batches of one family of formats, framed but not decoded.

    Attributes:
        positions: where each begins in the file, bytes.
        sizes: whole size of each, bytes, its offset and length fields included.
        following: the least offset of the next batch or segment.
        context: whether it lies before the range to read, and only gives the least offset there.
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
        batches: one value per batch, by column of ``reader.SCHEMA``; and ``codec``.
        owner: for every record the index of its batch.
        offset: absolute offset of every record; in this and the next three -1 means none.
        damage: the batches that were left out, with the reason.
        last: the greatest offset that any sound batch covers; None without a sound batch.
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
    """Return the zigzag varints of up to 64 bits at the positions ``at``, and where they end.

    The value of bytes that are no varint is undefined.
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
    """Return the fixed-size structure at each of the positions ``at``."""
    window = np.lib.stride_tricks.sliding_window_view(data, dtype.itemsize)
    return np.ascontiguousarray(window[at]).view(dtype)[:, 0]


def slices(data: pa.Buffer, start: Ints, length: Ints) -> pa.BinaryArray:
    """``data[start : start + length]`` of every row as a column; null where length is negative.

    Rows must not overlap and must come in order. The gaps between them become elements of their
    own in an array over the same bytes, and every second one is taken: one copy, and no loop.
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
    """Return an Arrow column over numbers, without a copy where their width is right.

    ``pa.array`` would do, but it imports pandas first: half a second in every Spark worker.
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
    """Return a short column of strings; like ``column``, without pandas."""
    encoded = [value.encode() for value in values]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """The checksum of a format: of what, where it stands, and from where on it covers bytes."""

    name: str
    owner: str
    at: int
    covers_from: int
    compute: Callable[[memoryview], int]


def mismatches(
    data: memoryview, chunk: Chunk, stored: Ints, checksum: Checksum, flaws: Flaws
) -> set[int]:
    """Return batches or messages with a wrong checksum; ``flaws`` gets these, and huge ones."""
    wrong = set()
    spans = zip(chunk.positions.tolist(), chunk.sizes.tolist(), stored.tolist(), strict=True)
    for index, (position, size, stated) in enumerate(spans):
        if size > BATCH_BYTES_MAX:
            flaws[index] = Flaw(f"it has {size:,} bytes, too many to be read", "unreadable")
            continue
        computed = checksum.compute(data[position + checksum.covers_from : position + size])
        if computed != stated:
            wrong.add(index)
            flaws[index] = Flaw(
                f"{checksum.name} is {computed:#010x}, the {checksum.owner} says {stated:#010x}"
            )
    return wrong


def in_order(first: Ints, last: Ints, *, floor: int, following: int) -> Mask:
    """Return which batches stand where offsets only grow: no CRC covers offsets.

    Args:
        first: claimed first offset of each batch.
        last: claimed last offset of each.
        floor: the least offset allowed.
        following: the first offset claimed behind the last batch.
    """
    sound = np.ones(len(first), dtype=np.bool_)
    follows = np.append(first[1:], following)
    before = np.insert(last[:-1], 0, floor - 1)
    if np.all((first > before) & (last >= first) & (follows > last)):
        return sound
    least = floor
    for index in range(len(first)):
        starts, ends, then = int(first[index]), int(last[index]), int(follows[index])
        leaps = starts != least and least <= then <= ends  # without this one all is well
        sound[index] = starts >= least and ends >= starts and not leaps
        if sound[index]:
            least = ends + 1
    return sound


def check_order(first: Ints, last: Ints, flaws: Flaws, *, floor: int, following: int) -> None:
    """Add to ``flaws`` the batches whose offsets do not fit between those of the sound others."""
    sound = usable(len(first), flaws)
    fits = in_order(first[sound], last[sound], floor=floor, following=following)
    for index in sound[~fits].tolist():
        flaws[index] = Flaw(MISPLACED)


def usable(batches: int, flaws: Flaws) -> npt.NDArray[np.intp]:
    """Return the indexes of the batches that are not left out."""
    return np.array([index for index in range(batches) if index not in flaws], dtype=np.intp)


def left_out(
    chunk: Chunk,
    header: np.ndarray,
    claims: Mapping[int, tuple[int, int | None]],
    flaws: Flaws,
    mismatched: set[int],
) -> list[Damage]:
    """Return the batches that are left out.

    Args:
        claims: the first and the last offset that each of them claims, by its index.
        mismatched: those with a wrong checksum.
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
    """Return ``harness.runs.history.record_id`` of every value; null where the value is."""
    ids = pc.list_element(pc.split_pattern(values, b"|", max_splits=1), 0)
    try:
        return ids.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else record_id(value) for value in ids.to_pylist()]
        return pa.array(texts, pa.string())


def join(parts: Sequence[object]) -> bytes:
    """Return an arena: all parts in sequence, and padding at the end."""
    return b"".join((*parts, PADDING))  # type: ignore[arg-type]
