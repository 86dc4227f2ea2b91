"""Checkpoint files, well-formed and not."""

from pathlib import Path

import pytest

from highwater.checkers.kafka_files.checkpoints import CheckpointError, read_epochs, read_offsets


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def test_offsets_by_topic_and_partition(file: Path) -> None:
    file.write_text("0\n2\nevents 0 17\nmy.events 11 9223372036854775807\n")
    assert read_offsets(file) == {("events", 0): 17, ("my.events", 11): 9223372036854775807}


def test_epochs_with_their_start_offsets(file: Path) -> None:
    file.write_text("0\n2\n0 0\n4 120\n")
    assert read_epochs(file) == ((0, 0), (4, 120))


def test_an_editor_of_windows_may_have_saved_it(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf0\r\n1\r\nevents 0 17\r\n")
    assert read_offsets(file) == {("events", 0): 17}


def test_an_empty_one_has_no_entries(file: Path) -> None:
    for text in ("0\n0\n", ""):
        file.write_text(text)
        assert read_offsets(file) == {}
        assert read_epochs(file) == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("\n", "line 1: unknown version ''"),
        ("1\n0\n", "line 1: unknown version '1'"),
        ("0\n", "line 2: the file has 0 entries, but its second line announces -1"),
        ("0\nmany\n", "line 2: the file has 'many' instead of a number of 0 or more"),
        ("0\n2\nevents 0 17\n", "line 2: the file has 1 entries, but its second line announces 2"),
        ("0\n1\nevents 0\n", "line 3: the line has 2 words instead of 3"),
        ("0\n1\nevents 0 -5\n", "line 3: the file has '-5' instead of a number of 0 or more"),
        ("0\n2\nevents 0 5\nevents 0 6\n", "line 4: events-0 has a second entry"),
    ],
)
def test_malformed_offsets_name_the_line(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    with pytest.raises(CheckpointError, match=complaint):
        read_offsets(file)


@pytest.mark.parametrize("entries", ["3 5\n3 9\n", "3 5\n2 9\n", "3 5\n4 4\n"])
def test_epochs_grow(file: Path, entries: str) -> None:
    file.write_text(f"0\n2\n{entries}")
    with pytest.raises(CheckpointError, match="line 4: epoch"):
        read_epochs(file)


def test_missing_and_binary_files_are_told(file: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_offsets(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match="is not a text file"):
        read_epochs(file)
