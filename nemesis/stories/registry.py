"""Every story there is."""

import importlib
from typing import Final

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.nemesis.stories.story import STORIES, Prediction, Story

__all__ = ["STORIES", "Prediction", "Story", "find_story"]

_FAMILIES: Final = ("failovers", "canaries", "power_failure", "network")

for _family in _FAMILIES:
    importlib.import_module(f"highwater.nemesis.stories.{_family}")


def find_story(name: str) -> Story:
    """Return the story of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return STORIES[name]
    except KeyError:
        raise UsageError(f"no story is called {name!r}", hint=nearest(name, STORIES)) from None
