"""What a power failure takes from a disk: what was never flushed, and nothing else."""

from pathlib import Path

import pytest

from highwater.harness.runs.faults.effects import FaultEffect, RemovedOffsets, removed_offsets
from highwater.nemesis.faults.disk_damage import (
    batches,
    copy_log_directory,
    flip_bit,
    lose_promised,
    lose_unflushed,
    remove_file,
    remove_indexes,
    remove_segment,
    restore,
    segments,
    tear,
    unpromised,
    wipe,
)
from tests.support.logdirs import batch

RECORDS = [(None, b"one"), (None, b"two")]


def replica(directory: Path, *, base: int = 0, batches_of_two: int = 3, magic: int = 2) -> Path:
    """A replica with one more segment: batches of two records each from ``base`` on."""
    folder = directory / "events-0"
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(batch(base + 2 * n, RECORDS, magic=magic) for n in range(batches_of_two))
    (folder / f"{base:020}.log").write_bytes(data)
    return folder


def flushed(directory: Path, offset: int) -> None:
    text = f"0\n1\nevents 0 {offset}\n"
    (directory / "recovery-point-offset-checkpoint").write_text(text, encoding="ascii")


def end(folder: Path) -> int:
    newest = segments(folder)[-1]
    held = list(batches(newest))
    return held[-1].last + 1 if held else int(newest.stem)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_what_lies_above_the_recovery_point_is_gone(tmp_path: Path, magic: int) -> None:
    folder = replica(tmp_path, magic=magic)
    flushed(tmp_path, 2)
    assert lose_unflushed(tmp_path, "events", flushes=None) == [
        RemovedOffsets(topic="events", partition=0, first=2, end=6)
    ]
    assert end(folder) == 2


def test_without_a_recovery_point_the_newest_segment_is_lost_and_the_older_kept(
    tmp_path: Path,
) -> None:
    folder = replica(tmp_path)
    before = (folder / f"{0:020}.log").read_bytes()
    replica(tmp_path, base=6)
    assert lose_unflushed(tmp_path, "events", flushes=None)[0].first == 6
    assert (folder / f"{0:020}.log").read_bytes() == before
    assert end(folder) == 6


def test_what_had_reached_the_disk_stays_be_it_half_a_batch(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    whole = (folder / f"{0:020}.log").stat().st_size
    assert lose_unflushed(tmp_path, "events", flushes=None, spared=0.5)[0].first == 2
    assert (folder / f"{0:020}.log").stat().st_size == whole // 2


def test_what_outlived_one_power_failure_outlives_the_next(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    assert lose_unflushed(tmp_path, "events", flushes=None, spared=0.7)[0].first == 4
    assert lose_unflushed(tmp_path, "events", flushes=None) == []
    with (folder / f"{0:020}.log").open("r+b") as log:  # Kafka cuts what is torn, and appends
        log.truncate([*batches(folder / f"{0:020}.log")][-1].end)
        log.seek(0, 2)
        log.write(batch(4, RECORDS))
    assert lose_unflushed(tmp_path, "events", flushes=None) == [
        RemovedOffsets(topic="events", partition=0, first=4, end=6)
    ]
    assert end(folder) == 4


@pytest.mark.parametrize(("flushes", "kept"), [(1, 6), (2, 4), (3, 4), (5, 2), (100, 0)])
def test_what_a_topic_has_flushed_by_count_is_not_taken(
    tmp_path: Path, flushes: int, kept: int
) -> None:
    folder = replica(tmp_path)
    cuts = lose_unflushed(tmp_path, "events", flushes=flushes)
    assert end(folder) == kept
    assert bool(cuts) == (kept < 6)


def test_what_is_flushed_is_not_lost_nor_is_the_metadata_of_kraft(tmp_path: Path) -> None:
    flushed(tmp_path, 6)
    replica(tmp_path).rename(tmp_path / "other-0")  # of a run that is over
    replica(tmp_path)
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / f"{0:020}.log").write_bytes(batch(0, RECORDS))
    assert lose_unflushed(tmp_path, "events", flushes=None) == []


def test_a_wiped_disk_still_knows_whose_it_is(tmp_path: Path) -> None:
    replica(tmp_path)
    flushed(tmp_path, 6)
    (tmp_path / "meta.properties").write_text("node.id=1\n", encoding="ascii")
    assert wipe(tmp_path) == [RemovedOffsets(topic="events", partition=0, first=0, end=6)]
    assert [one.name for one in tmp_path.iterdir()] == ["meta.properties"]


def test_the_oldest_segment_goes_with_its_indexes(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    (folder / f"{0:020}.index").touch()
    replica(tmp_path, base=6)
    assert [str(cut) for cut in remove_segment(tmp_path, "events")] == ["events-0 lost 0 up to 6"]
    assert [one.name for one in folder.iterdir()] == [f"{6:020}.log"]
    assert [str(cut) for cut in remove_segment(tmp_path, "events")] == ["events-0 lost 6 up to 12"]
    assert remove_segment(tmp_path, "events") == []


def test_indexes_go_and_nothing_else(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    for name in ("index", "timeindex", "txnindex"):
        (folder / f"{0:020}.{name}").touch()
    assert remove_indexes(tmp_path, "events") == 3
    assert [one.name for one in folder.iterdir()] == [f"{0:020}.log"]


@pytest.mark.parametrize(("choice", "first"), [(0.0, 0), (0.5, 2), (0.99, 4)])
def test_exactly_one_bit_of_one_batch_is_flipped(tmp_path: Path, choice: float, first: int) -> None:
    log = replica(tmp_path) / f"{0:020}.log"
    before = log.read_bytes()
    found = flip_bit(tmp_path, "events", 0, choice)
    assert found is not None
    one, end_ = found
    after = log.read_bytes()
    changed = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert (one.first, end_) == (first, 6)
    assert changed == [one.end - 1]
    assert (before[changed[0]] ^ after[changed[0]]).bit_count() == 1


@pytest.mark.parametrize("recorded", [True, False])
def test_the_offsets_of_a_loss_are_read_from_its_row(recorded: bool) -> None:
    lost = RemovedOffsets("a-b", 0, 3, 5), RemovedOffsets("a-b", 1, 7, 8)
    effect = FaultEffect(f"broker 1 lost its power: {lost[0]}, {lost[1]}", lost)
    # Runs up to 0.2 have the sentence alone.
    row = {"says": effect.says} | ({"removed": effect.rows} if recorded else {})
    assert list(removed_offsets(row, "a-b", 0)) == [range(3, 5)]
    assert list(removed_offsets(row, "a-b", 1)) == [range(7, 8)]
    assert list(removed_offsets(row, "b", 0)) == []


def test_a_row_with_the_column_is_not_read_from_its_sentence() -> None:
    row = {"says": "events-0 lost 3 up to 5", "removed": []}
    assert list(removed_offsets(row, "events", 0)) == []


def test_a_torn_file_is_empty_or_has_zeros_alone_and_the_choice_decides(tmp_path: Path) -> None:
    contents = set()
    for number in range(20):
        file = tmp_path / "leader-epoch-checkpoint"
        file.write_text("0\n1\n0 0\n", encoding="ascii")
        says = tear([file], number / 20)
        contents.add(file.read_bytes())
        assert says.endswith("is empty") == (not file.read_bytes())
    assert contents == {b"", bytes(8)}
    assert tear([], 0.5) == ""


def test_one_file_of_the_oldest_segment_goes(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    replica(tmp_path, base=6)
    (folder / f"{0:020}.index").touch()
    assert remove_file(tmp_path, "events", 0.0) == ([f"events-0/{0:020}.index"], [])
    names, lost = remove_file(tmp_path, "events", 0.9)
    assert names == [f"events-0/{0:020}.log"]
    assert lost == [RemovedOffsets(topic="events", partition=0, first=0, end=6)]
    assert [file.name for file in folder.iterdir()] == [f"{6:020}.log"]


def test_a_disk_is_as_it_was_but_for_other_topics(tmp_path: Path) -> None:
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    folder, other = replica(disk), disk / "others-0"
    other.mkdir()
    flushed(disk, 2)
    copy_log_directory(disk, "events", copy)
    replica(disk, batches_of_two=5)
    flushed(disk, 8)
    (folder / "leader-epoch-checkpoint").touch()
    (other / "new").touch()
    replica(disk / "events-1").rename(disk / "__offsets-0")
    (disk / "events-1").rmdir()
    assert restore(disk, "events", copy) == [
        RemovedOffsets(topic="__offsets", partition=0, first=0, end=6),
        RemovedOffsets(topic="events", partition=0, first=6, end=10),
    ]
    assert end(folder) == 6
    assert not (folder / "leader-epoch-checkpoint").exists()
    assert not (disk / "__offsets-0").exists()
    assert (other / "new").exists()
    assert "events 0 2" in (disk / "recovery-point-offset-checkpoint").read_text("ascii")


@pytest.mark.parametrize(
    ("choice", "kept", "point"),
    [(0.0, 6, 6), (0.25, 10, 6), (0.5, 6, 12), (0.9, 14, 12)],
    ids=["in order, none", "in order, a part", "out of order, none", "out of order, the last"],
)
def test_a_disk_that_lies_loses_what_flushes_had_promised(
    tmp_path: Path, choice: float, kept: int, point: int
) -> None:
    """One segment is there before the disk lies, and two begin later."""
    folder = replica(tmp_path)
    flushed(tmp_path, 6)
    before = unpromised(tmp_path, "events")
    replica(tmp_path, base=6)
    replica(tmp_path, base=12, batches_of_two=2)
    flushed(tmp_path, 12)
    [loss] = lose_promised(tmp_path, "events", before, choice)
    assert (loss.first, loss.end) == (kept, 16)
    assert f"events 0 {point}\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    whole = [batch.last + 1 for log in segments(folder) for batch in batches(log)]
    assert [last for last in whole if last <= kept] == [*range(2, kept + 1, 2)]


def test_a_disk_that_lies_keeps_what_it_has_flushed_before(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    data = (folder / f"{0:020}.log").read_bytes()
    before = unpromised(tmp_path, "events")
    for choice in (0.0, 0.3, 0.5, 0.99):
        assert lose_promised(tmp_path, "events", before, choice) == []
    assert (folder / f"{0:020}.log").read_bytes() == data
