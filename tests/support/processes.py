"""Processes that tests wait for."""

from typing import Final

import psutil

GONE: Final = frozenset((psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
"""The states of a process that has ended."""


def status_of(pid: int) -> str:
    """Return a process's state; of one that nobody knows any more, that it is dead."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)
