"""Every broker is to have its session; one that ended by itself is started, as supervisors do."""

from collections.abc import Callable

from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.waiting import await_condition

Note = Callable[[str, int | None], None]
"""Told what was done, and with which broker."""


def await_sessions(
    cluster: Cluster, probe: Probe, *, what: str, limit_s: float, note: Note
) -> None:
    """Wait until every broker has its session, while nobody keeps one down.

    A broker ends itself when its session ends before it has started (``KafkaServer.startup``), as
    it may on a busy machine or when ZooKeeper stands still.

    Args:
        what: is waited for, in words.

    Raises:
        HarnessError: a broker does not start.
        WaitTimeoutError: somebody has no session by then.
    """

    def live() -> frozenset[int]:
        for broker in cluster.brokers.values():
            if broker.state == "down":
                broker.start()
                note(f"broker {broker.id} had ended by itself, and was started again", broker.id)
        return probe.live_brokers()

    await_condition(
        live,
        lambda live_ids: live_ids == frozenset(cluster.brokers),
        what=what,
        limit_s=limit_s,
        passing=(UnreachableError,),
    )
