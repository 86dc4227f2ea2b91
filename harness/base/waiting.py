"""Functions that wait for a condition, with a time limit and a message."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Generic, TypeVar

from highwater.harness.base.errors import WaitTimeoutError

_T = TypeVar("_T")


class NotYetError(Exception):
    """An observation is not available yet. The message says what is missing."""


def await_condition(
    look: Callable[[], _T],
    until: Callable[[_T], bool] | None = None,
    *,
    what: str,
    limit_s: float,
    every_s: float = 0.05,
    passing: tuple[type[Exception], ...] = (),
) -> _T:
    """Call ``look`` repeatedly until its result satisfies a condition; return that result.

    Args:
        look: returns a new observation at each call. The function may not return a bool, because a
            bool cannot explain a timeout.
        until: the condition. Without a condition, the first result of ``look`` is returned.
        what: the condition as text, for the message "waited 30 s for <what>".
        passing: errors of ``look`` that are ignored until the limit, in addition to NotYetError.

    Raises:
        WaitTimeoutError: the limit passed; the message has the last observation.
        TypeError: ``look`` returned a bool.
    """
    early: tuple[type[Exception], ...] = (NotYetError, *passing)
    deadline = time.monotonic() + limit_s
    while True:
        seen: object
        try:
            seen = result = look()
            if isinstance(result, bool):
                raise TypeError(
                    f"waiting for {what}: look() must return an observation, not a bool"
                )
            if until is None or until(result):
                return result
        except early as error:
            seen = error
        if time.monotonic() >= deadline:
            late = WaitTimeoutError(f"waited {limit_s:g} s for {what}; last seen: {_words(seen)}")
            late.seen = seen
            raise late
        time.sleep(every_s)


def _words(seen: object, *, inner: bool = False) -> str:
    """Return an observation as text; ``inner`` if it is a part of another observation."""
    if seen is None or seen == "":
        return "nothing"
    names = [field.name for field in fields(seen)] if is_dataclass(seen) else []
    names = names or getattr(seen, "_fields", [])  # a NamedTuple
    if names:
        seen = {name.replace("_", " "): getattr(seen, name) for name in names}
    if isinstance(seen, Mapping):
        words = ", ".join(f"{name} {_words(part, inner=True)}" for name, part in seen.items())
        return f"({words})" if inner else words or "nothing"
    if isinstance(seen, set | frozenset | list | tuple):
        parts = [_words(part, inner=True) for part in seen]
        return f"[{', '.join(parts if isinstance(seen, list | tuple) else sorted(parts))}]"
    return str(seen)


class SteadyCondition(Generic[_T]):
    """A condition for ``until``: the given condition has been true for ``for_s`` seconds."""

    def __init__(
        self,
        until: Callable[[_T], bool],
        *,
        for_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._until = until
        self._for_s = for_s
        self._clock = clock
        self._since: float | None = None

    def __call__(self, seen: _T) -> bool:
        """Return whether the given condition has been true for ``for_s`` seconds."""
        if not self._until(seen):
            self._since = None
            return False
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since >= self._for_s


def place_of(thread: threading.Thread) -> str:
    """Return a thread's name and, if the thread runs, the line of Python that it executes."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - no other way to a stack
    if frame is None:
        return thread.name
    last = traceback.extract_stack(frame)[-1]
    return f"{thread.name} ({Path(last.filename).name}, line {last.lineno}: {last.line})"
