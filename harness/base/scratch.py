"""Temporary directories.

A process removes its directories when it ends. After a kill, a later process removes them.
"""

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
    """Make an empty folder. The caller may remove it before the process ends."""
    with _lock:
        if not (_roots and _roots[-1].is_dir()):
            _clear_left()
            _roots.append(_locked_folder())
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_roots[-1]))


@contextlib.contextmanager
def temporary(name: str) -> Iterator[Path]:
    """Make an empty folder that is removed at the end of the block."""
    folder = scratch(name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _locked_folder() -> Path:
    """Make a folder and lock it until this process ends.

    The function registers the removal before it makes the folder, because an interruption is
    possible at any time.
    """
    while True:
        root = Path(tempfile.gettempdir(), f"{_FOLDER}{secrets.token_hex(8)}")
        at_end(partial(shutil.rmtree, root, ignore_errors=True))
        root.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):  # removed by another process
            fcntl.flock(os.open(root, os.O_RDONLY), fcntl.LOCK_EX)
            if root.is_dir():
                return root


def _clear_left() -> None:
    """Remove the temporary directories that no running process has locked.

    A process id in the name would not replace the lock: a process in another container may use the
    same directory and have the same id.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        if "-" in left.name.removeprefix(_FOLDER):
            continue  # made by an old release, which locked no folders
        with contextlib.suppress(OSError):  # just removed, another user's, or locked
            descriptor = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
