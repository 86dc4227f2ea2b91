"""Spark's ``xxhash64``, of whole columns, without Spark.

The scan of a history and Spark's SQL name slots, clients and records by the same numbers, so that
what the one has counted can be joined with what the other looks up. It is XXH64 (Collet,
"xxHash fast digest algorithm"), each column's hash the seed of the next one's, as in Spark's
``org.apache.spark.sql.catalyst.expressions.XxHash64``; a null leaves the hash as it was.
"""

from pathlib import Path
from typing import Any, Final, TypeAlias

import numba
import numpy as np
import pyarrow as pa
from numba.extending import register_jitable
from numpy.typing import NDArray

from checkers.machine_code import kept

Hashes: TypeAlias = NDArray[np.int64]

SEED: Final = 42
"""Spark's, of the first column."""

_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_BYTE: Final = np.uint64(8)
_WIDE: Final = 32  # bytes from which on four lanes are mixed


@register_jitable
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    return np.uint64((word << np.uint64(bits)) | (word >> np.uint64(64 - bits)))


@register_jitable
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return np.uint64(_rotated(np.uint64(lane + word * _P2), 31) * _P1)


@register_jitable
def _mixed(hashed: np.uint64) -> np.uint64:
    hashed = np.uint64((hashed ^ (hashed >> np.uint64(33))) * _P2)
    hashed = np.uint64((hashed ^ (hashed >> np.uint64(29))) * _P3)
    return np.uint64(hashed ^ (hashed >> np.uint64(32)))


@register_jitable
def _little(data: NDArray[np.uint8], at: int, size: int) -> np.uint64:
    """The number that some bytes are."""
    word = np.uint64(0)
    for place in range(size):
        word |= np.uint64(np.uint64(data[at + place]) << np.uint64(8 * place))
    return word


@register_jitable
def _wide(data: NDArray[np.uint8], at: int, end: int, seed: np.uint64) -> np.uint64:
    """The hash of as many bytes as four lanes take, not yet mixed."""
    one, two = np.uint64(seed + _P1 + _P2), np.uint64(seed + _P2)
    three, four = seed, np.uint64(seed - _P1)
    while at + _WIDE <= end:
        one = _round(one, _little(data, at, 8))
        two = _round(two, _little(data, at + 8, 8))
        three = _round(three, _little(data, at + 16, 8))
        four = _round(four, _little(data, at + 24, 8))
        at += _WIDE
    hashed = np.uint64(
        _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
    )
    for lane in (one, two, three, four):
        hashed = np.uint64((hashed ^ _round(np.uint64(0), lane)) * _P1 + _P4)
    return hashed


@register_jitable
def _digest(data: NDArray[np.uint8], at: int, end: int, seed: np.uint64) -> np.uint64:
    size = end - at
    hashed = _wide(data, at, end, seed) if size >= _WIDE else np.uint64(seed + _P5)
    hashed = np.uint64(hashed + np.uint64(size))
    at += size // _WIDE * _WIDE
    while at + 8 <= end:
        hashed ^= _round(np.uint64(0), _little(data, at, 8))
        hashed = np.uint64(_rotated(hashed, 27) * _P1 + _P4)
        at += 8
    if at + 4 <= end:
        hashed ^= np.uint64(_little(data, at, 4) * _P1)
        hashed = np.uint64(_rotated(hashed, 23) * _P2 + _P3)
        at += 4
    while at < end:
        hashed ^= np.uint64(np.uint64(data[at]) * _P5)
        hashed = np.uint64(_rotated(hashed, 11) * _P1)
        at += 1
    return _mixed(hashed)


with kept("hashes", [Path(__file__)]):

    @numba.njit(nogil=True, cache=True)
    def _strings(data: Any, ends: Any, valid: Any, seeds: Any, hashed: Any) -> None:  # noqa: ANN401
        for row in range(len(hashed)):
            hashed[row] = (
                _digest(data, ends[row], ends[row + 1], seeds[row]) if valid[row] else seeds[row]
            )

    @numba.njit(nogil=True, cache=True)
    def _numbers(data: Any, size: int, valid: Any, seeds: Any, hashed: Any) -> None:  # noqa: ANN401
        for row in range(len(hashed)):
            at = row * size
            hashed[row] = _digest(data, at, at + size, seeds[row]) if valid[row] else seeds[row]


def extended(hashes: Hashes | int, column: pa.Array) -> Hashes:
    """Hashes of rows, each with one more column.

    Args:
        hashes: of the columns before, one a row; or ``SEED`` before the first.
        column: of ``string``, ``int32`` or ``int64``, nulls allowed.

    Raises:
        TypeError: it is of another type.
    """
    seeds = np.full(len(column), hashes, np.int64).view(np.uint64)
    valid = _valid(column)
    hashed = np.empty(len(column), np.uint64)
    if pa.types.is_string(column.type):
        _, ends, data = column.buffers()
        offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
        _strings(_bytes(data), offsets, valid, seeds, hashed)
    elif pa.types.is_integer(column.type) and column.type.bit_width in (32, 64):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        data = np.ascontiguousarray(numbers).view(np.uint8)
        _numbers(data, column.type.bit_width // 8, valid, seeds, hashed)
    else:
        raise TypeError(f"{column.type} is not hashed")
    return hashed.view(np.int64)


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _bytes(data: pa.Buffer | None) -> NDArray[np.uint8]:
    """The bytes of a buffer; there is none where all strings are empty."""
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
