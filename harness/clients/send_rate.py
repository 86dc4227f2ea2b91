"""Rates and lifetimes of clients, drawn from the seed."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from highwater.harness.runs.plan import Plan

POLL_S: Final = 0.05
"""How long a client waits at most before it looks whether it must end."""

_BURST: Final = 100
_CATCH_UP_S: Final = 1.0
_CRASHES: Final = 0.5


class RateLimiter:
    """Keeps a rate on average: says how much is due.

    After a stall it makes up for one second of the lost time, not for all of it.

    Args:
        rate: records, or transactions, per second; 0 is as fast as possible.
        clock: nanoseconds.
    """

    def __init__(self, rate: float, clock: Callable[[], int]) -> None:
        self._rate = rate
        self._clock = clock
        self._credit = 0.0
        self._last_ns = clock()

    def due(self) -> int:
        """Return how many to send now."""
        if self._rate <= 0:
            return _BURST
        now = self._clock()
        self._credit += (now - self._last_ns) * 1e-9 * self._rate
        self._last_ns = now
        whole = int(self._credit)
        self._credit -= whole
        return min(whole, max(1, int(self._rate * _CATCH_UP_S)))

    def wait_s(self) -> float:
        """Return how long until the next one is due."""
        return 0.0 if self._rate <= 0 else min((1.0 - self._credit) / self._rate, POLL_S)


class StopSignal(Protocol):
    """The signal for a client to end: a ``ClientLifetime``, or a ``threading.Event``."""

    def is_set(self) -> bool:
        """Return whether it is over."""


def draws(plan: Plan, client: str) -> random.Random:
    """Return the random numbers of one client of a run, which no other client draws from."""
    return random.Random(f"{plan.seed} {client}")  # noqa: S311 - no secret


class ClientLifetime:
    """The life of one client: over when the run is, or when its time has come.

    Args:
        number: how many lives the same client had before.
    """

    def __init__(self, stop: threading.Event, number: int, *, length_s: float, dies: bool) -> None:
        self.number = number
        self._stop = stop
        self._length_s = length_s
        self._began = time.monotonic()
        self._dies = dies

    def is_set(self) -> bool:
        """Return whether it is over."""
        return self._stop.is_set() or time.monotonic() - self._began >= self._length_s

    @property
    def crashed(self) -> bool:
        """True if it is over by a crash: the client is dropped as it stands, and closes nothing."""
        return self._dies and not self._stop.is_set() and self.is_set()

    def named(self, name: str) -> str:
        """Return the process of this life in the history, such as ``producer-0.1``."""
        return f"{name}.{self.number}" if self.number else name


def lives(
    stop: threading.Event, random_source: random.Random, mean_s: float
) -> Iterator[ClientLifetime]:
    """One life after the other until the run is over; half of them end by a crash.

    Args:
        mean_s: seconds that a life lasts on average (exponentially); 0 is for as long as the run.
    """
    number = 0
    while not stop.is_set():
        length_s = random_source.expovariate(1 / mean_s) if mean_s else float("inf")
        dies = random_source.random() < _CRASHES
        yield ClientLifetime(stop, number, length_s=length_s, dies=dies)
        number += 1
