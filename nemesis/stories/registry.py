"""The registry of all stories (scripted scenarios)."""

import importlib
from typing import Final

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.nemesis.stories.story import STORIES, Prediction, Story

__all__ = ["STORIES", "Prediction", "Story", "find_story"]

_FAMILIES: Final = (
    "failovers",
    "canaries",
    "power_failure",
    "network",
    "restarts",
    "replaced_disk",
    "late_answer",
    "missed_decisions",
    "controller_disk",
    "clients.transactions",
    "tiered_storage",
    "retention",
    "replicas.long_absence",
    "replicas.lost_disks",
    "replicas.log_moves",
    "clients.java_producer",
    "clients.early_flush",
    "clients.early_commit",
    "clients.idempotent_producer",
    "clients.added_partitions",
    "clients.share_states",
    "clients.downgraded_groups",
    "clients.expired_positions",
    "clients.removed_groups",
    "clients.busy_coordinator",
    "clients.unloaded_groups",
    "clients.recreated_topics",
)

_HERE: Final = __name__.rpartition(".")[0]

for _family in _FAMILIES:
    importlib.import_module(f"{_HERE}.{_family}")


def _family_of(story: Story) -> int:
    return _FAMILIES.index(story.play.__module__.removeprefix(f"{_HERE}."))


_ordered: Final = sorted(
    STORIES.values(), key=_family_of
)  # in the order of the pages, not of the imports
STORIES.clear()
STORIES.update({story.name: story for story in _ordered})


def find_story(name: str) -> Story:
    """Return the story with this name.

    Raises:
        UsageError: no story has this name.
    """
    try:
        return STORIES[name]
    except KeyError:
        raise UsageError(f"no story is called {name!r}", hint=nearest(name, STORIES)) from None
