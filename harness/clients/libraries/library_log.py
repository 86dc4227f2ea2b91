"""The log lines of a Python library, whose loggers exist once for the whole process."""

import logging
import threading
from typing import Final

_lock: Final = threading.Lock()
_before: Final[dict[str, tuple[int, int, bool]]] = {}
"""Name of a logger in use to its number of users, and its level and propagation before."""


class LibraryLog:
    """Copies a library's lines into a run's log of clients, until it is closed.

    Parallel runs in one process also get each other's lines. When the last ``LibraryLog`` for a
    logger is closed, the logger gets its former level and propagation back.

    Args:
        name: the name of the library's logger.
        log: the run's log, whose handlers get the lines.
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
        """Stop copying lines. May be called twice."""
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
