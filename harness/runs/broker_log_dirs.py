"""Merge a broker's log directories into one directory: ``replicas/<broker id>``.

The first log directory is already at that path. During a run, the other log directories are below
``MORE_LOG_DIRS``, next to ``replicas``. They are still there after a run that was killed.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from highwater.harness.runs.store import MORE_LOG_DIRS

_OFFSETS: Final = "-checkpoint"


def log_dirs(replicas: Path) -> Iterator[tuple[str, Path]]:
    """Yield pairs of broker id and log directory. A broker's first log directory comes first."""
    for broker in sorted(replicas.iterdir()):
        yield broker.name, broker
        for folder in sorted((replicas.parent / MORE_LOG_DIRS / broker.name).glob("*/")):
            yield broker.name, folder


def copy_broker_file(file: Path, copy: Path) -> None:
    """Copy a broker's file. If a checkpoint file already has a copy, append its lines to the copy.

    A checkpoint file may be empty. After a fault it may be incomplete or damaged.
    """
    if not copy.exists() or (file.name.endswith(_OFFSETS) and not copy.stat().st_size):
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    elif file.name.endswith(_OFFSETS) and file.stat().st_size:
        first, second = (path.read_text("latin-1").split("\n") for path in (copy, file))
        lines = [line for line in (*first[2:], *second[2:]) if line]
        copy.write_text("\n".join([first[0], str(len(lines)), *lines, ""]), "latin-1")


def merged_copy(replicas: Path, names: Iterable[str], target: Path) -> None:
    """Copy some replicas of an interrupted run, and the brokers' own files, to one folder.

    The run does not change. Segments are hard links if the file system supports them.

    Args:
        names: names of the replicas' folders.
        target: an empty or missing folder. The copy has a folder for each broker id.

    Raises:
        OSError: a file cannot be read or copied.
    """
    folders = frozenset(names)
    for broker, folder in log_dirs(replicas):
        for entry in sorted(folder.iterdir()):
            copy = target / broker / entry.name
            if entry.is_file():
                copy_broker_file(entry, copy)
            elif entry.name in folders:
                shutil.copytree(entry, copy, copy_function=_link, dirs_exist_ok=True)


def _link(file: str, copy: str) -> None:
    try:
        os.link(file, copy)
    except OSError:  # ``copy`` is on another file system
        shutil.copy2(file, copy)
