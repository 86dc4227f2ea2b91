"""Split a segment's bytes into batches, and describe bytes in which no batch begins."""

import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from highwater.checkers.kafka_files import message_set_v0_v1, record_batch_v2
from highwater.checkers.kafka_files.column_decoding import (
    ArenaFullError,
    Chunk,
    Damage,
    DecodedColumns,
)
from highwater.harness.base.wording import count

CHUNK_BYTES: Final = 1 << 21
"""The number of bytes of a file that are decoded together. For compressed batches the limit is a
quarter of this number. Larger decompressed data would not fit into the processor's caches."""

_FRAME: Final = struct.Struct(">qi4xb")  # offset, length, (epoch or checksum), magic
_OFFSET_AND_LENGTH: Final = 12
_WINDOW_BYTES: Final = 1 << 20
_SEARCH_BYTES_MAX: Final = (
    64 << 20
)  # the greatest number of bytes in which the next batch after a broken batch is searched
_TRIALS_MAX: Final = 1000  # the greatest number of positions in these bytes that are tried
_CHECKSUMS: Final = (
    *(message_set_v0_v1.CHECKSUM, message_set_v0_v1.CHECKSUM, record_batch_v2.CHECKSUM),
)
_LEAST: Final = (26, 34, 61)  # the size in bytes of each format's smallest batch
_CODEC_AT: Final = (17, 17, 22)  # the position in each format's batch of the byte with the codec
_CODEC: Final = 0x07


def decode(data: memoryview, chunk: Chunk, floor: int) -> Iterator[DecodedColumns]:
    """Yield the records of a chunk.

    If they do not fit into one buffer, they are split into several parts. ``floor`` is the least
    allowed offset.
    """
    family = message_set_v0_v1 if chunk.legacy else record_batch_v2
    try:
        whole = family.decode(data, chunk, floor=floor)
    except ArenaFullError:
        positions, sizes, middle = chunk.positions, chunk.sizes, len(chunk.positions) // 2
        (offset,) = struct.unpack_from(">q", data, int(positions[middle]))
        first = replace(chunk, positions=positions[:middle], sizes=sizes[:middle], following=offset)
        rest = replace(chunk, positions=positions[middle:], sizes=sizes[middle:])
        for part in (first, rest):
            for decoded in decode(data, part, floor):
                floor = floor if decoded.last is None else decoded.last + 1
                yield decoded
    else:
        yield whole


def frames(data: memoryview, start: int, stop: int, limit: int) -> Iterator[Chunk | int]:
    """Find batches by their lengths, and yield chunks of batches in formats of one family.

    The first chunk is a context chunk: up to two batches before ``start``. If no complete batch
    begins at a position, the function yields this position and ends.

    Args:
        data: the segment.
        start: batches that begin before this byte are left out.
        stop: batches that begin at this byte or after it are left out.
        limit: the first offset that cannot be in the segment.
    """
    context: list[int] = []
    positions: list[int] = []
    legacy, at, full, end, following = False, 0, 0, len(data), limit
    frame = _FRAME.unpack_from
    while end - at >= _FRAME.size:
        offset, length, magic = frame(data, at)
        behind = at + length + _OFFSET_AND_LENGTH
        if not (0 <= magic < len(_LEAST) and at + _LEAST[magic] <= behind <= end):
            break
        if at >= stop:
            following = offset
            break
        family = magic < 2  # noqa: PLR2004
        if at < start:
            context = [*context[-1:], at] if family == legacy else [at]
            legacy = family
            at = behind
            continue
        if context:
            yield _chunk(context, at, legacy=legacy, following=offset, context=True)
            context = []
        if positions and (at >= full or family != legacy):
            yield _chunk(positions, at, legacy=legacy, following=offset)
            positions = []
        if not positions:
            legacy = family
            full = at + (CHUNK_BYTES >> 2 * bool(data[at + _CODEC_AT[magic]] & _CODEC))
        positions.append(at)
        at = behind
    if positions:
        yield _chunk(positions, at, legacy=legacy, following=following)
    if start <= at < min(stop, end):
        yield at


def _chunk(
    positions: list[int], end: int, *, legacy: bool, following: int, context: bool = False
) -> Chunk:
    bounds = np.array([*positions, end], dtype=np.int64)
    return Chunk(
        legacy=legacy,
        positions=bounds[:-1],
        sizes=np.diff(bounds),
        following=following,
        context=context,
    )


def tail(data: memoryview, at: int, file: int | None, floor: int) -> Damage:
    """Return the damage of the bytes from ``at`` on, where no complete batch begins.

    Args:
        data: the segment.
        at: the byte at which ``frames`` ended.
        file: the descriptor of the file with ``data``, to find its holes (unwritten parts).
        floor: the least allowed offset.
    """
    left = len(data) - at
    if blank(data, at, file):
        return Damage(kind="zeros", position=at, error=f"{left} preallocated bytes are unused")
    if left < _FRAME.size:
        return Damage(
            kind="torn",
            position=at,
            error=f"the file ends after {count(left, 'byte')} of a batch's header",
        )
    offset, length, magic = _FRAME.unpack_from(data, at)
    size = length + _OFFSET_AND_LENGTH
    if not 0 <= magic < len(_LEAST):
        error = (
            f"a batch has format {magic}, which does not exist; {count(left, 'byte')} cannot be "
            "read"
        )
    elif size < _LEAST[magic]:
        few = f"a batch should have {count(size, 'byte')}, which are too few"
        error = f"{few} for a batch; {count(left, 'byte')} cannot be read"
    elif _whole(data, at, magic):
        error = (
            f"a batch should have {count(size, 'byte')}, but {left:,} follow, and its checksum "
            "matches these"
        )
    elif _another_batch(data, at + 1, offset, magic):
        error = (
            f"a batch should have {count(size, 'byte')}, but {left:,} follow, and these contain "
            "more batches"
        )
    elif offset < floor:
        error = f"the last batch has offset {offset}, but {floor} is the least possible offset"
    else:
        error = (
            f"the file has only {left:,} of the last batch's {count(size, 'byte')}; the rest was "
            "never written"
        )
        return Damage(kind="torn", position=at, error=error, base_offset=offset, magic=magic)
    return Damage(kind="corrupt", position=at, error=error, base_offset=offset, crc_ok=False)


def blank(data: memoryview, at: int, file: int | None) -> bool:
    """Return whether all bytes from ``at`` on are zeros. The holes of a sparse file are skipped."""
    while at < len(data):
        if file is not None:
            try:
                at = max(at, os.lseek(file, at, os.SEEK_DATA))
            except OSError as error:
                return error.errno == errno.ENXIO  # a hole up to the end
        window = data[at : at + _WINDOW_BYTES]
        if np.frombuffer(window, dtype=np.uint8).any():
            return False
        at += len(window)
    return True


def _whole(data: memoryview, at: int, magic: int) -> bool:
    """Return whether the checksum matches all bytes from ``at`` on.

    Then only the length of the batch is wrong.
    """
    if len(data) - at < _LEAST[magic]:
        return False
    checksum = _CHECKSUMS[magic]
    stored = int.from_bytes(data[at + checksum.at :][:4])
    return checksum.compute(data[at + checksum.covers_from :]) == stored


def _another_batch(data: memoryview, begin: int, offset: int, magic: int) -> bool:
    """Return whether a valid batch with a greater offset follows.

    Then the length of the batch before it is wrong.
    """
    end = min(len(data), begin + _SEARCH_BYTES_MAX)
    trials = 0
    for start in range(begin, end, _WINDOW_BYTES):
        window = np.frombuffer(data[start : start + _WINDOW_BYTES + _FRAME.size], dtype=np.uint8)
        for at in (start + _framed(window, len(data) - start, offset, magic)).tolist():
            trials += 1
            if trials > _TRIALS_MAX:
                return False
            size = _FRAME.unpack_from(data, at)[1] + _OFFSET_AND_LENGTH
            chunk = _chunk([at], at + size, legacy=magic < 2, following=1 << 62)  # noqa: PLR2004
            if any(len(decoded.owner) for decoded in decode(data, chunk, 0)):
                return True
    return False


def has_batch(data: memoryview, base: int) -> bool:
    """Return whether a file begins with a batch, valid or not, or contains a valid batch later.

    ``base`` is the least offset that the later batch may have.
    """
    if not isinstance(next(frames(data, 0, 1, base), 0), int):
        return True
    return any(_another_batch(data, 1, base - 1, magic) for magic in range(len(_LEAST)))


def _framed(window: np.ndarray, left: int, offset: int, magic: int) -> np.ndarray:
    """Return the positions where a batch with an offset soon after ``offset`` may begin."""
    if len(window) < _FRAME.size:
        return np.empty(0, dtype=np.int64)
    frames = np.lib.stride_tricks.sliding_window_view(window, _FRAME.size)
    places = np.flatnonzero(frames[:, 16] == magic)
    headers = np.ascontiguousarray(frames[places, :12])
    claimed = headers[:, :8].view(">i8")[:, 0].astype(np.int64)
    size = headers[:, 8:].copy().view(">i4")[:, 0].astype(np.int64) + _OFFSET_AND_LENGTH
    # Each offset needs at least one byte. A greater offset is not a batch, but a coincidence.
    soon = (claimed > offset) & (claimed <= min(offset, (1 << 63) - 1 - left) + left)
    return places[soon & (size >= _LEAST[magic]) & (size <= left - places)]
