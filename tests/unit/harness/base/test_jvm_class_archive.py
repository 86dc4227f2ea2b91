"""The class archive, with a rehearsal that writes a file instead of running a JVM."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.clusters.nodes.jvm import java
from highwater.harness.base import jvm_class_archive
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.jvm_class_archive import NOT_SHARED, Flags, Program


class Rehearsal:
    """Writes what the JVM would write at its orderly end."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = False

    def __call__(self, flags: Flags) -> None:
        self.times += 1
        if self.fails:
            raise HarnessError("the stage is on fire")
        [target] = [flag for flag in flags if flag.startswith("-XX:ArchiveClassesAtExit=")]
        Path(target.partition("=")[2]).write_bytes(b"archive")


@pytest.fixture
def entry() -> Program:
    return Program(name="kafka-0.10.2.2", java=java(), jars=b"core, clients")


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


def test_it_is_made_once_and_then_used(entry: Program, folder: Path, rehearsal: Rehearsal) -> None:
    first = jvm_class_archive.flags(entry, rehearsal)
    assert jvm_class_archive.flags(entry, rehearsal) == first
    assert rehearsal.times == 1
    [shared] = [flag for flag in first if flag.startswith("-XX:SharedArchiveFile=")]
    assert shared.endswith(f":{top(folder)}")
    assert "-XX:+VerifySharedSpaces" in first


def test_who_comes_while_it_is_made_starts_without_it(
    entry: Program, folder: Path, rehearsal: Rehearsal
) -> None:
    def rehearse(flags: Flags) -> None:
        assert jvm_class_archive.flags(entry, rehearsal) == NOT_SHARED
        rehearsal(flags)

    assert jvm_class_archive.flags(entry, rehearse) == jvm_class_archive.flags(entry, rehearsal)
    assert rehearsal.times == 1
    assert top(folder).exists()


def test_one_that_was_cut_short_is_made_again(
    entry: Program, folder: Path, rehearsal: Rehearsal
) -> None:
    jvm_class_archive.flags(entry, rehearsal)
    top(folder).write_bytes(b"arch")
    jvm_class_archive.flags(entry, rehearsal)
    assert rehearsal.times == 2
    assert top(folder).read_bytes() == b"archive"


def test_a_missing_base_is_made_again(entry: Program, folder: Path, rehearsal: Rehearsal) -> None:
    jvm_class_archive.flags(entry, rehearsal)
    [base] = folder.glob("java-*.jsa")
    base.unlink()
    assert jvm_class_archive.flags(entry, rehearsal) != NOT_SHARED
    assert base.exists()


def test_a_failed_rehearsal_is_no_failure(
    entry: Program, rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsal.fails = True
    assert jvm_class_archive.flags(entry, rehearsal) == NOT_SHARED
    assert jvm_class_archive.flags(entry, rehearsal) == NOT_SHARED
    assert rehearsal.times == 1
    monkeypatch.setattr(jvm_class_archive, "_FAILURE_STANDS_S", -1)
    rehearsal.fails = False
    assert jvm_class_archive.flags(entry, rehearsal) != NOT_SHARED


def test_a_cache_that_cannot_be_written_is_no_failure(
    entry: Program, tmp_path: Path, rehearsal: Rehearsal
) -> None:
    (tmp_path / "highwater").write_text("a file in the way of a folder")
    assert jvm_class_archive.flags(entry, rehearsal) == NOT_SHARED
    assert rehearsal.times == 0


def test_of_the_archives_of_other_jars_the_latest_stay(
    entry: Program, folder: Path, rehearsal: Rehearsal
) -> None:
    for number in range(5):
        jvm_class_archive.flags(replace(entry, jars=bytes([number])), rehearsal)
        [new] = [one for one in folder.glob("kafka-*.jsa") if one.stat().st_mtime > number + 1]
        os.utime(new, (number + 1, number + 1))
    assert {one.stat().st_mtime for one in folder.glob("kafka-*.jsa")} == {3.0, 4.0, 5.0}
    jvm_class_archive.flags(replace(entry, name="kafka-0.10.2"), rehearsal)
    assert len([*folder.glob("kafka-*.jsa")]) == 4


def test_two_programs_at_first_use_make_one_base(
    entry: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making, together, dumps = threading.Lock(), threading.Event(), list[str]()

    def dump(command: Sequence[str], **_: object) -> None:
        if not making.acquire(blocking=False):
            together.set()
        dumps.append(command[-1])
        together.wait(0.5)  # long enough for the other to come
        Path(command[-1].partition("=")[2]).write_bytes(b"base")
        with contextlib.suppress(RuntimeError):
            making.release()

    monkeypatch.setattr(subprocess, "run", dump)
    other = replace(entry, name="kafka-other")
    with ThreadPoolExecutor(2) as pool:
        for call in [
            pool.submit(jvm_class_archive.flags, one, Rehearsal()) for one in (entry, other)
        ]:
            call.result()
    assert not together.is_set()
    assert len(dumps) == 1
    assert len(list(folder.glob("java-*.jsa"))) == 1
