"""Mutated segments: a finding or a sound record each, never an error, a bomb or a made-up record.

``HIGHWATER_FUZZ=100000`` mutates that many, ``HIGHWATER_SEED=7`` from another seed. What failed
once is kept in ``test_what_failed_once``.
"""

import os
import random
import resource
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cramjam
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.inspection.inspect import inspect
from highwater.checkers.kafka_files import column_decoding, reader
from highwater.checkers.kafka_files.segment_files import Segment
from tests.support.logdirs import batch, brokers, marker, reseal
from tests.support.seeds import FIRST, histories

COUNT: Final = int(os.environ.get("HIGHWATER_FUZZ") or histories(600, 2000))
FIXTURES: Final = Path(__file__).parents[1] / "unit" / "fixtures" / "replicas" / "1"
RSS_BYTES_MAX: Final = 700 << 20
"""Of growth. One batch may decompress to 128 MiB, and its columns take a multiple of that."""

SHOWN: Final = ("offset", "crc", "key", "value", "damage", "position", "leader_epoch")
Mutation = Callable[[bytearray, random.Random], None]


def generated(dice: random.Random) -> bytes:
    """A segment of a few batches of one format and codec, with gaps, epochs and transactions."""
    magic = dice.choice((0, 1, 2, 2))
    codec = dice.choice((0, 0, 1, 2, 3, 4) if magic == 2 else (0, 1, 2, 3) if magic else (0, 1, 2))
    data, offset, epoch = b"", 0, 0
    for _ in range(dice.randint(1, 8)):
        records = [(_some(dice), _some(dice)) for _ in range(dice.randint(1, 6))]
        epoch += dice.random() < 0.2
        if magic == 2 and dice.random() < 0.2:
            data += batch(offset, records, epoch=epoch, producer=(7, 0, 0), transactional=True)
            offset += len(records)
            data += marker(offset, producer=7, commit=dice.random() < 0.5, epoch=epoch)
            offset += 1
            continue
        each = [records] if codec or magic == 2 else [[one] for one in records]
        for some in each:
            data += batch(offset, some, epoch=epoch, codec=codec, magic=magic)
            offset += len(some)
    return data


def _some(dice: random.Random) -> bytes | None:
    length = dice.choice((-1, 0, 1, 5, 20, 300))
    return None if length < 0 else dice.choice((dice.randbytes, _same))(length)


def _same(length: int) -> bytes:
    return b"x" * length


def _flip(data: bytearray, dice: random.Random) -> None:
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _cut(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data)) :]


def _insert(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at:at] = dice.randbytes(dice.randint(1, 100))


def _duplicate(data: bytearray, dice: random.Random) -> None:
    start, end = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    at = dice.choice((end, dice.randrange(len(data))))
    data[at:at] = data[start:end]


def _remove(data: bytearray, dice: random.Random) -> None:
    start, end = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    del data[start:end]


def _zero(data: bytearray, dice: random.Random) -> None:
    start, end = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    data[start:end] = bytes(end - start)


def _swap(data: bytearray, dice: random.Random) -> None:
    a, b = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    length = min(dice.randint(1, 64), b - a, len(data) - b)
    data[a : a + length], data[b : b + length] = data[b : b + length], data[a : a + length]


def _number(data: bytearray, dice: random.Random) -> None:
    """Another number in some batch's offset, length, epoch or whatever follows."""
    at = dice.choice(_starts(bytes(data)) or [0]) + dice.choice((0, 8, 12, 16, 21, 23, 27, 43, 57))
    value = dice.choice((0, 1, -1, 0x7FFFFFFF, -(1 << 31), dice.getrandbits(31)))
    if at + 4 <= len(data):
        data[at : at + 4] = struct.pack(">i", value)


def _batches(data: bytearray, dice: random.Random) -> None:
    """Whole batches left out, twice, or in another order."""
    starts = _starts(bytes(data)) or [0]
    parts = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    if len(parts) > 1:
        one, other = dice.sample(range(len(parts)), 2)
        match dice.randrange(3):
            case 0:
                parts[one], parts[other] = parts[other], parts[one]
            case 1:
                parts.insert(other, parts[one])
            case _:
                del parts[one]
        data[:] = b"".join(parts)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_flip, _flip, _cut, _insert, _duplicate, _remove, _zero, _swap, _number, _batches),
)


def _starts(data: bytes) -> list[int]:
    """Where batches begin, as far as their lengths lead."""
    found, at = [], 0
    while at + 17 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], signed=True) + 12
        if size < 26 or at + size > len(data):
            break
        found.append(at)
        at += size
    return found


def resealed(data: bytes, dice: random.Random) -> bytes:
    """Nonsense under sound checksums: bytes changed, then every checksum made to fit."""
    changed = bytearray(data)
    starts = _starts(data) or [len(data)]
    for at, end in zip(starts, [*starts[1:], len(data)], strict=True):
        new = data[at + 16] == 2
        if dice.random() < 0.5 or end - at < 30:
            continue
        for _ in range(dice.choice((1, 1, 3))):
            changed[dice.randrange(at + (21 if new else 17), end)] = dice.choice(
                (0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256))
            )
        if new:
            changed[at:end] = reseal(changed[at:end])
        else:
            changed[at + 12 : at + 16] = zlib.crc32(changed[at + 16 : end]).to_bytes(4)
    return bytes(changed)


def corpus(dice: random.Random) -> list[bytes]:
    """Segments that brokers wrote, and as many generated ones."""
    written = [path.read_bytes() for path in sorted(FIXTURES.glob("*/*.log"))]
    assert written
    return written + [generated(dice) for _ in written]


def mutated(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 3))):
        if changed:
            dice.choice(MUTATIONS)(changed, dice)
    return bytes(changed)


def read(data: bytes, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
    where = Segment(path="", run="", broker=1, topic="t", partition=0, base_offset=0)
    found = reader._read(memoryview(data), where, start, len(data) if stop is None else stop)
    return [row for part in found for row in part.select(SHOWN).to_pylist()]


def dice_of(what: str) -> random.Random:
    """The dice of a test, which tells how they can be thrown again."""
    sys.stdout.write(f"HIGHWATER_SEED={FIRST}: {what}\n")
    return random.Random(FIRST)  # noqa: S311 - no secret


def epochs(data: bytes) -> list[tuple[int, int]]:
    """The leader epochs of a sound log, and where each begins."""
    found: dict[int, int] = {}
    for row in read(data):
        if row["leader_epoch"] is not None:
            found.setdefault(row["leader_epoch"], row["offset"])
    return list(found.items())


def rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.drawn
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_reading_ends_in_records_or_findings_and_in_bounded_memory() -> None:
    dice = dice_of(f"{COUNT} segments")
    before, segments = rss_bytes(), corpus(dice)
    for number in range(COUNT):
        data = dice.choice(segments)
        changed = resealed(data, dice) if number % 4 == 0 else mutated(data, dice)
        if number % 4 == 3:
            changed = mutated(resealed(data, dice), dice)
        try:
            rows = read(changed)
            offsets = [row["offset"] for row in rows if row["offset"] is not None]
            assert offsets == sorted(set(offsets)), "offsets do not only grow"
            if not any(row["damage"] for row in rows):
                assert sum(row["offset"] is None for row in rows) == 0
            if number % 7 == 0 and changed:
                at = dice.randrange(len(changed))
                parts = read(changed, 0, at) + read(changed, at)
                assert _by_place(parts) == _by_place(rows) or (
                    _corrupt(parts) and _corrupt(rows)
                ), at
        except Exception as error:
            raise AssertionError(f"seed {FIRST}, segment {number}: {changed.hex()}") from error
    assert rss_bytes() - before < RSS_BYTES_MAX


def _corrupt(rows: list[dict[str, Any]]) -> bool:
    """Which batches a disorder of several is blamed on may depend on where a split lies."""
    return any(row["damage"] == "corrupt" for row in rows)


def _by_place(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted((row["position"], row["offset"] or -1, str(row["damage"])) for row in rows)


@pytest.mark.drawn
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_mutated_replica_is_never_a_fork(tmp_path: Path, spark: SparkSession) -> None:
    """Two brokers hold one log; a bit of one's disk goes, and the other's is not contradicted."""
    dice = dice_of(f"{COUNT // 10} segments")
    segments = corpus(dice)
    for begin in range(0, max(COUNT // 10, 100), 5000):
        folder = tmp_path / str(begin)
        told = []
        for number in range(begin, min(begin + 5000, max(COUNT // 10, 100))):
            data = dice.choice(segments)
            told.append(mutated(data, dice))
            for broker, log in zip(brokers(folder, 2), (data, told[-1]), strict=True):
                broker.log(f"p{number}-0", log)
                broker.epochs(f"p{number}-0", *epochs(data))
        found = inspect([folder], spark)
        for each in found.partitions:
            changed = told[int(each.topic[1:]) - begin]
            assert each.verdict != "fork", (
                f"seed {FIRST}, {each.topic}: {each.says} {changed.hex()}"
            )


def bomb(codec: int, size: int) -> bytes:
    """A sound batch of one record of ``size`` zeros, as small as its codec makes it."""
    record = bytearray(b"\0\0\0\1")
    record += _varint(size) + bytes(size) + b"\0"
    codecs = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}
    packed = codecs[codec].compress(_varint(len(record)) + bytes(record))
    data = bytearray(batch(0, [(None, b"x")])[:61]) + bytes(packed)
    data[8:12] = (len(data) - 12).to_bytes(4)
    data[22] = codec
    return reseal(data)


def _varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.slow
@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_bomb_is_not_read(codec: int) -> None:
    data = bomb(codec, 200 << 20)
    before = rss_bytes()
    rows = read(data)
    assert [(row["offset"], row["damage"]) for row in rows] == [(None, "unreadable")]
    assert rss_bytes() - before < 300 << 20


def test_batches_that_swell_together_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(batch(at, [(None, bytes(50_000))], codec=1) for at in range(20))
    whole = read(data)
    assert len(whole) == 20
    monkeypatch.setattr("highwater.checkers.kafka_files.record_batch_v2.ARENA_BYTES_MAX", 120_000)
    assert read(data) == whole
    old = b"".join(batch(at, [(None, bytes(50_000))], codec=1, magic=1) for at in range(20))
    whole = read(old)
    monkeypatch.setattr("highwater.checkers.kafka_files.message_set_v0_v1.ARENA_BYTES_MAX", 120_000)
    assert read(old) == whole
    assert column_decoding.ARENA_BYTES_MAX > 120_000


FAILED: Final = {
    "offsets-repeat": (
        """
        00000000000000010000000f6979c94700000000000178000000000000000000
        00000000000014338f103c000000000005787878787800000001780000000000
        0000010000000f6979c9470000000000017800000000
        """,
        [(0, None), (1, None), (None, "corrupt")],
    ),
    "shorter-than-a-header": (
        "0000000000000000000000019f404709011e6a3242",
        [(None, "corrupt")],
    ),
    "varint-beyond-the-end": (
        """
        00000000000000000000003d000000000229fb7dce00000000000000000000ff
        0003e800000000000003e8ffffffffffff80ffffffffffffff000000011600ff
        000a78787878780000
        """,
        [(None, "corrupt")],
    ),
}
"""Segments in hexadecimal that the fuzz found when a check of the reader was taken away: offset and
damage of what it reads of each."""


@pytest.mark.parametrize(("data", "expected"), FAILED.values(), ids=FAILED)
def test_what_failed_once(data: str, expected: list[tuple[int | None, str | None]]) -> None:
    assert [(row["offset"], row["damage"]) for row in read(bytes.fromhex(data))] == expected
