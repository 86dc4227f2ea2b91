"""Faults and checkers from other Python packages, which register them as entry points."""

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from highwater.harness.base.errors import HarnessError

FAULTS: Final = "highwater.faults"
CHECKERS: Final = "highwater.checkers"
"""Names of two groups of entry points. An entry point names a function with the decorator of a
fault or checker."""


@functools.cache
def load(group: str) -> tuple[tuple[str, object], ...]:
    """Return (package, loaded object) of each entry point in a group, sorted by name.

    The result is cached in this process, because a search of all packages takes time.

    Raises:
        HarnessError: an entry point cannot be imported; the message names its package.
    """
    loaded = []
    for entry in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        try:
            loaded.append((_package(entry), entry.load()))
        except Exception as error:
            raise HarnessError(
                f"{_package(entry)} cannot be loaded for {group}: {type(error).__name__}: {error}",
                hint=f"Correct the module {entry.value}, or uninstall the package.",
            ) from error
    return tuple(loaded)


def _package(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name}" if entry.dist else f"the entry point {entry.name}"
