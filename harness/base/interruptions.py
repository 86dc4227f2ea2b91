"""Ctrl-C and SIGTERM during a fault. The process heals the fault before it ends."""

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
    """Register a function that returns the faults to heal as a sentence; "" for no faults."""
    _undoing.append(what)


def withdraw(what: Callable[[], str]) -> None:
    """Remove a registered function. A second call does nothing."""
    with contextlib.suppress(ValueError):
        _undoing.remove(what)


def tell(number: int) -> None:
    """Print to standard error the signal and the faults that will be healed before the end."""
    sentences = "; ".join(filter(None, (what() for what in _undoing)))
    if sentences:
        line = f"highwater: {SIGNALS[number]}: before the end, {sentences}\n"
        # Not by ``sys.stderr``: the signal may arrive while the process writes to it.
        with contextlib.suppress(OSError):
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line.encode())


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Delay signals until the end of the block, and print a line about each signal at once.

    During the block, the signals have a handler. If they were ignored instead, child processes
    would inherit that. Only the main thread gets signals, so in other threads this function changes
    nothing.
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
