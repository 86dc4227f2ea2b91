"""Faults of the broker's process: what kill, pause and an orderly restart do to replication.

SIGKILL keeps the page cache, so nothing that was written is lost from disk by any of these.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from highwater.clusters.admin.sessions import await_sessions
from highwater.clusters.core.interfaces import Cluster, UnreachableError
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.nemesis.faults.registry import FaultTarget, aimed, fault

_STORM: Final = 3
_SESSION_LIMIT_S: Final = 60.0


@fault("kill", commands=("kill", "start"))
def kill(cluster: Cluster, broker: int) -> Iterator[str]:
    """SIGKILL a broker; healing starts it again on the data it left."""
    target = cluster.brokers[broker]
    target.kill()
    try:
        yield f"broker {broker} is killed"
    finally:
        target.start()


@fault("pause", commands=("pause", "resume"))
def pause(cluster: Cluster, broker: int) -> Iterator[str]:
    """Freeze a broker (SIGSTOP), long enough for its session to end or not; healing wakes it."""
    target = cluster.brokers[broker]
    target.pause()
    try:
        yield f"broker {broker} is paused"
    finally:
        target.resume()


@fault("stop", commands=("stop", "start"), awaits_coordination=True)
def stop(cluster: Cluster, broker: int) -> Iterator[str]:
    """Shut a broker down in order, as a rolling restart does; healing starts it again."""
    target = cluster.brokers[broker]
    target.stop()
    try:
        yield f"broker {broker} is shut down"
    finally:
        target.start()


@fault("restart", commands=("stop", "start"), awaits_coordination=True)
def restart(cluster: Cluster, broker: int) -> Iterator[str]:
    """Shut a broker down in order and start it again at once; there is nothing left to heal."""
    target = cluster.brokers[broker]
    try:
        target.stop()
    finally:
        target.start()
    yield f"broker {broker} was restarted"


@fault("crash-loop", commands=("kill", "start"), awaits_coordination=True)
def crash_loop(cluster: Cluster, broker: int) -> Iterator[str]:
    """SIGKILL a broker and start it, three times in a row: it dies while it still catches up."""
    target = cluster.brokers[broker]
    for _ in range(_STORM):
        try:
            target.kill()
        finally:
            target.start()
    yield f"broker {broker} was killed and started {_STORM} times"


@fault("zombie", commands=("pause", "resume"), awaits_coordination=True)
def zombie(cluster: Cluster, broker: int) -> Iterator[str]:
    """Freeze a broker until its session has ended; healing wakes it, believing that it leads.

    Until it hears otherwise it answers its clients as the leader that it no longer is.
    """
    target = cluster.brokers[broker]
    awake = {broker.id for broker in cluster.brokers.values() if broker.state == "running"} - {
        broker
    }
    if not awake and cluster.release.coordination == "kraft":
        raise UnreachableError("no broker is left that could tell whether its session has ended")
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
                what=f"the session of broker {broker}, which is paused, to end",
                limit_s=_SESSION_LIMIT_S,
                passing=(UnreachableError,),
            )
        except WaitTimeoutError as error:
            if cluster.release.coordination == "kraft":  # known from brokers, that may be cut off
                raise UnreachableError("no broker that is awake hears of the controller") from error
            raise


@aimed("rolling-restart", at="cluster", commands=("stop", "start"), awaits_coordination=True)
def rolling_restart(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Restart every broker in order, one after the other, each once the last has its session."""
    with contextlib.closing(cluster.probe()) as probe:
        for target in cluster.brokers.values():
            try:
                target.stop()
            finally:
                target.start()
            await_sessions(
                cluster,
                probe,
                what=f"broker {target.id} to have a session again",
                limit_s=_SESSION_LIMIT_S,
                note=aim.note,
            )
    yield "every broker was restarted, one after the other"
