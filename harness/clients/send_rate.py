"""Send rates and lifetimes of clients. Their random numbers depend on the run's seed."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from highwater.harness.runs.plan import Plan

POLL_S: Final = 0.05
"""The longest time in seconds between two checks whether a client must end."""

_BURST: Final = 100
_CATCH_UP_S: Final = 1.0
_CRASHES: Final = 0.5


class RateLimiter:
    """Computes the number of records or transactions to send now, for an average rate.

    After a pause of the client, the number includes the records of one missed second at most.

    Args:
        rate: records or transactions per second; 0 means as fast as possible.
        clock: returns nanoseconds.
    """

    def __init__(self, rate: float, clock: Callable[[], int]) -> None:
        self._rate = rate
        self._clock = clock
        self._credit = 0.0
        self._last_ns = clock()

    def due(self) -> int:
        """Return the number of records or transactions to send now."""
        if self._rate <= 0:
            return _BURST
        now = self._clock()
        self._credit += (now - self._last_ns) * 1e-9 * self._rate
        self._last_ns = now
        whole = int(self._credit)
        self._credit -= whole
        return min(whole, max(1, int(self._rate * _CATCH_UP_S)))

    def wait_s(self) -> float:
        """Return the seconds until the next record or transaction is due."""
        return 0.0 if self._rate <= 0 else min((1.0 - self._credit) / self._rate, POLL_S)


class StopSignal(Protocol):
    """A signal that a client must end: a ``ClientLifetime``, or a ``threading.Event``."""

    def is_set(self) -> bool:
        """Return whether the client must end."""


def draws(plan: Plan, client: str) -> random.Random:
    """Return a client's random number generator, seeded by the run's seed and the client's name."""
    return random.Random(f"{plan.seed} {client}")  # noqa: S311 - no secret


class ClientLifetime:
    """The time of one client from its start to its end: a crash, a clean end, or the run's end.

    Args:
        number: number of earlier lifetimes of the same client.
        dies: whether the client ends by a crash, after ``length_s``.
    """

    def __init__(self, stop: threading.Event, number: int, *, length_s: float, dies: bool) -> None:
        self.number = number
        self._stop = stop
        self._length_s = length_s
        self._began = time.monotonic()
        self._dies = dies

    def is_set(self) -> bool:
        """Return whether the lifetime is over."""
        return self._stop.is_set() or time.monotonic() - self._began >= self._length_s

    @property
    def crashed(self) -> bool:
        """True if the lifetime ended by a crash. Then the harness does not close the client."""
        return self._dies and not self._stop.is_set() and self.is_set()

    def named(self, name: str) -> str:
        """Return the client's process in the history for this lifetime: ``producer-0.1``."""
        return f"{name}.{self.number}" if self.number else name


def lives(
    stop: threading.Event, random_source: random.Random, mean_s: float
) -> Iterator[ClientLifetime]:
    """Yield one lifetime after another until the run ends. Half of them end by a crash.

    Args:
        mean_s: average seconds of a lifetime (exponential distribution); 0 means as long as the
            run.
    """
    number = 0
    while not stop.is_set():
        length_s = random_source.expovariate(1 / mean_s) if mean_s else float("inf")
        dies = random_source.random() < _CRASHES
        yield ClientLifetime(stop, number, length_s=length_s, dies=dies)
        number += 1
