"""Faults of the program under test: an instance is killed, paused or stopped, and comes back.

One of those that run is hit. As long as the fault lasts its supervisor does not start it, so that
others may take its partitions over.
"""

from collections.abc import Iterator

from highwater.clusters.core.interfaces import Cluster
from highwater.nemesis.faults.registry import (
    PROGRAM,
    FaultTarget,
    InstanceUnderTest,
    NothingDoneError,
    aimed,
)


@aimed("app-kill", at="program", needs=PROGRAM, commands=())
def app_kill(_: Cluster, target: FaultTarget) -> Iterator[str]:
    """SIGKILL an instance of the program; healing starts it again."""
    victim = _victim(target)
    victim.kill()
    try:
        yield f"instance {victim.number} of the program is killed"
    finally:
        victim.start()


@aimed("app-pause", at="program", needs=PROGRAM, commands=())
def app_pause(_: Cluster, target: FaultTarget) -> Iterator[str]:
    """Freeze an instance of the program (SIGSTOP); healing wakes it."""
    victim = _victim(target)
    victim.pause()
    try:
        yield f"instance {victim.number} of the program is paused"
    finally:
        victim.resume()


@aimed("app-stop", at="program", needs=PROGRAM, commands=())
def app_stop(_: Cluster, target: FaultTarget) -> Iterator[str]:
    """SIGTERM an instance of the program; healing starts it again."""
    victim = _victim(target)
    ended = victim.terminate()
    how = "is stopped" if ended else "ignored SIGTERM, and is killed"
    try:
        yield f"instance {victim.number} of the program {how}"
    finally:
        victim.start()


def _victim(target: FaultTarget) -> InstanceUnderTest:
    running = target.program.running() if target.program else ()
    if not running:
        raise NothingDoneError("no instance of the program runs")
    return running[int(target.choice * len(running))]
