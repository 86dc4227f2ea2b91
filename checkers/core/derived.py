"""Derived tables. One function computes each table, once for each source.

A checker calls the function of the derived table, such as ``log_ends(tables)``.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

_Result = TypeVar("_Result")


class DerivedFrom(Protocol):
    """The source and the cache of derived tables: ``Tables`` or ``ClientHistory``."""

    derived: dict[object, Any]


_Source = TypeVar("_Source", bound=DerivedFrom)


def derived(make: Callable[[_Source], _Result]) -> Callable[[_Source], _Result]:
    """Make a function compute its result only once for each source."""

    @wraps(make)
    def once(source: _Source) -> _Result:
        if make not in source.derived:
            source.derived[make] = make(source)
        result: _Result = source.derived[make]
        return result

    return once
