"""The log lines of a Python library, which has its loggers for the whole process."""

import logging


class LibraryLog:
    """Copies the lines of a library into a run's log of clients, until it is closed.

    Runs at the same time in one process get each other's lines, too.

    Args:
        name: of the library's logger.
        log: of the run; its handlers get the lines.
    """

    def __init__(self, name: str, log: logging.Logger) -> None:
        self._logger = logging.getLogger(name)
        self._handlers = tuple(log.handlers)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False  # never to the terminal
        for handler in self._handlers:
            self._logger.addHandler(handler)

    def close(self) -> None:
        """Copy no more lines."""
        for handler in self._handlers:
            self._logger.removeHandler(handler)
