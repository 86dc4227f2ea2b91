"""Opens files, and nothing that only bears the name of one."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

_SPECIAL: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading, and nothing else: a FIFO would be waited for.

    Raises:
        OSError: it cannot be opened, or is no regular file; ``strerror`` says why.
    """
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode):
        kind = next((word for is_such, word in _SPECIAL if is_such(mode)), "something special")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    # Should it have been replaced since, no open waits.
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return what a regular file holds.

    Raises:
        OSError: it is no regular file, or cannot be read.
    """
    with open_regular(path) as file:
        return file.read()
