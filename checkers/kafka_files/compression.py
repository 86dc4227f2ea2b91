"""Decompress data in Kafka's formats of gzip, snappy, LZ4 and zstd.

Snappy is in xerial's format. LZ4 may have the wrong header checksum of KAFKA-3160. The library is
cramjam: one wheel has all four codecs, and each codec releases the GIL. Every result is a buffer,
which the decoders use without another copy.
"""

import struct
from collections.abc import Callable
from typing import Final

import cramjam
import numpy as np

from highwater.checkers.kafka_files.column_decoding import DamageKind
from highwater.harness.base.wording import count

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""The names of the codecs. A codec's index is in the lowest three bits of the batch's attributes; 5
to 7 are unused."""

SWOLLEN_BYTES_MAX: Final = 128 << 20
"""The largest decompressed size of a batch. Kafka has no such limit. But producers limit a batch
to ``batch.size`` before compression, so a larger batch is a decompression bomb."""

_SWELLS: Final = 16  # the first output buffer has this many times the size of the data
_ROOM_BYTES: Final = 1 << 16
_NO_ROOM: Final = "whole buffer"  # cramjam's error contains these words if the buffer is too small

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_WORD: Final = 0xFFFFFFFF


class CodecError(Exception):
    """The bytes cannot be decompressed. The caller reports damage of this ``kind``."""

    kind: DamageKind = "corrupt"


class TooLargeError(CodecError):
    """The bytes may be valid, but decompress to more than ``SWOLLEN_BYTES_MAX``."""

    kind = "unreadable"


def decompress(codec: int, data: memoryview, *, magic: int) -> memoryview:
    """Return the records inside a compressed batch (v2) or wrapper message (v0, v1).

    Args:
        codec: an index of ``NAMES``. Only v2 allows zstd.
        data: the compressed bytes.
        magic: 0, 1 or 2. In 0 and 1 the checksum of an LZ4 header may be wrong.

    Raises:
        CodecError: the codec is unknown, or does not accept the bytes.
    """
    try:
        match codec:
            case 1:
                return _into(cramjam.gzip.decompress_into, data)
            case 2:
                return _snappy(data)
            case 3:
                frame = _mend_lz4(data) if magic < 2 else data  # noqa: PLR2004
                return _into(cramjam.lz4.decompress_into, frame)
            case 4 if magic == 2:  # noqa: PLR2004
                return _into(cramjam.zstd.decompress_into, data)
    except (cramjam.DecompressionError, ValueError, struct.error, IndexError) as error:
        raise CodecError(f"{NAMES[codec]} data cannot be decompressed: {error}") from error
    raise CodecError(f"message format v{magic} has no compression codec {codec}")


def _into(decompress_into: Callable[..., int], data: memoryview | bytes) -> memoryview:
    """Decompress into a buffer.

    If the buffer is too small, retry with the greatest allowed size.
    """
    room = min(max(_SWELLS * len(data), _ROOM_BYTES), SWOLLEN_BYTES_MAX)
    while True:
        out = np.empty(room, dtype=np.uint8)
        try:
            return out[: decompress_into(data, out)].data
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
            if room == SWOLLEN_BYTES_MAX:
                raise _swollen() from error
        room = SWOLLEN_BYTES_MAX


def _swollen() -> TooLargeError:
    return TooLargeError(
        f"the batch needs more than {SWOLLEN_BYTES_MAX >> 20} MiB after decompression"
    )


def _snappy(data: memoryview) -> memoryview:
    """Decompress snappy data: xerial's stream of raw blocks with sizes, or a single raw block."""
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return memoryview(_raw_snappy(data, SWOLLEN_BYTES_MAX))
    blocks = []
    room = SWOLLEN_BYTES_MAX
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 < size <= len(data) - at:
            raise ValueError(
                f"a snappy block should have {count(size, 'byte')}, but only {len(data) - at:,} "
                "follow"
            )
        blocks.append(_raw_snappy(data[at : at + size], room))
        room -= len(blocks[-1])
        at += size
    return memoryview(b"".join(blocks))


def _raw_snappy(block: memoryview, room: int) -> memoryview:
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise _swollen()
    return memoryview(cramjam.snappy.decompress_raw(block))


def _mend_lz4(data: memoryview) -> bytes:
    """Return the frame with the header checksum that LZ4 specifies.

    Kafka before 0.10 also includes the magic number in this checksum (KAFKA-3160). In message
    format v0, every release does so.
    """
    if bytes(data[:4]) != _LZ4_MAGIC:
        raise ValueError("the bytes are not an LZ4 frame")
    flags = data[4]
    end = 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    checksum = _xxh32(bytes(data[4:end])) >> 8 & 0xFF
    return b"".join((data[:end], bytes((checksum,)), data[end + 1 :]))


def _xxh32(data: bytes) -> int:
    """Return the XXH32 checksum (seed 0) of fewer than 16 bytes, such as a frame header."""
    prime1, prime2, prime3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
    prime4, prime5 = 0x27D4EB2F, 0x165667B1
    whole = len(data) // 4 * 4
    value = prime5 + len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = _rotate(value + word * prime3, 17) * prime4
    for byte in data[whole:]:
        value = _rotate(value + byte * prime5, 11) * prime1
    value &= _WORD
    value = (value ^ value >> 15) * prime2 & _WORD
    value = (value ^ value >> 13) * prime3 & _WORD
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> 32 - bits) & _WORD
