"""Folders for files of this process, removed when it ends, or later if it was killed."""

import contextlib
import fcntl
import os
import secrets
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
            _roots.append(_locked_folder())
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_roots[-1]))


@contextlib.contextmanager
def temporary(name: str) -> Iterator[Path]:
    """Make an empty folder for the time of a block."""
    folder = scratch(name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _locked_folder() -> Path:
    """Make a folder that is locked for as long as this process lives.

    It is sure to go before it is there: an interruption may come between any two lines.
    """
    while True:
        root = Path(tempfile.gettempdir(), f"{_FOLDER}{secrets.token_hex(8)}")
        at_end(partial(shutil.rmtree, root, ignore_errors=True))
        root.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):  # removed as left, before it was locked
            fcntl.flock(os.open(root, os.O_RDONLY), fcntl.LOCK_EX)
            if root.is_dir():
                return root


def _clear_left() -> None:
    """Remove the folders without a lock: those of processes that have ended.

    A process id would not tell: another container may share the folder, with ids of its own.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        if "-" in left.name.removeprefix(_FOLDER):
            continue  # of a release that locked none
        with contextlib.suppress(OSError):  # it goes now, is another user's, or is locked
            descriptor = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
