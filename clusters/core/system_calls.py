"""Rules that delay a broker's system calls, or make them fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WRITES: Final = "write,writev,pwrite64,pwritev"
READS: Final = "read,readv,pread64,preadv,sendfile"
FLUSHES: Final = "fsync,fdatasync"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    """A rule about system calls.

    Attributes:
        calls: names of system calls, as in ``strace -e trace=``.
        action: the injected error or delay, as in ``strace -e inject=``: ``error=EIO:when=1``.
        files: only calls on these files are changed; empty for all files.
    """

    calls: str
    action: str
    files: Sequence[Path] = ()
