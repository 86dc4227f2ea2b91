"""Every story there is."""

import importlib
from typing import Final

from harness.errors import UsageError
from harness.suggest import nearest
from nemesis.story import STORIES, Prediction, Story

__all__ = ["STORIES", "Prediction", "Story", "find_story"]

_FAMILIES: Final = ("failovers", "canaries", "outages", "network_stories")

for _family in _FAMILIES:
    importlib.import_module(f"nemesis.{_family}")


def find_story(name: str) -> Story:
    """The story of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return STORIES[name]
    except KeyError:
        raise UsageError(f"no story is called {name!r}", hint=nearest(name, STORIES)) from None
