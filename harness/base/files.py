"""Functions that open regular files, and refuse a FIFO, a device or a directory."""

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from io import BufferedReader
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import HarnessError, UsageError

_SPECIAL: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def is_file(path: Path) -> bool:
    """Return whether the path is a file; False without permission to read its folder."""
    try:
        return path.is_file()
    except OSError:
        return False


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading. Refuse other kinds of files, because a FIFO would block.

    Raises:
        OSError: the file cannot be opened, or is not a regular file; ``strerror`` says why.
    """
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_kind(mode)}, not a file", str(path))
    # O_NONBLOCK: the open does not block if a FIFO has replaced the file since ``stat``.
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def require_writable(path: Path, option: str) -> None:
    """Raise an error if a file cannot be written. Commands call this before they begin the work.

    Args:
        path: the file. Missing parent directories are created.
        option: the option of the command line that named the file.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(
                f"{option} {path} is {_kind(path.stat().st_mode)}, not a file",
                hint="Name a file in a folder.",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".highwater-"):
            pass
    except OSError as error:
        raise HarnessError(
            f"{option} {path} cannot be written: {error.strerror}",
            hint="Choose another folder, or change its permissions.",
        ) from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically. Replace a directory that Spark wrote under the same name."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        if path.is_dir() and any(path.glob("part-*")):
            shutil.rmtree(path)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def _kind(mode: int) -> str:
    return next((word for is_such, word in _SPECIAL if is_such(mode)), "something special")


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return a file's content; raise ``OSError`` if it is no regular file or cannot be read."""
    with open_regular(path) as file:
        return file.read()
