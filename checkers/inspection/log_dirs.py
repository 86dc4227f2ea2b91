"""Find replicas in folders that were copied from brokers, among any other files.

A *log directory* is a folder that ``log.dirs`` names: it holds a folder for each replica, and
checkpoint files about all of these replicas. This module never writes a file, and never follows a
symbolic link twice.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.segment_files import PARTITION, of_replica
from highwater.harness.base.errors import UsageError
from highwater.harness.base.files import read_regular
from highwater.harness.runs.store import MORE_LOG_DIRS

DEPTH_MAX: Final = 4
"""The number of directory levels below a given directory in which log directories are searched."""

_FILES: Final = re.compile(r"meta\.properties|(?!leader-epoch-).+-checkpoint|\.kafka_cleanshutdown")
_PROPERTY: Final = re.compile(r"^\s*([\w.]+)\s*=\s*(\S+)\s*$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\d+(?=\D*$)")
_BROKER_MAX: Final = (1 << 31) - 1
_HINT: Final = (
    "Name the log directory of each broker. A log directory has directories such as "
    "events-0, with segments such as 00000000000000000000.log. Or name a directory "
    "that contains log directories."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One of a broker's log directories.

    Attributes:
        broker: the id in meta.properties; without an id, the number in the folder's name, or a free
            number.
        name: the directory's name for messages, as on the command line.
        only: the names of the replicas' directories that the user gave; empty for all.
        without: checkpoint files that the inspection must ignore.
        cluster_id, directory_id: ids from meta.properties (KIP-858); None if missing there.
        placed: true if ``broker`` is only a free number.
    """

    path: Path
    broker: int
    name: str
    only: frozenset[str] = frozenset()
    without: frozenset[Path] = frozenset()
    cluster_id: str | None = None
    directory_id: str | None = None
    placed: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    given: Path
    only: frozenset[str]


def log_dirs(given: Sequence[Path]) -> list[LogDir]:
    """Return the log directories in the given directories, in order, with their brokers.

    Args:
        given: log directories, folders with log directories (such as a run's), or replicas'
            folders.

    Raises:
        UsageError: a folder is missing, cannot be read, or holds no log; or the folders belong to
            two clusters.
    """
    places = [place for path in given for place in _places(path)]
    merged: dict[Path, _Place] = {}
    for place in places:
        key = place.path.resolve()
        before = merged.get(key)
        whole = before is not None and not (before.only and place.only)
        only = frozenset() if whole else place.only | (before.only if before else frozenset())
        merged[key] = _Place(place.path, place.given, only)
    log_dir_list = list(merged.values())
    properties = [_properties(place.path) for place in log_dir_list]
    dirs = [
        LogDir(
            path=place.path,
            broker=broker,
            name=str(place.path),
            only=place.only,
            cluster_id=named.get("cluster.id"),
            directory_id=named.get("directory.id"),
            placed=placed,
        )
        for place, named, (broker, placed) in zip(
            log_dir_list, properties, _brokers(log_dir_list, properties), strict=True
        )
    ]
    _require_one_cluster(dirs)
    return dirs


def _require_one_cluster(dirs: Sequence[LogDir]) -> None:
    """Raise UsageError if two log directories belong to different clusters."""
    of_cluster: dict[str, LogDir] = {}
    for log_dir in dirs:
        if log_dir.cluster_id is not None:
            of_cluster.setdefault(log_dir.cluster_id, log_dir)
    if len(of_cluster) > 1:
        named = [
            f"{log_dir.name} belongs to the cluster {name}" for name, log_dir in of_cluster.items()
        ]
        raise UsageError(
            f"the directories belong to {len(of_cluster)} clusters: {', '.join(named)}",
            hint="Name directories of one cluster: cluster.id in meta.properties must be equal.",
        )


def _places(given: Path) -> list[_Place]:
    _entries(given)
    if PARTITION.fullmatch(given.name) and _is_replica(given):
        return [_Place(given.absolute().parent, given, frozenset([given.name]))]
    inside = given / "replicas"
    starts = [given]
    if inside.is_dir() and not inside.is_symlink():  # a run's folder; the run may be interrupted
        starts = [inside, *filter(Path.is_dir, [given / MORE_LOG_DIRS])]
    places = [_Place(path, given, frozenset()) for top in starts for path in _below(top, set(), 0)]
    if not places:
        raise UsageError(f"{given} contains no Kafka log", hint=_HINT)
    return places


def _entries(path: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name; UsageError if the folder cannot be read."""
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError as error:
        raise UsageError(f"there is no directory {path}", hint=_HINT) from error
    except NotADirectoryError as error:
        raise UsageError(f"{path} is not a directory", hint=_HINT) from error
    except OSError as error:  # no permission, or symbolic links that lead in a circle
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error


def _below(path: Path, seen: set[tuple[int, int]], depth: int) -> Iterator[Path]:
    """Yield the log directories at or below a folder. An unreadable folder is an error."""
    at = path.stat()
    if (at.st_dev, at.st_ino) in seen or depth > DEPTH_MAX:
        return
    seen.add((at.st_dev, at.st_ino))
    entries = _entries(path)
    folders = [entry for entry in entries if _is_folder(entry)]
    if any(_FILES.fullmatch(entry.name) for entry in entries) or any(
        PARTITION.fullmatch(entry.name) and _is_replica(Path(entry.path)) for entry in folders
    ):
        yield path
        return
    for entry in folders:
        yield from _below(Path(entry.path), seen, depth + 1)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _is_replica(folder: Path) -> bool:
    """Return whether a folder has files of a replica, and no files of a log directory."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return False
    return any(map(of_replica, names)) and not any(map(_FILES.fullmatch, names))


def _brokers(
    places: Sequence[_Place], properties: Sequence[Mapping[str, str]]
) -> list[tuple[int, bool]]:
    """Return a broker id for each log directory, and true if the id is only a free number.

    Two log directories get the same id only if meta.properties of both has this id.
    """
    identities = [_identity(named) for named in properties]
    named = [_named(place) for place in places]
    unknown = [name for identity, name in zip(identities, named, strict=True) if identity is None]
    known_identities = {identity for identity in identities if identity is not None}
    by_name = None not in unknown and len(known_identities | {*unknown}) == len(
        known_identities
    ) + len(unknown)
    free = iter(
        number
        for number in range(1, len(places) + len(known_identities) + 1)
        if number not in known_identities
    )
    return [
        (identity, False)
        if identity is not None
        else (name, False)
        if by_name and name is not None
        else (next(free), True)
        for identity, name in zip(identities, named, strict=True)
    ]


def _properties(path: Path) -> dict[str, str]:
    """Return the content of ``meta.properties``, which Kafka writes since 0.8.2; else nothing."""
    try:
        text = read_regular(path / "meta.properties").decode("utf-8", "replace")
    except OSError:
        return {}
    return dict(_PROPERTY.findall(text))


def _identity(properties: Mapping[str, str]) -> int | None:
    """Return the broker's id from meta.properties; None if the file has no valid id."""
    text = properties.get("node.id", properties.get("broker.id", ""))
    return _id(text) if text.isascii() and text.isdecimal() else None


def _named(place: _Place) -> int | None:
    """Return the last number in the folder's name, or else in the name of a folder above it."""
    path, top = place.path.absolute(), place.given.absolute()
    names = [path.name]
    while path != top and top in path.parents:
        path = path.parent
        names.append(path.name)
    numbers = (_NUMBER.search(name) for name in names)
    return next((_id(number[0]) for number in numbers if number), None)


def _id(text: str) -> int | None:
    return int(text) if int(text) <= _BROKER_MAX else None
