"""Faults of the disk: files that a broker has changed or lost when it starts again.

Most of these faults first kill the broker (SIGKILL, which does not affect the page cache), then
change files in its log directories. Healing starts the broker on the changed files. Damage that
Kafka does not repair remains.
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
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.scratch import temporary
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release
from highwater.harness.runs.faults.effects import FaultEffect, RemovedOffsets
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.store import REMOTE_TIER
from highwater.harness.runs.topics.remote_tier import remote_partition
from highwater.nemesis.faults import disk_damage
from highwater.nemesis.faults.registry import (
    LOG_DIRS,
    TIERED,
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
_GROWS_RECORDS: Final = 1000
_GROWS_S: Final = 5.0
_LOOK_S: Final = 0.5
WRITTEN_BACK_S: Final = 30.0
"""Seconds after which the kernel writes dirty pages to disk (vm.dirty_expire_centisecs)."""

_ERROR: Final = re.compile(r"\b(ERROR|FATAL)\b")
_CAUSE_LINES: Final = 5


def flushes(topic: Topic) -> int | None:
    """Return the number of records after which Kafka flushes a topic's logs; None if not set."""
    flush_messages = topic.config.get(FLUSHES)
    return None if flush_messages is None else int(flush_messages)


@contextlib.contextmanager
def dead(cluster: Cluster, aim: FaultTarget) -> Iterator[Broker]:
    """Kill a broker, and start it after the ``with`` block, even after an error."""
    target = cluster.brokers[aim.victim]
    target.kill()
    try:
        yield target
    finally:
        target.start()


def loss(topic: Topic, cuts: Iterable[RemovedOffsets], says: str, otherwise: str) -> FaultEffect:
    """Return a fault's effect: ``says`` with the topic's lost offsets, or with ``otherwise``."""
    lost = [cut for cut in cuts if cut.topic == topic.name]
    return FaultEffect(f"{says}: {', '.join(map(str, lost)) or otherwise}", lost)


def _lose_unflushed(target: Broker, aim: FaultTarget) -> list[RemovedOffsets]:
    """Remove unflushed bytes from every log directory of a broker, like a power failure."""
    return [
        cut
        for folder in target.log_directories
        for cut in disk_damage.lose_unflushed(
            folder, aim.topic.name, flushes=flushes(aim.topic), spared=aim.choice
        )
    ]


@aimed("power-failure")
def power_failure(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Remove unflushed bytes from a broker's logs, like a power failure.

    Flushed bytes remain: bytes below the recovery point, and all segments except the newest.
    ``FaultTarget.choice`` is the fraction of the unflushed bytes that remains.
    """
    with dead(cluster, aim) as target:
        cuts = _lose_unflushed(target, aim)
        says = f"broker {target.id} lost its power"
        yield loss(aim.topic, cuts, says, "all its records had been flushed")


def empty_disk(target: Broker, topic: Topic) -> FaultEffect:
    """Empty the log directories of a stopped broker; return the offsets that the topic lost."""
    cuts = [cut for folder in target.log_directories for cut in disk_damage.wipe(folder)]
    says = f"the disk of broker {target.id} is empty"
    return loss(topic, cuts, says, "it was empty before")


@aimed("wipe")
def wipe(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Empty a broker's log directory; the broker restarts with its old id."""
    with dead(cluster, aim) as target:
        yield empty_disk(target, aim.topic)


@aimed("segment-deleted")
def segment_deleted(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Delete the oldest segment of each of a broker's replicas of the topic."""
    with dead(cluster, aim) as target:
        cuts = [
            cut
            for folder in target.log_directories
            for cut in disk_damage.remove_segment(folder, aim.topic.name)
        ]
        yield loss(aim.topic, cuts, f"a segment of broker {target.id} is deleted", "it was empty")


@aimed("index-deleted")
def index_deleted(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Delete every index of the topic; the broker rebuilds them at its start."""
    with dead(cluster, aim) as target:
        folders = target.log_directories
        count = sum(disk_damage.remove_indexes(folder, aim.topic.name) for folder in folders)
        yield f"{count} indexes of broker {target.id} are deleted"


@aimed("files-lost")
def files_lost(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Delete one file of the oldest segment of each of a broker's replicas."""
    with dead(cluster, aim) as target:
        names: list[str] = []
        cuts: list[RemovedOffsets] = []
        for folder in target.log_directories:
            removed = disk_damage.remove_file(folder, aim.topic.name, aim.choice)
            names, cuts = names + removed[0], cuts + removed[1]
        says = f"broker {target.id} has lost {', '.join(names) or 'no file'}"
        yield loss(aim.topic, cuts, says, "no record was in the files")


@aimed("disk-restored")
def disk_restored(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Restore a broker's log directories to their state of some seconds before.

    The fault pauses the broker while it copies the files, so that the copy is consistent. Then the
    broker runs until its replicas have grown, at most for ``_GROWS_S`` seconds.
    """
    target = cluster.brokers[aim.victim]
    folders, topic = target.log_directories, aim.topic.name
    with temporary("snapshot") as whole:
        copies = {folder: whole / str(number) for number, folder in enumerate(folders)}
        target.pause()
        try:
            for folder, copy in copies.items():
                disk_damage.copy_log_directory(folder, topic, copy)
        finally:
            target.resume()
        await_growth(target, topic)
        with dead(cluster, aim):
            cuts = [
                cut
                for folder, copy in copies.items()
                for cut in disk_damage.restore(folder, topic, copy)
            ]
            says = f"the disk of broker {target.id} is restored from a snapshot"
            yield loss(aim.topic, cuts, says, "nothing had changed")


def await_growth(target: Broker, topic: str) -> None:
    """Wait until a broker's replicas have grown, at most for ``_GROWS_S`` seconds."""
    enough = _written(target, topic) + _GROWS_RECORDS
    with contextlib.suppress(WaitTimeoutError):
        await_condition(
            lambda: _written(target, topic),
            lambda count: count >= enough,
            what=f"{_GROWS_RECORDS} records more",
            limit_s=_GROWS_S,
            every_s=_LOOK_S,
        )


def _written(target: Broker, topic: str) -> int:
    """Return the sum of the end offsets of a broker's replicas."""
    folders = target.log_directories
    ranges = [disk_damage.ends(folder, topic) for folder in folders]
    return sum(offsets.end for replicas in ranges for offsets in replicas.values())


@aimed("bit-flip")
def bit_flip(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Flip one bit of a record of the partition on a broker's disk.

    At its start Kafka checks records above the recovery point, and truncates the log where a
    checksum is wrong (``LogSegment.recover``). Records below the recovery point are not checked
    until a client reads them.
    """
    with dead(cluster, aim) as target:
        topic, partition = aim.topic.name, aim.partition
        folders = [folder for folder in target.log_directories if _has(folder, topic, partition)]
        flipped = disk_damage.flip_bit(
            (folders or [target.directory])[0], topic, partition, aim.choice
        )
        if flipped is None:
            yield (
                f"broker {target.id} has no record of {topic}-{partition} in which a bit could "
                "be flipped"
            )
        else:
            lost = RemovedOffsets(topic, partition, flipped[0].first, flipped[1])
            says = (
                f"one bit is flipped on broker {target.id}; if Kafka truncates its log there, "
                f"{lost}"
            )
            yield FaultEffect(says, [lost])


def _has(directory: Path, topic: str, partition: int) -> bool:
    return (directory / f"{topic}-{partition}").is_dir()


def _checkpoint(directory: Path, aim: FaultTarget, name: str) -> list[Path]:
    """Return a checkpoint's files: one of the log directory (HW), or one of each replica."""
    if name == HIGH_WATERMARK:
        return [directory / name]
    return [replica / name for replica in disk_damage.partitions(directory, aim.topic.name)]


def _missing(file: Path, _: FaultTarget) -> None:
    file.unlink(missing_ok=True)


def _garbage(file: Path, aim: FaultTarget) -> None:
    """Overwrite a file with random bytes, which no release can read."""
    dice = random.Random(f"{file.name} {aim.choice}")  # noqa: S311 - to be repeatable, not secret
    file.write_bytes(dice.randbytes(_GARBAGE_BYTES))


def _stale(file: Path, aim: FaultTarget) -> None:
    """Multiply every offset in a checkpoint by the fault's random choice (0 to 1)."""
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
    """Kill a broker and damage a checkpoint on its disk.

    If the broker then starts but does not serve its replicas, healing removes the damaged file and
    starts the broker again, as an administrator would.
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
    """Start a broker with damaged files; return whether it serves every replica.

    Up to 0.10 the broker's first error aborts the controller's whole request, so a partition may
    stay without a leader.
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
    return "" if not kafka.cuts_to_hw else "leader epochs came with Kafka 0.11 (KIP-101)"


@aimed("hw-missing")
def hw_missing(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Delete a broker's high watermarks on disk; the broker then starts with 0."""
    yield from _on_checkpoint(cluster, aim, HIGH_WATERMARK, _missing, "is deleted")


@aimed("hw-stale")
def hw_stale(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Set a broker's high watermarks on disk back to possible earlier values."""
    yield from _on_checkpoint(cluster, aim, HIGH_WATERMARK, _stale, "is out of date")


@aimed("hw-garbage")
def hw_garbage(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Overwrite a broker's high watermarks on disk with random bytes."""
    yield from _on_checkpoint(cluster, aim, HIGH_WATERMARK, _garbage, "is garbage")


@aimed("epochs-missing", why_not=_epochs)
def epochs_missing(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Delete the leader-epoch checkpoints of a broker's replicas (KIP-101)."""
    yield from _on_checkpoint(cluster, aim, LEADER_EPOCH, _missing, "is deleted")


@aimed("epochs-garbage", why_not=_epochs)
def epochs_garbage(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Overwrite the leader-epoch checkpoints of a broker's replicas with random bytes."""
    yield from _on_checkpoint(cluster, aim, LEADER_EPOCH, _garbage, "is garbage")


def _traceable(_: Release, driver: str) -> str:
    return "" if driver == "local" else "only processes of this machine can be traced"


@aimed("torn-files", why_not=_traceable, needs=TRACES)
def torn_files(cluster: Cluster, aim: FaultTarget) -> Iterator[str | FaultEffect]:
    """Empty small files that a broker had not flushed, after a power failure.

    After a power failure, a file that was replaced without a flush may be empty, or consist of
    zeros. A file smaller than a block is never truncated in the middle. The fault spares flushed
    files, and files that the kernel has written to disk. If the broker then does not serve its
    replicas, healing removes the damaged files, as an administrator would.
    """
    target = cluster.brokers[aim.victim]
    target.kill()
    cuts = _lose_unflushed(target, aim)
    now = time.time()
    written = target.take_unflushed().items()
    torn = [file for file, at in written if now - at < WRITTEN_BACK_S and file.exists()]
    try:
        says = disk_damage.tear(torn, aim.choice)
        lost = loss(
            aim.topic, cuts, f"broker {target.id} lost its power", "all its records were flushed"
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
    """Return the first error in a log after a byte position: ``: <line>`` or ``; it reports …``."""
    lines = _since(log, start).splitlines()
    for number, line in enumerate(lines):
        if _ERROR.search(line):
            causes = [text for text in lines[number + 1 :][:_CAUSE_LINES] if "Exception:" in text]
            return ": " + " / ".join(text.replace("\0", "").strip() for text in [line, *causes[:1]])
    return "; it reports no error"


@fault("disk-full")
def disk_full(cluster: Cluster, broker: int) -> Iterator[str]:
    """Make every write of a broker fail, as on a full disk; healing starts the broker again.

    To fill a disk, Highwater would need privileges, and other processes would fail, too. Instead
    RLIMIT_FSIZE forbids the broker to write to its files. The error is EFBIG instead of ENOSPC, but
    Kafka gets an IOException in both cases, and exits. (Since 1.0 an IOException stops only the log
    directory, but the broker has no other.)
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
        return "" if kafka.number >= (1,) else "before 1.0 a broker exits at once (KIP-112)"
    return (
        ""
        if kafka.number >= (3, 7)
        else ("before 3.7 a KRaft broker has only one log directory (KIP-858)")
    )


@aimed("log-dir-failure", why_not=_several, needs=LOG_DIRS)
def log_dir_failure(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Make a log directory of a broker fail, but never the first; healing repairs it.

    A plain file replaces the directory. Kafka gets an IOException when it next opens a file in the
    directory, at the latest when it next writes high watermarks. Until then Kafka still writes to
    its open files. The first directory never fails, because it has KRaft's metadata log, and
    without this log a broker exits.

    Raises:
        NothingDoneError: only the first directory has a replica.
    """
    target = cluster.brokers[aim.victim]
    used = [folder for folder in target.log_directories[1:] if disk_damage.partitions(folder)]
    if not used:
        raise NothingDoneError(f"only the first log directory of broker {target.id} has a replica")
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
            what=f"broker {target.id} to stop using its log directory {folder.name}",
            limit_s=_OFFLINE_LIMIT_S,
        )
        ends = "; it has ended" if target.state == "down" else ""
        yield f"log directory {folder.name} of broker {target.id} fails: {', '.join(names)}{ends}"
    finally:
        target.kill()
        folder.unlink(missing_ok=True)
        broken.rename(folder)
        target.start()


def _same_folder(_: Release, driver: str) -> str:
    return (
        ""
        if driver == "local"
        else ("only processes on this machine have a remote tier whose directory can fail")
    )


@aimed("tier-outage", at="topic", needs=TIERED, why_not=_same_folder)
def tier_outage(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Make every request to the remote tier about the topic fail, while every broker runs."""
    tier = cluster.directory / REMOTE_TIER
    names = [
        at.name for at in tier.glob("*/") if remote_partition(at.name, aim.topic.name) is not None
    ]
    if not names:
        raise NothingDoneError(f"the remote tier has no segment of {aim.topic.name} yet")
    away = [(tier / name, (tier / name).rename(cluster.directory / name)) for name in names]
    try:
        for folder, _ in away:
            folder.touch()
        yield f"the remote tier fails for {', '.join(sorted(names))}"
    finally:
        for folder, aside in away:
            folder.unlink(missing_ok=True)
            aside.rename(folder)


def _log(cluster: Cluster, target: Broker) -> Path:
    return cluster.directory / "logs" / f"broker-{target.id}.log"


def _since(log: Path, start: int) -> str:
    """Return the text of a log after a byte position."""
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")
