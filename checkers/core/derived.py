"""Derived tables, each made by one function and kept with what it is made of.

A checker that needs one calls the function that makes it: ``log_ends(tables)``.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

_Result = TypeVar("_Result")


class DerivedFrom(Protocol):
    """The source of derived tables, which keeps them: ``Tables``, or one ``ClientHistory``."""

    derived: dict[object, Any]


_Source = TypeVar("_Source", bound=DerivedFrom)


def derived(make: Callable[[_Source], _Result]) -> Callable[[_Source], _Result]:
    """Make a function compute its result once for each source, however often it is asked for."""

    @wraps(make)
    def once(source: _Source) -> _Result:
        if make not in source.derived:
            source.derived[make] = make(source)
        result: _Result = source.derived[make]
        return result

    return once
