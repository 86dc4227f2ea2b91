"""The log lines of a Python library, which has its loggers for the whole process."""

import logging
import threading
from typing import Final

_lock: Final = threading.Lock()
_before: Final[dict[str, tuple[int, int, bool]]] = {}
"""Of each logger in use: how many use it, and the level and propagation that it had."""


class LibraryLog:
    """Copies the lines of a library into a run's log of clients, until it is closed.

    Runs at the same time in one process get each other's lines, too. The last that is closed gives
    the logger back as it was.

    Args:
        name: of the library's logger.
        log: of the run; its handlers get the lines.
    """

    def __init__(self, name: str, log: logging.Logger) -> None:
        self._logger = logging.getLogger(name)
        self._handlers = tuple(log.handlers)
        self._open = True
        with _lock:
            unused = (0, self._logger.level, self._logger.propagate)
            users, level, propagate = _before.get(name, unused)
            _before[name] = (users + 1, level, propagate)
            self._logger.setLevel(logging.INFO)
            self._logger.propagate = False  # never to the terminal
            for handler in self._handlers:
                self._logger.addHandler(handler)

    def close(self) -> None:
        """Copy no more lines. May be called twice."""
        with _lock:
            if not self._open:
                return
            self._open = False
            for handler in self._handlers:
                self._logger.removeHandler(handler)
            users, level, propagate = _before.pop(self._logger.name)
            if users > 1:
                _before[self._logger.name] = (users - 1, level, propagate)
            else:
                self._logger.setLevel(level)
                self._logger.propagate = propagate
