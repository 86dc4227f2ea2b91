"""What a fault is, and the nemesis that injects and heals them.

A fault is a generator: it breaks something, yields one sentence that says what, and mends it again
after the ``yield``. Write one in a file of its family and decorate it; see docs/adding-a-fault.md.
"""

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from clusters.cluster import Cluster
from harness.errors import HarnessError, UsageError
from harness.suggest import nearest

Body = Callable[[Cluster, int], Iterator[str]]


class Scribe(Protocol):
    """Writes what the nemesis does into the run; the recorder is one."""

    def fault(self, name: str, phase: str, says: str, broker: int | None = None) -> None:
        """Record one row of ``events/faults``: phase is inject, heal or note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A named way to break one broker, and its undoing."""

    name: str
    summary: str
    body: Body


_FAMILIES: Final = ("process",)
_registry: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Body], Body]:
    """Register a generator as the fault ``name``; its docstring's first line is the summary."""

    def register(body: Body) -> Body:
        summary = (body.__doc__ or "").partition("\n")[0]
        _registry[name] = Fault(name=name, summary=summary, body=body)
        return body

    return register


def faults() -> Mapping[str, Fault]:
    """Every fault of every family, by name."""
    for family in _FAMILIES:
        importlib.import_module(f"nemesis.{family}")
    return _registry


def find_fault(name: str) -> Fault:
    """The fault of that name.

    Raises:
        UsageError: there is none; the nearest names are in the hint.
    """
    known = faults()
    if name not in known:
        raise UsageError(f"no fault is called {name!r}", hint=nearest(name, known))
    return known[name]


class Nemesis:
    """Injects faults into one cluster, knows which are open, and heals them.

    At most one fault is open on a broker at a time. Safe to use from several threads.
    """

    def __init__(self, cluster: Cluster, scribe: Scribe) -> None:
        self._cluster = cluster
        self._scribe = scribe
        self._open: dict[int, tuple[Fault, contextlib.ExitStack]] = {}
        self._lock = threading.Lock()

    @property
    def struck(self) -> frozenset[int]:
        """Ids of the brokers that a fault is open on."""
        return frozenset(self._open)

    def inject(self, name: str, broker: int) -> None:
        """Open a fault on a broker that has none, or kill one that is paused as it is.

        Raises:
            UsageError: no such fault.
            HarnessError: the broker is struck already.
        """
        chosen = find_fault(name)
        with self._lock:
            before = self._open.get(broker)
            if before is not None and (before[0].name, name) != ("pause", "kill"):
                raise HarnessError(f"broker {broker} is struck already, by {before[0].name}")
            stack = contextlib.ExitStack()
            self._open[broker] = (chosen, stack)
        try:
            says = stack.enter_context(
                contextlib.contextmanager(chosen.body)(self._cluster, broker)
            )
        except BaseException:
            self._open.pop(broker, None)
            raise
        if before is not None:
            before[1].close()  # nobody is left to be woken
            self._scribe.fault(before[0].name, "heal", f"broker {broker} is paused no more", broker)
        self._scribe.fault(name, "inject", says, broker)

    def heal(self, broker: int) -> None:
        """Mend what is open on a broker, if anything is; returns when it has taken effect."""
        with self._lock:
            chosen, stack = self._open.pop(broker, (None, None))
        if chosen is None or stack is None:
            return
        stack.close()
        self._scribe.fault(chosen.name, "heal", f"broker {broker} is mended", broker)

    def heal_all(self, brokers: Iterable[int] | None = None) -> None:
        """Mend everything that is open on these brokers (all, if none are named), side by side."""
        targets = sorted(self.struck if brokers is None else self.struck & set(brokers))
        if targets:
            with ThreadPoolExecutor(len(targets), thread_name_prefix="heal") as pool:
                list(pool.map(self.heal, targets))
