"""Highwater: which acknowledged records can this Kafka lose, and why.

``highwater.load(run)`` opens a run for a notebook or a test; the rest is the command ``highwater``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highwater.api import StoredRun as StoredRun
    from highwater.api import load as load

__all__ = ["StoredRun", "load"]


def __getattr__(name: str) -> object:
    """Import the API only when it is asked for: it brings Spark and the clients with it."""
    if name not in __all__:
        raise AttributeError(f"module 'highwater' has no attribute {name!r}")
    from highwater import api  # noqa: PLC0415

    return getattr(api, name)
