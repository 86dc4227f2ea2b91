"""Wait until every broker has a session, and restart brokers that exited by themselves."""

from collections.abc import Callable
from typing import Final

from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.waiting import await_condition

_CLUSTER_LIMIT_S: Final = 30.0
Note = Callable[[str, int | None], None]
"""A function that gets a sentence about an action, and the id of the broker; None without a
broker."""


def await_sessions(
    cluster: Cluster, probe: Probe, *, what: str, limit_s: float, note: Note
) -> None:
    """Wait until every broker has a session. No fault may be active.

    A broker exits if its session ends before the broker has started (``KafkaServer.startup``). This
    happens on a busy machine, or while ZooKeeper is paused. This function restarts such a broker.

    Args:
        what: the condition in words, for the error message.
        note: gets a sentence about each restart.

    Raises:
        HarnessError: a broker does not start.
        WaitTimeoutError: a broker has no session within the limit.
    """

    def live() -> frozenset[int]:
        for broker in cluster.brokers.values():
            if broker.state == "down":
                broker.start()
                note(
                    f"broker {broker.id} had exited by itself, and the harness restarted it",
                    broker.id,
                )
        return probe.live_brokers()

    await_condition(
        live,
        lambda live_ids: live_ids == frozenset(cluster.brokers),
        what=what,
        limit_s=limit_s,
        passing=(UnreachableError,),
    )


def await_cluster(cluster: Cluster, probe: Probe) -> int:
    """Wait until every broker has a session; return the id of the elected controller.

    The previous story on this cluster may have just restarted a broker.

    Raises:
        WaitTimeoutError: a broker has no session, or there is no controller, at the limit.
    """
    controller, _ = await_condition(
        lambda: (probe.controller(), probe.live_brokers()),
        lambda seen: seen[1] == set(cluster.brokers),
        what="every broker to have a session, and a controller",
        limit_s=_CLUSTER_LIMIT_S,
        passing=(UnreachableError,),
    )
    return controller
