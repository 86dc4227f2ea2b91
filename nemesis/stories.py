"""Every story there is, and who plays A, B and C in it."""

from clusters.cluster import Cluster, Probe, UnreachableError
from harness.errors import UsageError
from harness.suggest import nearest
from harness.waiting import await_condition
from nemesis import canaries, failovers
from nemesis.story import STORIES, Prediction, Story

__all__ = ["FAMILIES", "STORIES", "Prediction", "Story", "cast", "find_story"]

FAMILIES = (failovers, canaries)
"""The modules that register stories when they are imported."""


def find_story(name: str) -> Story:
    """The story of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return STORIES[name]
    except KeyError:
        raise UsageError(f"no story is called {name!r}", hint=nearest(name, STORIES)) from None


def cast(cluster: Cluster, probe: Probe) -> tuple[int, int, int]:
    """Choose A, B and C: on ZooKeeper the controller is C, since it must outlive the other two.

    Waits until every broker has a session and one of them is the controller, as on a cluster of
    which some broker was restarted a moment ago.

    Raises:
        WaitTimeoutError: that is not so within the limit.
    """
    controller, _ = await_condition(
        lambda: (probe.controller(), probe.live_brokers()),
        lambda seen: seen[1] == set(cluster.brokers),
        what="every broker to have a session, and a controller",
        limit_s=30,
        passing=(UnreachableError,),
    )
    first, second, third = sorted(cluster.brokers)[:3]
    survivor = controller if controller in (first, second) else third
    a, b = (broker for broker in (first, second, third) if broker != survivor)
    return a, b, survivor
