"""System calls of a broker that a fault delays, or lets fail."""

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
        calls: names of calls, as ``strace -e trace=`` takes them.
        action: what happens to each, as ``strace -e inject=`` takes it: ``error=EIO:when=1``.
        files: the calls concern one of these files; empty: any file.
    """

    calls: str
    action: str
    files: Sequence[Path] = ()
