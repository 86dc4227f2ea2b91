"""Folders for files of this process alone, which go even if it is killed."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import psutil

_FOLDER: Final = "highwater-spark-"


def scratch(name: str = "") -> Path:
    """Make an empty folder that bears this process's id. Whoever makes it removes it."""
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-{name and f'{name}-'}"))


def clear_left() -> None:
    """Remove the folders of processes that are no more."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        owner = left.name.removeprefix(_FOLDER).split("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
