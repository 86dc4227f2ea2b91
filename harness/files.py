"""Opens files, and nothing that only bears the name of one."""

import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path | str) -> BufferedReader:
    """Open a regular file for reading, and nothing else: a pipe would be waited for.

    Raises:
        OSError: it cannot be opened, or is no regular file; ``strerror`` says why.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    kind = next((name for test, name in _KINDS if test(mode)), "something else")
    raise OSError(None, f"it is {kind}, not a file", str(path))
