"""Every message format and codec, as real brokers wrote them, whole, cut, flipped and padded."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record._crecords import DefaultRecordBatchBuilder, LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checkers.kafka_files import framing, reader
from highwater.checkers.kafka_files.column_decoding import in_order, record_ids
from highwater.checkers.kafka_files.reader import read_partition, read_segment
from highwater.checkers.kafka_files.segment_files import Segment, segments
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.history import record_id

FIXTURES = Path(__file__).parents[2] / "fixtures"
SEGMENT = "00000000000000000000.log"
EXPECTED: dict[str, list[dict[str, str]]] = json.loads((FIXTURES / "expected.json").read_text())
SMALL = ["0.10.2.2-none-v0", "0.10.2.2-lz4-v0", "0.10.2.2-none", "0.10.2.2-gzip", "4.3.1-none"]
SMALL += ["0.10.2.2-snappy", "0.11.0.3-snappy", "4.3.1-lz4", "4.3.1-zstd", "4.3.1-transactions"]
COMPARED = ["offset", "position", "timestamp_ms", "crc", "key", "value", "damage"]

Row = dict[str, Any]
Place = Callable[[bytes], Path]


def fixture(topic: str) -> Path:
    return FIXTURES / "replicas" / "1" / f"{topic}-0" / SEGMENT


def rows(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def records(found: Iterable[Row]) -> list[Row]:
    return [row for row in found if row["offset"] is not None]


def findings(found: Iterable[Row]) -> list[str]:
    return [row["damage"] for row in found if row["offset"] is None]


def in_memory(data: bytes) -> list[Row]:
    """What thousands of cuts and flips compare, of a segment that is in no file."""
    where = Segment.at(Path("run/replicas/2/my-events-7") / SEGMENT)
    found = reader._read(memoryview(data), where, 0, len(data))
    return rows(batch.select(COMPARED) for batch in found)


def places(topic: str, starts: Iterable[int]) -> list[int]:
    """Every byte of the first header, the edges of every batch, and a seventh of all the rest.

    Which seventh differs from segment to segment.
    """
    size = fixture(topic).stat().st_size
    edges = {start + at for start in (*starts, size) for at in (-2, -1, 0, 1, 8, 12, 16)}
    rest = range(SMALL.index(topic) % 7, size, 7)
    return sorted({*range(70), *rest, *edges} & set(range(size)))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Puts bytes where a segment lies."""
    folder = tmp_path / "run" / "replicas" / "2" / "my-events-7"
    folder.mkdir(parents=True)

    def write(data: bytes) -> Path:
        (folder / SEGMENT).write_bytes(data)
        return folder / SEGMENT

    return write


def dumped(topic: str) -> list[Row]:
    """Kafka's DumpLogSegments on the same file, in our words."""
    found: list[Row] = []
    batch: dict[str, str] = {}
    for line in EXPECTED[topic]:
        if line["of"] == "batch":
            batch = line
            continue
        legacy = batch["magic"] != "2"
        time = {name: int(line[name]) for name in ("CreateTime", "LogAppendTime") if name in line}
        marker = line.get("endTxnMarker")
        sequence = int(line.get("sequence", -1))
        producer = int(batch.get("producerId", -1))
        found.append(
            {
                "offset": int(line["offset"]),
                "position": int(batch["position"]),
                "last_offset": int(batch["offset" if legacy else "lastOffset"]),
                "magic": int(batch["magic"]),
                "compression": batch["compresscodec"],
                "crc": int(line["crc"] if legacy else batch["crc"]),
                "timestamp_ms": next(iter(time.values()), None),
                "log_append_time": "LogAppendTime" in time,
                "leader_epoch": None if legacy else int(batch["partitionLeaderEpoch"]),
                "producer_id": None if producer < 0 else producer,
                "sequence": None if sequence < 0 else sequence,
                "transactional": batch.get("isTransactional") == "true",
                "control": batch.get("isControl") == "true",
                "control_type": marker and marker.lower(),
                "key": None if marker else line.get("key"),
                "value": None if marker else line.get("payload"),
            }
        )
    return found


@pytest.mark.parametrize("topic", sorted(EXPECTED))
def test_reads_what_kafkas_own_tool_reads(topic: str) -> None:
    found = rows(read_segment(fixture(topic)))
    assert findings(found) == []
    assert all(row["crc_ok"] for row in found)
    for row in found:
        for name in ("key", "value"):
            row[name] = None if row["control"] or row[name] is None else row[name].decode()
    expected = dumped(topic)
    assert len(expected) >= 10
    assert [{name: row[name] for name in expected[0]} for row in found] == expected


def test_fixtures_cover_every_format_and_codec() -> None:
    seen = {(row["magic"], row["compression"]) for topic in EXPECTED for row in dumped(topic)}
    old = ("none", "gzip", "snappy", "lz4")
    assert seen == {(magic, codec) for magic in (0, 1, 2) for codec in old} | {(2, "zstd")}
    assert {row["control_type"] for row in dumped("4.3.1-transactions")} == {
        None,
        "commit",
        "abort",
    }


@pytest.mark.slow
@pytest.mark.parametrize("topic", SMALL)
def test_a_cut_at_any_byte_is_torn_and_keeps_what_is_whole(topic: str) -> None:
    data = fixture(topic).read_bytes()
    whole = records(rows(read_segment(fixture(topic))))
    starts = sorted({row["position"] for row in whole})
    ends = dict(zip(starts, [*starts[1:], len(data)], strict=True))
    for cut in places(topic, starts):
        found = in_memory(data[:cut])
        kept = [row["offset"] for row in whole if ends[row["position"]] <= cut]
        assert [row["offset"] for row in records(found)] == kept
        rest = data[max(start for start in starts if start <= cut) : cut]
        assert findings(found) == ([("torn" if any(rest) else "zeros")] if rest else []), cut


@pytest.mark.slow
@pytest.mark.parametrize("topic", SMALL)
def test_a_flipped_bit_is_found_and_never_read_as_another_record(topic: str) -> None:
    data = fixture(topic).read_bytes()
    whole = records(rows(read_segment(fixture(topic))))
    content = {row["offset"]: (row["crc"], row["key"], row["value"]) for row in whole}
    last = max(row["position"] for row in whole)
    starts = {row["position"] for row in whole}
    epochs = {start + at for start in starts if whole[0]["magic"] == 2 for at in range(12, 16)}
    for at in places(topic, starts):
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at % 8)
        found = in_memory(bytes(flipped))
        if at in epochs:  # under no checksum, and no part of the record
            assert findings(found) == []
        elif (
            not last <= at < last + 8
        ):  # the last base offset is under no checksum and has no successor
            assert set(findings(found)) & {"corrupt", "torn"}, at
        if not last <= at < last + 8:
            for row in records(found):
                assert content[row["offset"]] == (row["crc"], row["key"], row["value"]), at


@pytest.mark.parametrize("topic", SMALL)
def test_a_bad_checksum_says_so_and_the_rest_is_read(topic: str, place: Place) -> None:
    data = bytearray(fixture(topic).read_bytes())
    whole = rows(read_segment(fixture(topic)))
    first, second = sorted({row["position"] for row in whole})[:2]
    data[second - 1] ^= 0x10
    found = rows(read_segment(place(bytes(data))))
    bad = [row for row in found if row["damage"]]
    assert [(row["damage"], row["crc_ok"], row["position"]) for row in bad] == [
        ("corrupt", False, first)
    ]
    rest = [row["offset"] for row in whole if row["position"] != first]
    assert [row["offset"] for row in records(found)] == rest


@pytest.mark.parametrize("topic", ["0.10.2.2-none-v0", "0.10.2.2-lz4", "4.3.1-none"])
def test_a_preallocated_tail_is_no_corruption(topic: str, place: Place) -> None:
    data = fixture(topic).read_bytes()
    for zeros in (1, 11, 17, 5000):
        found = rows(read_segment(place(data + bytes(zeros))))
        assert len(records(found)) == len(dumped(topic))
        assert [(row["damage"], row["position"]) for row in found if row["damage"]] == [
            ("zeros", len(data))
        ]


def test_a_broken_length_is_corrupt_when_batches_follow_and_torn_when_none_does(
    place: Place,
) -> None:
    data = bytearray(fixture("4.3.1-none").read_bytes())
    data[8] = 0x7F
    assert findings(rows(read_segment(place(bytes(data))))) == ["corrupt"]
    data[8] = 0xFF
    assert findings(rows(read_segment(place(bytes(data))))) == ["corrupt"]
    assert findings(rows(read_segment(place(b"\x01" * 500)))) == ["torn"]


def test_garbage_of_an_unknown_format_is_corrupt(place: Place) -> None:
    assert findings(rows(read_segment(place(b"\x09" * 500)))) == ["corrupt"]


def test_a_file_that_cannot_be_read_is_a_finding(place: Place) -> None:
    path = place(b"")
    path.unlink()
    path.mkdir()
    assert findings(rows(read_segment(path))) == ["unreadable"]


def test_place_in_the_run_becomes_columns(place: Place) -> None:
    path = place(fixture("4.3.1-zstd").read_bytes())
    (row, *_) = rows(read_segment(path))
    names = ("run", "broker", "topic", "partition", "segment")
    assert [row[name] for name in names] == ["run", 2, "my-events", 7, 0]


def test_a_partition_is_its_segments_in_order_and_nothing_else(place: Place) -> None:
    folder = place(batch([(0, None, b"a")], 0)).parent
    (folder / "00000000000000000001.log").write_bytes(batch([(0, None, b"b")], 0, base=1))
    (folder / "00000000000000000000.log.deleted").write_bytes(b"\x09" * 99)
    assert [row["value"] for row in rows(read_partition(folder))] == [b"a", b"b"]
    assert [each.base_offset for each in segments(folder.parents[1])] == [0, 1]


def test_records_of_the_users_are_named_by_their_keys(place: Place) -> None:
    records = [(b"a|b", b'{"id": "a|b"}'), (None, b"fence-0-1|..")]
    folder = place(batch([(n, key, value) for n, (key, value) in enumerate(records)], 0)).parent
    found = rows(read_partition(folder, named_by_keys=True))
    assert [row["record_id"] for row in found] == ["a|b", "fence-0-1"]
    assert rows(read_partition(folder))[0]["record_id"] == '{"id": "a'


def test_a_wrong_path_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the path of a segment"):
        list(read_segment(tmp_path / "events.log"))
    with pytest.raises(UsageError, match="is not a directory"):
        segments(tmp_path / "replicas")


@pytest.mark.parametrize("topic", ["0.10.2.2-none", "0.10.2.2-lz4-v0", "4.3.1-gzip"])
def test_splits_read_every_record_once(topic: str) -> None:
    size = fixture(topic).stat().st_size
    whole = rows(read_segment(fixture(topic)))
    for middle in range(0, size + 1, 17):
        parts = [(0, middle), (middle, size)]
        found = [
            row for a, b in parts for row in rows(read_segment(fixture(topic), start=a, stop=b))
        ]
        assert found == whole


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {topic: rows(read_segment(fixture(topic))) for topic in EXPECTED}
    monkeypatch.setattr(framing, "CHUNK_BYTES", 1)
    assert {topic: rows(read_segment(fixture(topic))) for topic in EXPECTED} == whole


def test_formats_may_follow_one_another_in_a_segment(place: Place) -> None:
    """As after an upgrade: v1 messages, then v2 batches."""
    old = batch([(0, None, b"a")], 0, magic=1)
    found = rows(read_segment(place(old + batch([(0, None, b"b")], 0, base=1))))
    assert [(row["magic"], row["value"]) for row in found] == [(1, b"a"), (2, b"b")]


def test_compaction_leaves_gaps(place: Place) -> None:
    data = batch([(0, b"k", b"a"), (3, b"l", b"b"), (9, b"m", b"c")], 3, base=5)
    data += batch([(0, b"n", b"d")], 3, base=40)
    found = rows(read_segment(place(data)))
    assert [(row["offset"], row["last_offset"]) for row in found] == [
        *((5, 14), (8, 14), (14, 14)),
        (40, 40),
    ]


KEYS = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(KEYS, KEYS, st.integers(0, 1 << 41), st.lists(st.tuples(st.text(max_size=5), KEYS))),
    min_size=1,
    max_size=20,
)


def batch(
    offsets: list[tuple[int, bytes | None, bytes | None]],
    codec: int,
    *,
    base: int = 0,
    magic: int = 2,
) -> bytes:
    """Bytes of one batch; offsets count from ``base``."""
    found = [(delta, key, value, 1000 + delta, ()) for delta, key, value in offsets]
    return build(found, codec, base=base, magic=magic)


def build(found: Sequence[tuple[Any, ...]], codec: int, *, base: int, magic: int) -> bytes:
    """What aiokafka writes for (offset delta, key, value, timestamp, headers)."""
    builder = (
        DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 24)
        if magic == 2
        else LegacyRecordBatchBuilder(magic, codec, 1 << 24)
    )
    for delta, key, value, timestamp, headers in found:
        assert builder.append(delta, timestamp, key, value, list(headers)) is not None
    data = bytearray(builder.build())
    if magic == 2:
        data[0:8] = base.to_bytes(8)
    elif codec:
        data[0:8] = (base + found[-1][0]).to_bytes(8)
    return bytes(data)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(batches=st.lists(RECORDS, min_size=1, max_size=4), codec=st.integers(0, 4))
def test_reads_what_aiokafka_writes_in_v2(batches: list[list[tuple[Any, ...]]], codec: int) -> None:
    data, base, written = b"", 0, []
    for each in batches:
        data += build([(i, *row) for i, row in enumerate(each)], codec, base=base, magic=2)
        written += [(base + i, *row[:3]) for i, row in enumerate(each)]
        base += len(each)
    assert read_back(data) == written


@pytest.mark.parametrize(("producer", "sequences"), [(-1, [None, None]), (7, [0, 1])])
def test_without_a_producer_id_there_is_no_sequence(
    producer: int, sequences: list[int | None], place: Place
) -> None:
    """AIOKafkaProducer writes 0 as the first sequence of batches without one."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, producer, -1, 0, 1 << 24)
    for offset in range(2):
        assert builder.append(offset, 1, None, b"x", []) is not None
    found = rows(reader.read_segment(place(bytes(builder.build()))))
    assert [row["sequence"] for row in found] == sequences


@settings(max_examples=60, deadline=None)
@given(found=RECORDS, codec=st.integers(0, 3), magic=st.integers(0, 1))
def test_reads_what_aiokafka_writes_in_v0_and_v1(
    found: list[tuple[Any, ...]], codec: int, magic: int
) -> None:
    if magic == 0 and codec == 3:
        return  # aiokafka refuses: KAFKA-3160; the fixtures have it from a real broker
    data = build([(i, *row) for i, row in enumerate(found)], codec, base=0, magic=magic)
    written = [
        (i, key, value, time if magic else None) for i, (key, value, time, _) in enumerate(found)
    ]
    assert read_back(data) == written


def read_back(data: bytes) -> list[tuple[Any, ...]]:
    found = in_memory(data)
    assert all(row["damage"] is None for row in found)
    return [(row["offset"], row["key"], row["value"], row["timestamp_ms"]) for row in found]


@given(st.lists(st.none() | st.binary(max_size=12) | st.sampled_from([b"\xff|a", b"a|b|c", b"|"])))
def test_record_ids_are_those_of_the_history(values: list[bytes | None]) -> None:
    expected = [None if value is None else record_id(value) for value in values]
    assert record_ids(pa.array(values, pa.binary())).to_pylist() == expected


@pytest.mark.parametrize(
    ("offsets", "sound"),
    [
        ([0, 1, 2, 3], [1, 1, 1, 1]),
        ([0, 1, 900, 3], [1, 1, 0, 1]),  # leapt up: without it all is well
        ([0, 1, 0, 3], [1, 1, 0, 1]),  # fell back
        ([0, 5, 90, 95], [1, 1, 1, 1]),  # gaps are compaction's
        ([0, 1, 2, 2], [1, 1, 1, 0]),
    ],
)
def test_offsets_only_grow(offsets: list[int], sound: list[int]) -> None:
    at = np.array(offsets, dtype=np.int64)
    assert in_order(at, at, floor=0, following=1 << 40).tolist() == [bool(one) for one in sound]
