"""The class archive, with a rehearsal that writes a file instead of running a broker."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from clusters import archive
from clusters.archive import NOT_SHARED
from clusters.versions import Release, release
from harness.errors import HarnessError


class Rehearsal:
    """Writes what the JVM would write at its orderly end."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = False

    def __call__(self, _release: Release, flags: Sequence[str]) -> None:
        self.times += 1
        if self.fails:
            raise HarnessError("the stage is on fire")
        [target] = [flag for flag in flags if flag.startswith("-XX:ArchiveClassesAtExit=")]
        Path(target.partition("=")[2]).write_bytes(b"archive")


@pytest.fixture
def entry() -> Release:
    return release("0.10.2.2")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def dump(command: Sequence[str], **_: object) -> None:
        Path(command[-1].partition("=")[2]).write_bytes(b"base")

    monkeypatch.setattr(subprocess, "run", dump)
    return tmp_path / "highwater" / "archives"


@pytest.fixture
def rehearsal(folder: Path) -> Rehearsal:
    assert not folder.exists()
    return Rehearsal()


def top(folder: Path) -> Path:
    [found] = folder.glob("kafka-*.jsa")
    return found


def test_it_is_made_once_and_then_used(entry: Release, folder: Path, rehearsal: Rehearsal) -> None:
    first = archive.flags(entry, rehearsal)
    assert archive.flags(entry, rehearsal) == first
    assert rehearsal.times == 1
    [shared] = [flag for flag in first if flag.startswith("-XX:SharedArchiveFile=")]
    assert shared.endswith(f":{top(folder)}")
    assert "-XX:+VerifySharedSpaces" in first


def test_one_that_was_cut_short_is_made_again(
    entry: Release, folder: Path, rehearsal: Rehearsal
) -> None:
    archive.flags(entry, rehearsal)
    top(folder).write_bytes(b"arch")
    archive.flags(entry, rehearsal)
    assert rehearsal.times == 2
    assert top(folder).read_bytes() == b"archive"


def test_a_missing_base_is_made_again(entry: Release, folder: Path, rehearsal: Rehearsal) -> None:
    archive.flags(entry, rehearsal)
    [base] = folder.glob("java-*.jsa")
    base.unlink()
    assert archive.flags(entry, rehearsal) != NOT_SHARED
    assert base.exists()


def test_a_failed_rehearsal_is_no_failure(
    entry: Release, rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsal.fails = True
    assert archive.flags(entry, rehearsal) == NOT_SHARED
    assert archive.flags(entry, rehearsal) == NOT_SHARED
    assert rehearsal.times == 1
    monkeypatch.setattr(archive, "_FAILURE_STANDS_S", -1)
    rehearsal.fails = False
    assert archive.flags(entry, rehearsal) != NOT_SHARED


def test_a_cache_that_cannot_be_written_is_no_failure(
    entry: Release, tmp_path: Path, rehearsal: Rehearsal
) -> None:
    (tmp_path / "highwater").write_text("a file in the way of a folder")
    assert archive.flags(entry, rehearsal) == NOT_SHARED
    assert rehearsal.times == 0
