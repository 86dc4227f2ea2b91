"""The list of a run's files. A file that changed after the run is not used as evidence.

When a run ends, ``manifest.json`` lists every file that the judge reads, with its size and SHA-256,
and the number of rows in each table. ``status.json`` has the SHA-256 of ``manifest.json``. If a
file cannot be read, or has changed, the judge does not use it, and reports it. An interrupted or
very old run has no manifest. In such a run, the judge only checks that each file can be read.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.base.errors import StoreError
from highwater.harness.base.files import open_regular, read_regular
from highwater.harness.runs.history import OPTIONAL, TABLES
from highwater.harness.runs.store import COORDINATOR_TOPICS, Run
from highwater.harness.runs.topics.remote_tier import remote_partition, remote_segment
from highwater.harness.runs.verdict import UnusedFile

NAME: Final = "manifest.json"
SCHEMA: Final = 1

_SEGMENT: Final = re.compile(r"\d{20}\.log")
_CHECKPOINT: Final = re.compile(r".+-checkpoint")
_OF_METADATA: Final = re.compile(r"\d{20}\.log|\d{20}-\d{10}\.checkpoint")
_COORDINATION: Final = "coordination/"


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a file when it was recorded, and its SHA-256 as hexadecimal digits."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one run that the judge reads.

    Attributes:
        files: path from the run directory, in POSIX form, to the recorded size and SHA-256.
        rows: table to the number of rows that were recorded.
    """

    files: dict[str, RecordedFile]
    rows: dict[str, int] = {}
    schema: int = SCHEMA


class _UnsoundError(Exception):
    """A file cannot be used as evidence. The text continues the file's path: ``is missing``."""


def record(run: Run, rows: Mapping[str, int]) -> str:
    """Write the manifest of a complete run; return its SHA-256 for ``status.json``.

    Args:
        rows: table to the number of rows that were recorded.
    """
    files = {}
    for path in _judged(run):
        try:
            files[path] = _digest(run.path / path)
        except _UnsoundError as error:
            raise StoreError(f"{run.path / path} {error}") from error
    encoded = msgspec.json.encode(Manifest(files=files, rows=dict(rows)))
    text = msgspec.json.format(encoded, indent=2)
    run.write(NAME, text)
    return hashlib.sha256(text).hexdigest()


def verify(run: Run, digests: Mapping[str, RecordedFile] = {}) -> tuple[UnusedFile, ...]:
    """Read completely every file that the judge uses; return the files that cannot be used.

    ``digests`` has files that the caller has already read. They are not read again.
    """
    status = run.status()
    if not status.manifest:
        return tuple(_check(run, _judged(run), {}, digests))
    try:
        manifest = _manifest(run, status.manifest)
    except _UnsoundError as error:
        rest = tuple(_check(run, _judged(run), {}, digests))
        return (UnusedFile(path=NAME, why=str(error)), *rest)
    paths = sorted({*manifest.files, *_judged(run, metadata=_has_metadata(manifest))})
    return tuple(_check(run, paths, manifest.files, digests))


def metadata_logs(run: Run) -> dict[int, Path]:
    """Return node id -> folder of each controller's metadata log.

    The result is empty for an older run, whose manifest does not list these logs.
    """
    with contextlib.suppress(_UnsoundError):
        if run.status().manifest and not _has_metadata(_manifest(run, run.status().manifest)):
            return {}
    return run.metadata_logs


def rows(run: Run) -> dict[str, int]:
    """Return table -> number of recorded rows; empty without a readable manifest."""
    try:
        return _manifest(run, run.status().manifest).rows
    except _UnsoundError:
        return {}


def _check(
    run: Run,
    paths: Iterable[str],
    recorded: Mapping[str, RecordedFile],
    digests: Mapping[str, RecordedFile],
) -> Iterator[UnusedFile]:
    for path in paths:
        try:
            actual = digests.get(path) or _digest(run.path / path)
            if recorded:
                _compare(actual, recorded.get(path))
        except _UnsoundError as error:
            yield UnusedFile(path=path, why=str(error))


def _compare(actual: RecordedFile, recorded: RecordedFile | None) -> None:
    if recorded is None:
        raise _UnsoundError("was not recorded in the manifest")
    if actual.bytes != recorded.bytes:
        raise _UnsoundError(
            f"has changed since it was recorded: {actual.bytes:,} bytes instead of "
            f"{recorded.bytes:,}"
        )
    if actual.sha256 != recorded.sha256:
        raise _UnsoundError("has changed since it was recorded: its SHA-256 differs")


def _digest(path: Path) -> RecordedFile:
    try:
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return RecordedFile(bytes=file.tell(), sha256=digest)
    except OSError as error:
        raise _UnsoundError(_reason(error)) from error


def _manifest(run: Run, digest: str) -> Manifest:
    try:
        text = read_regular(run.path / NAME)
        if hashlib.sha256(text).hexdigest() == digest:
            return msgspec.json.decode(text, type=Manifest)
    except OSError as error:
        raise _UnsoundError(_reason(error)) from error
    except msgspec.MsgspecError as error:
        raise _UnsoundError(f"was written by another version of Highwater: {error}") from error
    raise _UnsoundError("has changed since it was recorded: status.json has another SHA-256")


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "is missing"
    return f"cannot be read: {error.strerror}"


def _has_metadata(manifest: Manifest) -> bool:
    return any(path.startswith(_COORDINATION) for path in manifest.files)


def _judged(run: Run, *, metadata: bool = True) -> Iterator[str]:
    """Yield paths of the files that the judge reads. Also yield a folder that cannot be listed.

    Args:
        metadata: whether the controllers' metadata logs are included.
    """
    yield "plan.json"
    for name in ("environment.json", "steps.json", "logs/clients.log"):
        if os.path.lexists(run.path / name):
            yield name
    for name in (*TABLES, *OPTIONAL):
        for path in (run.parquet(name), run.stream(name)):
            if os.path.lexists(path):
                yield path.relative_to(run.path).as_posix()
                break
    plan = run.plan()
    topic, program = plan.topic, plan.program
    names = [topic.name, *([program.out] if program and program.out else [])]
    partitions = {f"{name}-{number}" for name in names for number in range(topic.partitions)}
    yield from _of_brokers(run.replicas, partitions)
    yield from _of_remote_tier(run, topic.name)
    yield from _of_brokers(run.coordinators, {f"{topic}-0" for topic in COORDINATOR_TOPICS})
    if metadata:
        yield from _of_controllers(run)


def _of_remote_tier(run: Run, topic: str) -> Iterator[str]:
    names = _names(run.remote_tier) if os.path.lexists(run.remote_tier) else []
    if names is None:
        yield run.remote_tier.name
    for name in names or ():
        if remote_partition(name, topic) is None:
            continue
        path, inside = f"{run.remote_tier.name}/{name}", _names(run.remote_tier / name)
        if inside is None:
            yield path
        yield from (
            f"{path}/{entry}" for entry in inside or () if remote_segment(entry) is not None
        )


def _of_controllers(run: Run) -> Iterator[str]:
    for folder in run.metadata_logs.values():
        path = folder.relative_to(run.path).as_posix()
        names = _names(folder)
        if names is None:
            yield path
        yield from (f"{path}/{name}" for name in names or () if _OF_METADATA.fullmatch(name))


def _of_brokers(folder: Path, partitions: set[str]) -> Iterator[str]:
    brokers = _names(folder) if os.path.lexists(folder) else []
    if brokers is None:
        yield folder.name
    for broker in brokers or ():
        if broker.isdecimal() and (folder / broker).is_dir():
            yield from _of_broker(folder / broker, f"{folder.name}/{broker}", partitions)


def _of_broker(folder: Path, path: str, partitions: set[str]) -> Iterator[str]:
    names = _names(folder)
    if names is None:
        yield path
    for name in names or ():
        if _CHECKPOINT.fullmatch(name):
            yield f"{path}/{name}"
        elif name in partitions:
            inside = _names(folder / name)
            if inside is None:
                yield f"{path}/{name}"
            yield from (
                f"{path}/{name}/{entry}"
                for entry in inside or ()
                if _SEGMENT.fullmatch(entry) or _CHECKPOINT.fullmatch(entry)
            )


def _names(folder: Path) -> list[str] | None:
    """Return the names in a folder, in order; None if the folder cannot be listed."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return None
