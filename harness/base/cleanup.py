"""Clean up directories and processes when this process ends or is interrupted.

``atexit`` alone is not enough: an interrupted command ends at once (``highwater.__main__``),
because threads of other runs may still wait for brokers.
"""

import atexit
import contextlib
import threading
from collections.abc import Callable

_actions: list[Callable[[], object]] = []
_lock = threading.Lock()


def at_end(action: Callable[[], object]) -> None:
    """Register an action that runs when this process ends. Actions run in reverse order."""
    with _lock:
        if not _actions:
            atexit.register(run)
        _actions.append(action)


def run() -> None:
    """Run every registered action once. If an action fails, the other actions still run."""
    while True:
        with _lock:
            action = _actions.pop() if _actions else None
        if action is None:
            return
        with contextlib.suppress(Exception):
            action()
