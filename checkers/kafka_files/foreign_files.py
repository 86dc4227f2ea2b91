"""Recognise files whose names are names of segments, but which are not from a Kafka log."""

import mmap
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from itertools import takewhile
from typing import Final

from highwater.checkers.kafka_files.framing import blank, frames, has_batch
from highwater.checkers.kafka_files.segment_files import Segment
from highwater.harness.base.files import open_regular

_OFFSET_BYTES: Final = 8
_BATCHES_MIN: Final = 2
"""The number of batches in a file of which at least one has a valid offset."""
_HEADER_BYTES: Final = 17
"""The number of bytes from a batch's first byte to its format byte (magic), in any format."""
_WORDS_MIN: Final = 16
"""The number of text characters at a file's start which show that the file is no Kafka log."""
_HEAD_BYTES: Final = 1024
_SHOWN_MAX: Final = 40
_SIGNATURES: Final = (
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ\0", "an xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (0, b"\x04\x22\x4d\x18", "an lz4 archive"),
    (0, b"\xff\x06\0\0sNaPpY", "a snappy archive"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"Salted__", "a file that OpenSSL encrypted"),
    (0, b"age-encryption.org/", "a file that age encrypted"),
    (0, b"-----BEGIN PGP", "a file that PGP encrypted"),
    (0, b"version https://git-lfs.github.com/spec/", "a Git LFS pointer (git lfs pull fetches it)"),
)
"""The signatures of other kinds of files: the position, the bytes, and the name of the kind."""

_OTHER_BYTES: Final = "bytes that contain no batch, as in an encrypted file"


def foreign_file(segment: Segment) -> str | None:
    """Return the kind of a file that is no Kafka log; None for a Kafka log.

    A file is a Kafka log if it begins with an offset that its segment can hold. Otherwise it is a
    damaged log if a valid batch follows, unless it begins with text or another kind's signature.
    The module ``reader`` reports files that are empty, consist of zeros, or cannot be read.
    """
    try:
        with open_regular(segment.path) as file:
            head = file.read(_HEAD_BYTES)
            if _may_begin(head, segment):
                return None
            named = next(
                (
                    name
                    for at, signature, name in _SIGNATURES
                    if head[at : at + len(signature)] == signature
                ),
                None,
            )
            if words := named or _text(head):
                return words
            if len(head) < _OFFSET_BYTES:
                return None
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            other = _of_another_segment(data, segment.base_offset)
            if other or blank(data, 0, file.fileno()) or has_batch(data, segment.base_offset):
                return other
            return _OTHER_BYTES
    except OSError:
        return None


def _may_begin(head: bytes, segment: Segment) -> bool:
    """Return whether a file begins with an offset that its segment can hold, and not with zeros."""
    offset = int.from_bytes(head[:_OFFSET_BYTES], signed=True)
    fits = segment.base_offset <= offset < segment.end
    return len(head) >= _OFFSET_BYTES and fits and any(head[:_HEADER_BYTES])


def _of_another_segment(data: memoryview, base: int) -> str | None:
    """Return a description of a log whose offsets are all below ``base``; None for other files.

    ``base`` is the offset in the file's name.
    """
    chunks = list(frames(data, 0, len(data), base))
    batches = [chunk for chunk in chunks if not isinstance(chunk, int)]
    if len(batches) < len(chunks) or sum(len(chunk.positions) for chunk in batches) < _BATCHES_MIN:
        return None
    ends = (0, int(batches[-1].positions[-1]))
    first, last = (int.from_bytes(data[at : at + _OFFSET_BYTES]) for at in ends)
    return (
        f"the log of another segment, of offsets {first} to {last}"
        if first <= last < base
        else None
    )


def _text(head: bytes) -> str | None:
    """Return the kind of a text file and its first characters; None if the bytes are no text."""
    encoding = "utf-16" if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text, whole = head.decode(encoding), True
    except UnicodeDecodeError as error:
        text = head[: error.start].decode(encoding)
        whole = (
            len(head) == _HEAD_BYTES and error.start >= len(head) - 3
        )  # the buffer may end inside a character
    words = "".join(takewhile(lambda char: char.isprintable() or char in "\t\n\r\f", text))
    if not words or (len(words) < _WORDS_MIN and not (whole and words == text)):
        return None
    start = words.lstrip().lower()
    html = start.startswith(("<!doctype html", "<html", "<head"))
    kind = "an HTML page" if html else "XML" if start.startswith("<?xml") else "text"
    kind += " in UTF-16" if encoding == "utf-16" else ""
    beginning = " ".join(words.split())
    more = "…" if len(beginning) > _SHOWN_MAX else ""
    if not beginning:
        return f"{kind} without a word"
    return f'{kind} that begins with "{beginning[:_SHOWN_MAX]}{more}"'
