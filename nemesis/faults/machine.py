"""Faults of a broker's machine: its wall clock, and its disk.

The broker's process continues to run. A preloaded library shifts its clock
(``clusters.nodes.broker_clock``). strace delays its system calls or lets them fail
(``clusters.nodes.syscall_injection``).
"""

import contextlib
import itertools
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    LEADER_EPOCH,
    LOG_START,
    RECOVERY_POINT,
)
from highwater.clusters.core.interfaces import Broker, Cluster
from highwater.clusters.core.system_calls import FLUSHES, READS, WRITES, CallRule
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.faults.registry import CLOCKS, STRACE, FaultTarget, NothingDoneError, aimed

_DAY_S: Final = 86_400
BUMPS_S: Final = (-_DAY_S, -3600, -60, -5, 5, 60, 3600, _DAY_S, 8 * _DAY_S)
"""The seconds by which a clock jumps. 8 days are longer than Kafka's default retention."""

DAY_AHEAD: Final = (BUMPS_S.index(_DAY_S) + 0.5) / len(BUMPS_S)
"""The choice of a target for which a clock jumps a day ahead."""

_STROBES_S: Final = (5, 60, 3600)
_DRIFTS: Final = (-0.5, -0.1, 0.1, 0.5, 2.0)
"""The seconds that a clock gains in a second. The clock changes in steps of a second."""

_STALL: Final = "delay_enter=600000000"
_SLOW_MS: Final = (20, 200)
_FAILS_S: Final = 15.0
"""The time limit for a call that can fail. Kafka writes its high watermarks every 5 s."""

_KINDS: Final = {"write": WRITES, "flush": FLUSHES, "read": READS}
_CHECKPOINTS: Final = (HIGH_WATERMARK, RECOVERY_POINT, LOG_START)


def _processes(_: Release, driver: str) -> str:
    return "" if driver == "local" else "only local processes"


def _choose(aim: FaultTarget, choices: tuple[float, ...]) -> float:
    return choices[int(aim.choice * len(choices))]


@contextlib.contextmanager
def _set_back(target: Broker) -> Iterator[None]:
    """Reset a broker's clock at the end of the block, even after an error."""
    try:
        yield
    finally:
        target.shift_clock(0.0)


@contextlib.contextmanager
def _moving(target: Broker, offsets_s: Iterable[float]) -> Iterator[None]:
    """Set a series of offsets of a broker's clock, about one per second, then reset the clock."""
    ended = threading.Event()

    def move() -> None:
        for offset_s in offsets_s:
            if ended.is_set():
                return
            target.shift_clock(offset_s)

    with _set_back(target), ThreadPoolExecutor(1, thread_name_prefix="clock") as pool:
        moves = pool.submit(move)
        try:
            yield
        finally:
            ended.set()
        moves.result()


@aimed("clock-bump", why_not=_processes, needs=CLOCKS)
def clock_bump(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Step a broker's wall clock by 5 s to 8 days, forward or back."""
    target, offset_s = cluster.brokers[aim.victim], _choose(aim, BUMPS_S)
    with _set_back(target):
        target.shift_clock(offset_s)
        yield f"the clock of broker {target.id} is {abs(offset_s):g} s {_side(offset_s)}"


@aimed("clock-strobe", why_not=_processes, needs=CLOCKS)
def clock_strobe(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let a broker's wall clock jump up to an hour ahead and back, repeatedly."""
    target, ahead_s = cluster.brokers[aim.victim], _choose(aim, _STROBES_S)
    with _moving(target, itertools.cycle((ahead_s, 0.0))):
        yield f"the clock of broker {target.id} jumps {ahead_s:g} s ahead and back"


@aimed("clock-drift", why_not=_processes, needs=CLOCKS)
def clock_drift(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let a broker's wall clock run at half to three times the speed."""
    target, gain = cluster.brokers[aim.victim], _choose(aim, _DRIFTS)
    with _moving(target, itertools.count(gain, gain)):
        yield f"the clock of broker {target.id} gains {gain:g} s a second"


def _side(offset_s: float) -> str:
    return "ahead" if offset_s > 0 else "behind"


def _files(target: Broker) -> list[Path]:
    """Return the files of a broker's disk that it writes by calls: indexes are in its memory."""
    files = []
    for folder in target.log_directories:
        files += [folder / name for name in _CHECKPOINTS]
        for replica in (*disk_damage.partitions(folder), folder / f"{disk_damage.METADATA}-0"):
            if replica.is_dir():
                files += [*disk_damage.segments(replica), replica / LEADER_EPOCH]
    return [path for file in files for path in (file, file.with_name(f"{file.name}.tmp"))]


@aimed("disk-stall", why_not=_processes, needs=STRACE)
def disk_stall(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let every read, write and flush of a broker's files hang until healing."""
    yield from _slowed(cluster, aim, _STALL, "hangs")


@aimed("disk-slow", why_not=_processes, needs=STRACE)
def disk_slow(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Delay every read, write and flush of a broker's files by 20 to 200 ms."""
    least, most = _SLOW_MS
    delay_ms = round(least + aim.choice * (most - least))
    says = f"takes {delay_ms} ms for each call"
    yield from _slowed(cluster, aim, f"delay_enter={1000 * delay_ms}", says)


def _slowed(cluster: Cluster, aim: FaultTarget, action: str, says: str) -> Iterator[str]:
    """Delay a broker's calls on its files. Files of segments that begin later are not delayed."""
    target = cluster.brokers[aim.victim]
    calls = ",".join(_KINDS.values())
    try:
        with target.inject_calls(CallRule(calls=calls, action=action, files=_files(target))):
            yield f"the disk of broker {target.id} {says}"
    finally:
        target.start()


@aimed("disk-eio", why_not=_processes, needs=STRACE)
def disk_eio(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let one write, flush or read of a broker's files fail (EIO).

    Healing restarts the broker, as an administrator would, if it has not ended itself.

    Raises:
        NothingDoneError: the broker made no such system call.
    """
    target = cluster.brokers[aim.victim]
    kind = [*_KINDS][int(aim.choice * len(_KINDS))]
    rule = CallRule(calls=_KINDS[kind], action="error=EIO:when=1", files=_files(target))
    with target.inject_calls(rule) as failed:
        try:
            await_condition(
                failed, lambda count: count > 0, what=f"a {kind} to fail", limit_s=_FAILS_S
            )
        except WaitTimeoutError as error:
            raise NothingDoneError(f"broker {target.id} made no {kind}") from error
    try:
        yield f"a {kind} of broker {target.id} has failed (EIO)"
    finally:
        ended = "has ended itself" if target.state == "down" else "runs on"
        aim.note(f"broker {target.id} {ended} after its {kind} had failed", target.id)
        target.kill()
        target.start()
