"""Faults of the broker's process: kill, pause and clean restart.

SIGKILL does not affect the page cache, so no bytes that a broker has written are lost.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from highwater.clusters.admin.replication import ReplicationView
from highwater.clusters.admin.sessions import await_sessions
from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.steps import RESTARTED, ROLLING
from highwater.nemesis.faults.registry import RESTART, FaultTarget, aimed, fault

_STORM: Final = 3
_SESSION_LIMIT_S: Final = 60.0
_IN_SYNC_LIMIT_S: Final = 600.0


@fault("kill", commands=("kill", "start"))
def kill(cluster: Cluster, broker: int) -> Iterator[str]:
    """SIGKILL a broker."""
    target = cluster.brokers[broker]
    target.kill()
    try:
        yield f"broker {broker} is killed"
    finally:
        target.start()


@fault("pause", commands=("pause", "resume"))
def pause(cluster: Cluster, broker: int) -> Iterator[str]:
    """Freeze a broker (SIGSTOP), perhaps until after its session has ended."""
    target = cluster.brokers[broker]
    target.pause()
    try:
        yield f"broker {broker} is paused"
    finally:
        target.resume()


@fault("stop", commands=("stop", "start"), awaits_coordination=True)
def stop(cluster: Cluster, broker: int) -> Iterator[str]:
    """Shut a broker down cleanly, as a rolling restart does."""
    target = cluster.brokers[broker]
    target.stop()
    try:
        yield f"broker {broker} is shut down"
    finally:
        target.start()


@fault("restart", commands=(RESTART,), awaits_coordination=True)
def restart(cluster: Cluster, broker: int) -> Iterator[str]:
    """Shut a broker down cleanly and start it again at once."""
    cluster.brokers[broker].restart()
    yield f"broker {broker} was restarted"


@fault("crash-loop", commands=("kill", "start"), awaits_coordination=True)
def crash_loop(cluster: Cluster, broker: int) -> Iterator[str]:
    """SIGKILL and start a broker three times, without waiting until it is in sync."""
    target = cluster.brokers[broker]
    for _ in range(_STORM):
        try:
            target.kill()
        finally:
            target.start()
    yield f"broker {broker} was killed and started {_STORM} times"


@fault("zombie", commands=("pause", "resume"), awaits_coordination=True)
def zombie(cluster: Cluster, broker: int) -> Iterator[str]:
    """Freeze a broker until its session has ended; when resumed, it still acts as leader.

    The broker responds to clients as a leader until it learns of the new leader.
    """
    target = cluster.brokers[broker]
    awake = {broker.id for broker in cluster.brokers.values() if broker.state == "running"} - {
        broker
    }
    if not awake and cluster.release.coordination == "kraft":
        raise UnreachableError(
            "no other broker runs, so no broker can report the end of the session"
        )
    target.pause()
    try:
        _await_end(cluster, broker)
        yield f"broker {broker} is paused, and its session has ended"
    finally:
        target.resume()


def _await_end(cluster: Cluster, broker: int) -> None:
    """Wait until a paused broker's session has ended."""
    with contextlib.closing(cluster.probe()) as probe:
        try:
            await_condition(
                probe.live_brokers,
                lambda live: broker not in live,
                what=f"the session of the paused broker {broker} to end",
                limit_s=_SESSION_LIMIT_S,
                passing=(UnreachableError,),
            )
        except WaitTimeoutError as error:
            if cluster.release.coordination == "kraft":  # may be isolated
                raise UnreachableError("no running broker knows the controller") from error
            raise


@aimed("rolling-restart", at="cluster", commands=(RESTART,), awaits_coordination=True)
def rolling_restart(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Restart every broker in turn; before each restart, wait for the previous broker's session."""
    with contextlib.closing(cluster.probe()) as probe:
        for target in cluster.brokers.values():
            _require_going(aim)
            target.restart()
            _await_session(cluster, probe, aim, target.id)
    yield "every broker was restarted, one after the other"


@aimed(ROLLING, at="cluster", commands=(RESTART,), awaits_coordination=True)
def rolling_in_sync(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Restart every broker in turn; before each restart, wait until every replica is in sync."""
    with (
        contextlib.closing(cluster.probe()) as probe,
        contextlib.closing(ReplicationView(cluster)) as view,
    ):
        _await_in_sync(view, "before the first restart")
        aim.note("every replica is in sync; the brokers are restarted in turn", None)
        for number, target in enumerate(cluster.brokers.values(), start=1):
            _require_going(aim)
            target.restart()
            place = f"{number} of {len(cluster.brokers)}"
            aim.note(f"broker {target.id}, {place}, {RESTARTED}", target.id)
            _await_session(cluster, probe, aim, target.id)
            _await_in_sync(view, f"after the restart of broker {target.id}")
    yield "every broker was restarted in turn, each when all replicas were in sync"


def _require_going(aim: FaultTarget) -> None:
    if aim.stopped():
        raise HarnessError("the run was stopped during the rolling restart")


def _await_session(cluster: Cluster, probe: Probe, aim: FaultTarget, broker: int) -> None:
    await_sessions(
        cluster,
        probe,
        what=f"broker {broker} to have a session again",
        limit_s=_SESSION_LIMIT_S,
        note=aim.note,
    )


def _await_in_sync(view: ReplicationView, when: str) -> None:
    """Wait until no partition is under-replicated, as an operator does before the next restart.

    Raises:
        WaitTimeoutError: partitions are still under-replicated; the message names them.
    """
    await_condition(
        view.behind,
        lambda behind: not behind,
        what=f"every replica of every topic to be in sync {when}",
        limit_s=_IN_SYNC_LIMIT_S,
        every_s=0.5,
        passing=(UnreachableError,),
    )
