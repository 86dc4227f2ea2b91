"""Undoes what must not outlive this process, at its end or where it is interrupted.

``atexit`` alone is not enough: an interrupted command ends at once (``highwater.__main__``), since
threads of other runs may still be waiting for brokers.
"""

import atexit
import contextlib
import threading
from collections.abc import Callable

_actions: list[Callable[[], object]] = []
_lock = threading.Lock()


def at_end(action: Callable[[], object]) -> None:
    """Have something done at the end of this process; the last one that was added is the first."""
    with _lock:
        if not _actions:
            atexit.register(run)
        _actions.append(action)


def run() -> None:
    """Do it now, each once; an action that fails keeps no other from being done."""
    while True:
        with _lock:
            action = _actions.pop() if _actions else None
        if action is None:
            return
        with contextlib.suppress(Exception):
            action()
