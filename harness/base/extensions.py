"""Faults and checkers of other packages, which are found by their entry points."""

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from highwater.harness.base.errors import HarnessError

FAULTS: Final = "highwater.faults"
CHECKERS: Final = "highwater.checkers"
"""Groups of entry points. Each names a function that the package decorates as one of these."""


@functools.cache
def load(group: str) -> tuple[tuple[str, object], ...]:
    """Return what installed packages name in a group, by name, each with the words for its package.

    Once in a process, because looking through all packages takes time.

    Raises:
        HarnessError: one of them cannot be imported; the message names its package.
    """
    loaded = []
    for entry in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        try:
            loaded.append((_package(entry), entry.load()))
        except Exception as error:
            raise HarnessError(
                f"{_package(entry)} cannot be loaded for {group}: {type(error).__name__}: {error}",
                hint=f"Fix its module {entry.value}, or uninstall it.",
            ) from error
    return tuple(loaded)


def _package(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name}" if entry.dist else f"the entry point {entry.name}"
