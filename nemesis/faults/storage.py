"""Faults of the disk: a broker that comes back finds other files than it had written.

Every one kills its broker first (SIGKILL, which leaves the page cache alone), then changes files of
its log directory, and heals by starting it on those. What Kafka does not heal by itself stays.
"""

import contextlib
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import HIGH_WATERMARK, LEADER_EPOCH
from highwater.clusters.core.interfaces import Broker, Cluster, UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release
from highwater.harness.runs.faults.effects import FaultEffect, RemovedOffsets
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.faults.registry import (
    LOG_DIRS,
    TRACES,
    FaultTarget,
    NothingDoneError,
    aimed,
    fault,
)

FLUSHES: Final = "flush.messages"
_GARBAGE_BYTES: Final = 64
_UP_LIMIT_S: Final = 20.0
_OFFLINE_LIMIT_S: Final = 60.0
_BROKEN: Final = ".broken"
WRITTEN_BACK_S: Final = 30.0
"""The kernel writes back what has been dirty for so long (vm.dirty_expire_centisecs)."""

_ERROR: Final = re.compile(r"\b(ERROR|FATAL)\b")
_CAUSE_LINES: Final = 5


def flushes(topic: Topic) -> int | None:
    """After how many records a topic's logs are flushed; None: that is left to the kernel."""
    flush_messages = topic.config.get(FLUSHES)
    return None if flush_messages is None else int(flush_messages)


@contextlib.contextmanager
def _dead(cluster: Cluster, aim: FaultTarget) -> Iterator[Broker]:
    """Kill a broker, and start it again whatever happens."""
    target = cluster.brokers[aim.victim]
    target.kill()
    try:
        yield target
    finally:
        target.start()


def _loss(topic: Topic, cuts: Iterable[RemovedOffsets], says: str, otherwise: str) -> FaultEffect:
    """Return what the topic under test lost."""
    lost = [cut for cut in cuts if cut.topic == topic.name]
    return FaultEffect(f"{says}: {', '.join(map(str, lost)) or otherwise}", lost)


def _lose_unflushed(target: Broker, aim: FaultTarget) -> list[RemovedOffsets]:
    """Cut what a power failure may take from every log directory of a broker."""
    return [
        loss
        for folder in target.log_directories
        for loss in disk_damage.lose_unflushed(
            folder, aim.topic.name, flushes=flushes(aim.topic), spared=aim.choice
        )
    ]


@aimed("power-failure")
def power_failure(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Kill a broker and remove from its logs what was never flushed, as a power failure does.

    No lower than the recovery point, and nothing of a segment that a newer one has followed: what
    Kafka flushed stays. ``FaultTarget.choice`` is the share of the unflushed bytes that reached the
    disk.
    """
    with _dead(cluster, aim) as target:
        cuts = _lose_unflushed(target, aim)
        says = f"broker {target.id} lost its power"
        yield _loss(aim.topic, cuts, says, "all it held had been flushed")


def empty_disk(target: Broker, topic: Topic) -> FaultEffect:
    """Empty the log directories of a broker that is down; return what the topic lost by that."""
    cuts = [loss for folder in target.log_directories for loss in disk_damage.wipe(folder)]
    says = f"the disk of broker {target.id} is empty"
    return _loss(topic, cuts, says, "there was nothing on it")


@aimed("wipe")
def wipe(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Kill a broker and empty its log directory; it comes back under its old id with nothing."""
    with _dead(cluster, aim) as target:
        yield empty_disk(target, aim.topic)


@aimed("segment-deleted")
def segment_deleted(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Kill a broker and delete the oldest segment of each of the topic's replicas there."""
    with _dead(cluster, aim) as target:
        cuts = [
            loss
            for folder in target.log_directories
            for loss in disk_damage.remove_segment(folder, aim.topic.name)
        ]
        yield _loss(aim.topic, cuts, f"a segment of broker {target.id} is deleted", "it was empty")


@aimed("index-deleted")
def index_deleted(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a broker and delete every index of the topic, which it builds anew when it starts."""
    with _dead(cluster, aim) as target:
        folders = target.log_directories
        count = sum(disk_damage.remove_indexes(folder, aim.topic.name) for folder in folders)
        yield f"{count} indexes of broker {target.id} are deleted"


@aimed("bit-flip")
def bit_flip(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Kill a broker and flip one bit of a record of the partition.

    Kafka checks, as it starts, what lies above the recovery point, and cuts the log where a
    checksum is wrong (``LogSegment.recover``). Below it no broker looks until a client reads.
    """
    with _dead(cluster, aim) as target:
        topic, partition = aim.topic.name, aim.partition
        folders = [folder for folder in target.log_directories if _has(folder, topic, partition)]
        flipped = disk_damage.flip_bit(
            (folders or [target.directory])[0], topic, partition, aim.choice
        )
        if flipped is None:
            yield f"broker {target.id} holds nothing of {topic}-{partition} to flip a bit of"
        else:
            lost = RemovedOffsets(topic, partition, flipped[0].first, flipped[1])
            says = f"one bit is flipped on broker {target.id}; cut there, {lost}"
            yield FaultEffect(says, [lost])


def _has(directory: Path, topic: str, partition: int) -> bool:
    return (directory / f"{topic}-{partition}").is_dir()


def _checkpoint(directory: Path, aim: FaultTarget, name: str) -> list[Path]:
    """Return the files of a checkpoint that bear on the topic: one a broker, or one a replica."""
    if name == HIGH_WATERMARK:
        return [directory / name]
    return [replica / name for replica in disk_damage.partitions(directory, aim.topic.name)]


def _missing(file: Path, _: FaultTarget) -> None:
    file.unlink(missing_ok=True)


def _garbage(file: Path, aim: FaultTarget) -> None:
    """Return random bytes, which no release can read."""
    dice = random.Random(f"{file.name} {aim.choice}")  # noqa: S311 - to be repeatable, not secret
    file.write_bytes(dice.randbytes(_GARBAGE_BYTES))


def _stale(file: Path, aim: FaultTarget) -> None:
    """Return every offset as it may have been earlier: a share of the one of now."""
    if not file.exists():
        return
    lines = file.read_text(encoding="ascii").splitlines()
    for number, line in enumerate(lines[2:], start=2):
        topic, partition, offset = line.split()
        lines[number] = f"{topic} {partition} {int(int(offset) * aim.choice)}"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def _on_checkpoint(
    cluster: Cluster,
    aim: FaultTarget,
    name: str,
    harm: Callable[[Path, FaultTarget], None],
    says: str,
) -> Iterator[str]:
    """Damage a checkpoint of a broker that is killed.

    If the broker does not serve its replicas then, healing removes the file, as an administrator
    would have to, and starts the broker once more.
    """
    target = cluster.brokers[aim.victim]
    target.kill()
    folders = target.log_directories
    files = [file for folder in folders for file in _checkpoint(folder, aim, name)]
    try:
        for file in files:
            harm(file, aim)
        yield f"the file {name} of broker {target.id} {says}"
    finally:
        if not _comes_up(cluster, target, aim.topic.name):
            target.kill()
            for file in files:
                file.unlink(missing_ok=True)
            target.start()


def _comes_up(cluster: Cluster, target: Broker, topic: str) -> bool:
    """Start a broker; whether it serves every replica on its disk, rather than dying of the file.

    Up to 0.10 it runs and follows no leader: the error ends what the controller had asked for.
    """
    numbers = [
        disk_damage.partition_of(partition)
        for folder in target.log_directories
        for partition in disk_damage.partitions(folder, topic)
    ]
    with contextlib.closing(cluster.probe()) as probe:

        def ask() -> None:
            if target.state == "down":
                raise HarnessError(f"broker {target.id} has died")
            for number in numbers:
                probe.replica(target.id, topic, number)

        try:
            target.start()
            await_condition(
                ask,
                what=f"broker {target.id} to serve its replicas",
                limit_s=_UP_LIMIT_S,
                passing=(UnreachableError,),
            )
        except HarnessError:
            return False
    return True


def _epochs(kafka: Release, _: str) -> str:
    return "" if not kafka.cuts_to_hw else "leader epochs came with 0.11 (KIP-101)"


@aimed("hw-missing")
def hw_missing(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a broker and delete its high watermarks on disk; it takes them for 0 then."""
    yield from _on_checkpoint(cluster, aim, HIGH_WATERMARK, _missing, "is deleted")


@aimed("hw-stale")
def hw_stale(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a broker and put its high watermarks on disk back to what they may have been earlier."""
    yield from _on_checkpoint(cluster, aim, HIGH_WATERMARK, _stale, "is out of date")


@aimed("hw-garbage")
def hw_garbage(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a broker and write bytes at random over its high watermarks on disk."""
    yield from _on_checkpoint(cluster, aim, HIGH_WATERMARK, _garbage, "is garbage")


@aimed("epochs-missing", why_not=_epochs)
def epochs_missing(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a broker and delete what its replicas know of leader epochs (KIP-101)."""
    yield from _on_checkpoint(cluster, aim, LEADER_EPOCH, _missing, "is deleted")


@aimed("epochs-garbage", why_not=_epochs)
def epochs_garbage(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Kill a broker and write bytes at random over what its replicas know of leader epochs."""
    yield from _on_checkpoint(cluster, aim, LEADER_EPOCH, _garbage, "is garbage")


def _traceable(_: Release, driver: str) -> str:
    return "" if driver == "local" else "system calls of a process of this machine are traced"


@aimed("torn-files", why_not=_traceable, needs=TRACES)
def torn_files(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Kill a broker as a power failure does, and empty small files that it had not flushed.

    A file that was replaced without a flush of its bytes may be empty afterwards, or have its
    length and only zeros; one that is smaller than a block is never cut in its midst. What was
    flushed stays, and so does what the kernel has written back by itself. If the broker does not
    serve its replicas then, healing removes these files, as an administrator would have to.
    """
    target = cluster.brokers[aim.victim]
    target.kill()
    cuts = _lose_unflushed(target, aim)
    now = time.time()
    written = target.take_unflushed().items()
    torn = [file for file, at in written if now - at < WRITTEN_BACK_S and file.exists()]
    try:
        says = disk_damage.tear(torn, aim.choice)
        lost = _loss(
            aim.topic, cuts, f"broker {target.id} lost its power", "all it held was flushed"
        )
        yield FaultEffect(f"{lost.says}; {says or 'no small file was unflushed'}", lost.removed)
    finally:
        log = _log(cluster, target)
        before = log.stat().st_size
        if _comes_up(cluster, target, aim.topic.name):
            outcome = "starts, and serves its replicas"
        else:
            ended = "ends" if target.state == "down" else "does not serve its replicas"
            outcome = f"{ended} until they are removed"
            target.kill()
            for file in torn:
                file.unlink(missing_ok=True)
            target.start()
        if torn:
            error = _first_error(log, before).replace(f"{cluster.directory}/", "")
            aim.note(f"broker {target.id} {outcome}{error}", target.id)


def _first_error(log: Path, start: int) -> str:
    """Return the first line of a log from a byte on that reports an error, for a sentence."""
    lines = _since(log, start).splitlines()
    for number, line in enumerate(lines):
        if _ERROR.search(line):
            causes = [text for text in lines[number + 1 :][:_CAUSE_LINES] if "Exception:" in text]
            return ": " + " / ".join(text.replace("\0", "").strip() for text in [line, *causes[:1]])
    return "; it reports no error"


def _processes(_: Release, driver: str) -> str:
    return "" if driver == "local" else "a limit is set on a process of this machine"


@fault("disk-full", why_not=_processes)
def disk_full(cluster: Cluster, broker: int) -> Iterator[str]:
    """Let every write of a broker fail as on a full disk; healing makes room, and starts it again.

    A disk that others use cannot be filled without privileges. So the broker's files may not be
    written to (RLIMIT_FSIZE): the error is EFBIG, not ENOSPC, and an IOException all the same.
    Kafka ends its process at the first one, since 1.0 because its only log directory failed.
    """
    target = cluster.brokers[broker]
    target.limit_writes(limited=True)
    try:
        yield f"the disk of broker {broker} is full"
    finally:
        if target.state == "running":
            target.limit_writes(limited=False)
        target.start()


def _several(kafka: Release, _: str) -> str:
    if kafka.coordination == "zookeeper":
        return "" if kafka.number >= (1,) else "a broker halts at once (before 1.0, KIP-112)"
    return "" if kafka.number >= (3, 7) else "KRaft has one log directory (before 3.7, KIP-858)"


@aimed("log-dir-failure", why_not=_several, needs=LOG_DIRS)
def log_dir_failure(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Make a log directory of a broker fail, but not its first; healing repairs and restarts it.

    A file takes the place of the directory, so that Kafka gets an IOException when it next opens
    one there: at the latest with its next checkpoint of high watermarks. Files that it has open
    are written until then. The first directory has KRaft's metadata log, too, without which a
    broker ends.

    Raises:
        NothingDoneError: the others hold no replica.
    """
    target = cluster.brokers[aim.victim]
    used = [folder for folder in target.log_directories[1:] if disk_damage.partitions(folder)]
    if not used:
        raise NothingDoneError(f"no further log directory of broker {target.id} holds a replica")
    folder = used[int(aim.choice * len(used))]
    names = [replica.name for replica in disk_damage.partitions(folder)]
    log, broken = _log(cluster, target), folder.with_name(f"{folder.name}{_BROKEN}")
    before = log.stat().st_size
    folder.rename(broken)
    try:
        folder.touch()
        offline = re.compile(rf"Stopping serving (?:logs|replicas) in dir {re.escape(str(folder))}")
        await_condition(
            lambda: (target.state, offline.search(_since(log, before))),
            lambda seen: seen[0] == "down" or bool(seen[1]),
            what=f"broker {target.id} to give up its log directory {folder.name}",
            limit_s=_OFFLINE_LIMIT_S,
        )
        ends = "; it has ended" if target.state == "down" else ""
        yield f"log directory {folder.name} of broker {target.id} fails: {', '.join(names)}{ends}"
    finally:
        target.kill()
        folder.unlink(missing_ok=True)
        broken.rename(folder)
        target.start()


def _log(cluster: Cluster, target: Broker) -> Path:
    return cluster.directory / "logs" / f"broker-{target.id}.log"


def _since(log: Path, start: int) -> str:
    """Return what a log has from a byte on."""
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")
