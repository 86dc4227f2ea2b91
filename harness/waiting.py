"""Waiting: always for a condition, always with a limit, always with a message."""

import time
from collections.abc import Callable
from typing import TypeVar

from harness.errors import WaitTimeoutError

_T = TypeVar("_T")


def await_condition(
    look: Callable[[], _T],
    until: Callable[[_T], bool],
    *,
    what: str,
    limit_s: float,
    every_s: float = 0.05,
    passing: tuple[type[Exception], ...] = (),
) -> _T:
    """Look again and again until what is seen satisfies a condition.

    Args:
        look: takes one look.
        until: whether what was seen is it.
        what: the condition in words, as in "waited 30 s for <what>".
        limit_s: seconds after which to give up.
        every_s: seconds between two looks.
        passing: errors of a look that only mean "not yet".

    Returns:
        What was seen at last.

    Raises:
        WaitTimeoutError: the limit passed; the message says what was seen instead.
    """
    deadline = time.monotonic() + limit_s
    while True:
        seen: object
        try:
            seen = found = look()
            if until(found):
                return found
        except passing as error:
            seen = error
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(f"waited {limit_s:g} s for {what}; last seen: {seen}")
        time.sleep(every_s)
