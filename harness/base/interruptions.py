"""Ctrl-C and SIGTERM while something must be undone: printed at once, delayed until it is done."""

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
    """Register what says what has to be undone before this process may end; "" for nothing."""
    _undoing.append(what)


def withdraw(what: Callable[[], str]) -> None:
    """Remove what was registered. May be called twice."""
    with contextlib.suppress(ValueError):
        _undoing.remove(what)


def tell(number: int) -> None:
    """Say on standard error what is undone before the process ends, if anything is."""
    sentences = "; ".join(filter(None, (what() for what in _undoing)))
    if sentences:
        line = f"highwater: {SIGNALS[number]}: before the end, {sentences}\n"
        # Not by ``sys.stderr``: a signal may come while that is written to.
        with contextlib.suppress(OSError):
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line.encode())


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Hold signals that come within the block until its end; print a line about each at once.

    They have a handler meanwhile, since children inherit what is ignored, but no handler. Only the
    main thread gets signals: in another one this does nothing.
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
