"""Faults of the machine under a node: its clock, its disk, its limits, the names that it looks up.

The process keeps running. A preloaded library shifts its clock (``clusters.nodes.broker_clock``),
and strace changes its system calls (``clusters.nodes.syscall_injection``). Both also work for
containers on the same Linux machine. Some faults are registered twice: for a broker, and with the
prefix ``controller-`` for a controller.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
)
from highwater.clusters.core.interfaces import Broker, Cluster, ClusterNode
from highwater.clusters.core.system_calls import FLUSHES, READS, WRITES, CallRule
from highwater.clusters.nodes.wiring import LISTENER_NAMES
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release
from highwater.harness.runs.faults.effects import FaultEffect
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.faults.coordination import start_nodes
from highwater.nemesis.faults.registry import (
    CLOCKS,
    IPTABLES,
    NAMES,
    OWN_PROCESS,
    STRACE,
    AimedBody,
    FaultTarget,
    Needs,
    NothingDoneError,
    aimed,
    fault,
)
from highwater.nemesis.faults.storage import await_growth, dead, loss

_DAY_S: Final = 86_400
BUMPS_S: Final = (-_DAY_S, -3600, -60, -5, 5, 60, 3600, _DAY_S, 8 * _DAY_S)
"""The seconds by which a clock jumps. 8 days exceed Kafka's default retention."""

DAY_AHEAD: Final = (BUMPS_S.index(_DAY_S) + 0.5) / len(BUMPS_S)
"""The value of ``FaultTarget.choice`` that makes a clock jump a day ahead."""

_STROBES_S: Final = (5, 60, 3600)
_DRIFTS: Final = (-0.5, -0.1, 0.1, 0.5, 2.0)
"""The seconds that a drifting clock gains in each second. The offset changes once a second."""

_STALL: Final = "delay_enter=600000000"
_SLOW_MS: Final = (20, 200)
_PERCENT: Final = (2, 20)
_SPARE_MB: Final = 16
TWO_MB: Final = 1.5 / _SPARE_MB
"""The value of ``FaultTarget.choice`` that leaves a broker 2 MB."""

_LOST: Final = (0.05, 0.5)
_FAILS_S: Final = 15.0
"""The longest wait for a system call that a fault changes. Kafka makes such calls when it writes
high watermarks, every 5 s by default."""

_KINDS: Final = {"write": WRITES, "flush": FLUSHES, "read": READS}
Counted = Callable[[], int]
_CHECKPOINTS: Final = (HIGH_WATERMARK, RECOVERY_POINT, LOG_START)


def _containers(_: Release, driver: str) -> str:
    return (
        ""
        if driver == "docker"
        else ("only containers have processor, memory and network limits of their own")
    )


def _of_controllers_too(name: str, needs: Needs) -> Callable[[AimedBody], AimedBody]:
    """Register a fault for brokers, and the same fault for ZooKeepers or controllers."""

    def register(body: AimedBody) -> AimedBody:
        aimed(name, needs=needs)(body)
        return aimed(f"controller-{name}", at="coordination", needs=needs)(body)

    return register


def _nodes(cluster: Cluster, aim: FaultTarget) -> list[ClusterNode]:
    if aim.controllers:
        return [cluster.controllers[controller] for controller in aim.controllers]
    return [cluster.brokers[aim.victim]]


def _title(cluster: Cluster, aim: FaultTarget) -> str:
    """Return a name for the fault's target nodes, such as ``broker 2`` or ``controller 100``."""
    if not aim.controllers:
        return f"broker {aim.victim}"
    zookeeper = cluster.release.coordination == "zookeeper"
    name = "ZooKeeper" if zookeeper else "controller"
    return f"{name} {', '.join(map(str, aim.controllers))}"


def _choose(aim: FaultTarget, choices: tuple[float, ...]) -> float:
    return choices[int(aim.choice * len(choices))]


def _shift(nodes: Sequence[ClusterNode], offset_s: float) -> None:
    with ThreadPoolExecutor(len(nodes), thread_name_prefix="clock") as pool:
        list(pool.map(lambda node: node.shift_clock(offset_s), nodes))


@contextlib.contextmanager
def _moving(nodes: Sequence[ClusterNode], offsets_s: Iterable[float]) -> Iterator[None]:
    """Each second, shift the nodes' clocks by the next offset; at the end, restore the clocks."""
    ended = threading.Event()

    def move() -> None:
        for offset_s in offsets_s:
            if ended.is_set():
                return
            _shift(nodes, offset_s)

    try:
        with ThreadPoolExecutor(1, thread_name_prefix="clocks") as pool:
            moves = pool.submit(move)
            try:
                yield
            finally:
                ended.set()
            moves.result()
    finally:
        _shift(nodes, 0.0)


@_of_controllers_too("clock-bump", CLOCKS)
def clock_bump(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Step a node's wall clock by 5 s to 8 days, forward or back."""
    nodes, offset_s = _nodes(cluster, aim), _choose(aim, BUMPS_S)
    side = "ahead" if offset_s > 0 else "behind"
    try:
        _shift(nodes, offset_s)
        yield f"the clock of {_title(cluster, aim)} is {abs(offset_s):g} s {side}"
    finally:
        _shift(nodes, 0.0)


@aimed("client-clock-bump", at="clients", needs=OWN_PROCESS)
def client_clock_bump(_: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Step the wall clock of the producers' process by -1, 1 or 8 days.

    By whole days, because the judge reads only the time of day in a client's log.

    Raises:
        NothingDoneError: no client has a process whose clock can move.
    """
    days = tuple(offset_s for offset_s in BUMPS_S if offset_s % _DAY_S == 0)
    offset_s, shift = _choose(aim, days), aim.shift_clients
    if shift is None:
        raise NothingDoneError("there are no clients")
    side = "ahead" if offset_s > 0 else "behind"
    try:
        shift(offset_s)
    except HarnessError as error:
        raise NothingDoneError(error.message) from error
    try:
        yield f"the clock of the producers' process is {abs(offset_s):g} s {side}"
    finally:
        shift(0.0)


@_of_controllers_too("clock-strobe", CLOCKS)
def clock_strobe(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let a node's wall clock jump up to an hour ahead and back, repeatedly."""
    ahead_s = _choose(aim, _STROBES_S)
    with _moving(_nodes(cluster, aim), itertools.cycle((ahead_s, 0.0))):
        yield f"the clock of {_title(cluster, aim)} jumps {ahead_s:g} s ahead and back"


@_of_controllers_too("clock-drift", CLOCKS)
def clock_drift(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let a node's wall clock run at 0.5 to 3 times its speed."""
    gain = _choose(aim, _DRIFTS)
    with _moving(_nodes(cluster, aim), itertools.count(gain, gain)):
        yield f"the clock of {_title(cluster, aim)} {_drift(gain)} every second"


def _drift(gain: float) -> str:
    return f"gains {gain:g} s" if gain > 0 else f"loses {-gain:g} s"


def _files(node: ClusterNode) -> list[Path]:
    """Return the node's files except indexes, which are memory-mapped and need no system calls."""
    files = {folder / name for folder in node.log_directories for name in _CHECKPOINTS}
    for folder in node.log_directories:
        files |= {path for path in folder.rglob("*") if path.is_file()}
    written = [file for file in sorted(files) if not file.name.endswith("index")]
    return [path for file in written for path in (file, file.with_name(f"{file.name}.tmp"))]


@contextlib.contextmanager
def _injected(nodes: Sequence[ClusterNode], calls: str, action: str) -> Iterator[list[Counted]]:
    """Change system calls on the nodes' present files during the ``with`` block."""
    with contextlib.ExitStack() as open_rules:
        yield [
            open_rules.enter_context(
                node.inject_calls(CallRule(calls=calls, action=action, files=_files(node)))
            )
            for node in nodes
        ]


@_of_controllers_too("disk-stall", STRACE)
def disk_stall(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Block every read, write and flush of a node's files until healing."""
    yield from _slowed(cluster, aim, _STALL, "hangs")


@_of_controllers_too("disk-slow", STRACE)
def disk_slow(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Delay every read, write and flush of a node's files by 20 to 200 ms."""
    least, most = _SLOW_MS
    delay_ms = round(least + aim.choice * (most - least))
    says = f"takes {delay_ms} ms for each call"
    yield from _slowed(cluster, aim, f"delay_enter={1000 * delay_ms}", says)


def _slowed(cluster: Cluster, aim: FaultTarget, action: str, says: str) -> Iterator[str]:
    nodes = _nodes(cluster, aim)
    try:
        with _injected(nodes, ",".join(_KINDS.values()), action):
            yield f"the disk of {_title(cluster, aim)} {says}"
    finally:
        start_nodes(nodes)


@_of_controllers_too("disk-eio", STRACE)
def disk_eio(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Make one write, flush or read of a node's files fail with the error EIO.

    If the node has not exited by itself, healing restarts it, as an administrator would.

    Raises:
        NothingDoneError: the node made no such system call in time.
    """
    nodes, title = _nodes(cluster, aim), _title(cluster, aim)
    kind = [*_KINDS][int(aim.choice * len(_KINDS))]
    with _injected(nodes, _KINDS[kind], "error=EIO:when=1") as counts:
        _await_calls(lambda: sum(count() for count in counts), title, kind)
    try:
        yield f"a {kind} of {title} has failed (EIO)"
    finally:
        down = [node.state == "down" for node in nodes]
        ended = "runs on" if not any(down) else "has ended itself" if all(down) else "ended in part"
        aim.note(f"{title} {ended} after its {kind} had failed", aim.broker)
        for node in nodes:
            node.kill()
        start_nodes(nodes)


def _await_calls(changed: Counted, title: str, kind: str) -> None:
    """Wait until a node has made a system call that the fault changes.

    Raises:
        NothingDoneError: the node made no such system call in time.
    """
    try:
        await_condition(changed, lambda count: count > 0, what=f"a {kind}", limit_s=_FAILS_S)
    except WaitTimeoutError as error:
        raise NothingDoneError(f"{title} made no {kind}") from error


@aimed("disk-lies", needs=STRACE)
def disk_lies(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Make flushes succeed without effect; then cut the power, so that flushed records are lost.

    Before the power failure, the fault waits until the broker has flushed and its logs have
    grown. See ``disk_damage.lose_promised``.

    Raises:
        NothingDoneError: the broker flushed nothing.
    """
    target, topic = cluster.brokers[aim.victim], aim.topic
    with target.inject_calls(CallRule(calls=FLUSHES, action="retval=0")) as count:
        before = {
            folder: disk_damage.unpromised(folder, topic.name) for folder in target.log_directories
        }
        aim.meanwhile()
        _await_calls(count, f"broker {target.id}", "flush")
        await_growth(target, topic.name)
        with dead(cluster, aim):
            cuts = [
                cut
                for folder, files in before.items()
                for cut in disk_damage.lose_promised(folder, topic.name, files, aim.choice)
            ]
            says = f"broker {target.id} lost its power after {count()} flushes without effect"
            yield loss(topic, cuts, says, "the flushes had covered no record")


@fault("no-descriptors")
def no_descriptors(cluster: Cluster, broker: int) -> Iterator[str]:
    """Stop a broker from opening more files and connections (RLIMIT_NOFILE)."""
    target = cluster.brokers[broker]
    target.limit_descriptors(limited=True)
    try:
        yield f"broker {broker} has no file descriptor left"
    finally:
        if target.state == "running":
            target.limit_descriptors(limited=False)
        target.start()


@fault("jvm-pause")
def jvm_pause(cluster: Cluster, broker: int) -> Iterator[str]:
    """Hold a broker's JVM at a safepoint, as a long garbage collection does."""
    with cluster.brokers[broker].hold_jvm():
        yield f"no Java thread of broker {broker} runs"


@aimed("no-memory")
def no_memory(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Let a broker allocate only 1 to 16 MB more (RLIMIT_DATA); its threads may end."""
    target, spare_mb = cluster.brokers[aim.victim], _spare_mb(aim)
    target.limit_memory(spare_mb)
    try:
        yield f"broker {target.id} can allocate {spare_mb} MB more"
    finally:
        if target.state == "running":
            target.limit_memory(None)
        target.start()


def _spare_mb(aim: FaultTarget) -> int:
    return 1 + int(aim.choice * _SPARE_MB)


@aimed("cpu-starved", why_not=_containers)
def cpu_starved(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Limit a broker's container to 2 to 20 % of one processor."""
    least, most = _PERCENT
    percent = round(least + aim.choice * (most - least))
    says = f"has {percent} % of a processor"
    yield from _limited(cluster.brokers[aim.victim], says, cpus=percent / 100)


@aimed("memory-starved", why_not=_containers)
def memory_starved(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Leave a broker's container 1 to 16 MB of free memory; the kernel may kill the broker."""
    spare_mb = _spare_mb(aim)
    says = f"has {spare_mb} MB of memory left"
    yield from _limited(cluster.brokers[aim.victim], says, spare_mb=spare_mb)


def _limited(
    target: Broker, says: str, *, cpus: float | None = None, spare_mb: int | None = None
) -> Iterator[str]:
    try:
        target.limit_container(cpus=cpus, spare_mb=spare_mb)
        yield f"broker {target.id} {says}"
    finally:
        target.limit_container()
        target.start()


@aimed("packets-lost", why_not=_containers, needs=IPTABLES)
def packets_lost(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Drop 5 to 50 % of the packets that reach a broker's container (iptables)."""
    target, (least, most) = cluster.brokers[aim.victim], _LOST
    share = least + aim.choice * (most - least)
    try:
        target.lose_packets(share)
        yield f"broker {target.id} loses {share:.0%} of the packets that reach it"
    finally:
        if target.state == "running":
            target.lose_packets(0.0)
        target.start()


def _two_listeners(kafka: Release, _: str) -> str:
    if kafka.number >= LISTENER_NAMES:
        return ""
    return "before 0.10.2 brokers and clients use the same address (KIP-103)"


@fault("dns-fails", why_not=_two_listeners, needs=NAMES)
def dns_fails(cluster: Cluster, broker: int) -> Iterator[str]:
    """Restart a broker which then cannot resolve the other brokers' names."""
    target = cluster.brokers[broker]
    target.resolve(dict.fromkeys(_others(cluster, broker)))
    try:
        target.restart()
        yield f"broker {broker} has restarted, and resolves no other broker's name"
    finally:
        target.resolve({})
        target.start()


@fault("dns-lies", why_not=_two_listeners, needs=NAMES)
def dns_lies(cluster: Cluster, broker: int) -> Iterator[str]:
    """Restart a broker which then connects to the wrong brokers; healing restarts it again.

    A broker does not verify which broker it has reached, so it keeps the wrong connections.
    """
    others, target = _others(cluster, broker), cluster.brokers[broker]
    wrong = dict(zip(others, [*others[1:], broker], strict=True))
    target.resolve(wrong)
    try:
        target.restart()
        names = ", ".join(f"{other} at broker {place}" for other, place in wrong.items())
        yield f"broker {broker} has restarted, and looks for broker {names}"
    finally:
        target.resolve({})
        target.restart()


def _others(cluster: Cluster, broker: int) -> list[int]:
    """Return the other brokers.

    Raises:
        NothingDoneError: there is no other broker.
    """
    others = sorted({*cluster.brokers} - {broker})
    if not others:
        raise NothingDoneError("the cluster has only one broker")
    return others
