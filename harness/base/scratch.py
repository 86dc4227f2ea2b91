"""Folders for files of this process, removed when it ends, or later if it was killed."""

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from highwater.harness.base.cleanup import at_end

_FOLDER: Final = "highwater-scratch-"
_lock = threading.Lock()
_roots: list[Path] = []


def scratch(name: str) -> Path:
    """Make an empty folder. Its maker may remove it before the process ends."""
    with _lock:
        if not (_roots and _roots[-1].is_dir()):
            _clear_left()
            root = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
            at_end(partial(shutil.rmtree, root, ignore_errors=True))
            _roots.append(root)
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_roots[-1]))


@contextlib.contextmanager
def temporary(name: str) -> Iterator[Path]:
    """Make an empty folder for the time of a block."""
    folder = scratch(name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clear_left() -> None:
    """Remove the folders of processes that have ended."""
    import psutil  # noqa: PLC0415 - workers, who import this module, need not have it

    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        owner = left.name.removeprefix(_FOLDER).split("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
