"""Ctrl-C and SIGTERM while something must be undone: announced at once, obeyed later."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

SIGNALS: Final[dict[int, str]] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
_undoing: list[Callable[[], str]] = []


def announce(what: Callable[[], str]) -> None:
    """Register a function that names what must be undone before the end, or returns ""."""
    _undoing.append(what)


def withdraw(what: Callable[[], str]) -> None:
    """Remove a registered function. A second call does nothing."""
    with contextlib.suppress(ValueError):
        _undoing.remove(what)


def tell(number: int) -> None:
    """Print on standard error what will be undone before the process ends."""
    sentences = "; ".join(filter(None, (what() for what in _undoing)))
    if sentences:
        line = f"highwater: {SIGNALS[number]}: before the end, {sentences}\n"
        # Not by ``sys.stderr``: the signal may arrive while the process writes to it.
        with contextlib.suppress(OSError):
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line.encode())


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Hold signals until the end of the block; print a line about each at once.

    The signals have a handler meanwhile, because child processes would inherit ignored signals, but
    do not inherit handlers. Only the main thread gets signals; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        tell(number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])
