"""What a power failure takes from a disk: what was never flushed, and nothing else."""

from pathlib import Path

import pytest

from checkers.taken import phrase, taken
from nemesis.damage import Cut, batches, lose_unflushed, segments
from tests.logdirs import batch

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
    assert lose_unflushed(tmp_path, flushes=None) == [
        Cut(topic="events", partition=0, before=6, after=2)
    ]
    assert end(folder) == 2


def test_without_a_recovery_point_the_newest_segment_is_lost_and_the_older_kept(
    tmp_path: Path,
) -> None:
    folder = replica(tmp_path)
    before = (folder / f"{0:020}.log").read_bytes()
    replica(tmp_path, base=6)
    assert lose_unflushed(tmp_path, flushes=None)[0].after == 6
    assert (folder / f"{0:020}.log").read_bytes() == before
    assert end(folder) == 6


def test_what_had_reached_the_disk_stays_be_it_half_a_batch(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    whole = (folder / f"{0:020}.log").stat().st_size
    assert lose_unflushed(tmp_path, flushes=None, spared=0.5)[0].after == 2
    assert (folder / f"{0:020}.log").stat().st_size == whole // 2


@pytest.mark.parametrize(("flushes", "kept"), [(1, 6), (2, 4), (3, 4), (5, 2), (100, 0)])
def test_what_a_topic_has_flushed_by_count_is_not_taken(
    tmp_path: Path, flushes: int, kept: int
) -> None:
    folder = replica(tmp_path)
    cuts = lose_unflushed(tmp_path, flushes=flushes)
    assert end(folder) == kept
    assert bool(cuts) == (kept < 6)


def test_what_is_flushed_is_not_lost_nor_is_the_metadata_of_kraft(tmp_path: Path) -> None:
    folder = replica(tmp_path)
    flushed(tmp_path, 6)
    folder.rename(tmp_path / "events-0")
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / f"{0:020}.log").write_bytes(batch(0, RECORDS))
    assert lose_unflushed(tmp_path, flushes=None) == []


def test_the_sentence_of_a_loss_can_be_read_again() -> None:
    says = f"broker 1 lost its power: {phrase('a-b', 0, 3, 5)}, {phrase('a-b', 1, 7, 8)}"
    assert list(taken(says, "a-b", 0)) == [range(3, 5)]
    assert list(taken(says, "a-b", 1)) == [range(7, 8)]
    assert list(taken(says, "b", 0)) == []
