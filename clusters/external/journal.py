"""Journal of the faults and topics of an external cluster.

The journal is written before each fault.

The folder ``$XDG_STATE_HOME/highwater/clusters/<cluster id>`` has these files. The harness and its
guard lock ``lock``; only the harness locks ``running``. ``open.json`` exists until all faults are
healed; it lists the healing commands, also for the user. ``topics.jsonl`` lists every topic that
runs created on the cluster.
"""

import contextlib
import fcntl
import json
import os
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from highwater.clusters.external.inventory import Command
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.user_dirs import state_directory
from highwater.harness.base.waiting import NotYetError, await_condition

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEALING_S: Final = 300.0
_TOPICS: Final = "topics.jsonl"


class DamagedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker with an unhealed fault, and the commands that heal it."""

    broker: int
    cures: tuple[Command, ...]


class ClusterDamage(msgspec.Struct, frozen=True, kw_only=True):
    """All faults that must be healed on one cluster.

    Attributes:
        addresses: broker id to ``host:port``, for every broker of the cluster.
        topics: topics that the harness has created or was about to create.
    """

    cluster_id: str
    inventory: str
    addresses: dict[int, str]
    wounds: dict[int, DamagedBroker] = {}
    topics: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any fault must be healed."""
        return bool(self.wounds or self.topics)

    def steps_left(self) -> str:
        """Return the remaining healing steps as a part of a sentence; "" if no step remains."""
        brokers, topics = ", ".join(map(str, self.wounds)), ", ".join(self.topics)
        steps = [f"broker {brokers} is healed"] if brokers else []
        steps += [f"the topic {topics} is deleted"] if topics else []
        return " and ".join(steps)

    def manual_steps(self) -> str:
        """Return the healing steps for the user, one step per line."""
        lines = [cure.line for damaged in self.wounds.values() for cure in damaged.cures]
        lines += [f"delete the topic {topic}" for topic in self.topics]
        return "\n".join(f"  {line}" for line in lines)


class MadeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that a run of this machine created.

    Attributes:
        run: the run's directory.
        at: time of creation in ISO 8601.
    """

    topic: str
    run: str
    at: str


class Journal:
    """The journal of one cluster, locked until ``release`` is called and the guard has ended.

    Attributes:
        entry: the current faults.
        lock: file descriptor of the lock. A process that inherits it also has the lock.
    """

    def __init__(self, folder: Path, entry: ClusterDamage, lock: int, running: int = -1) -> None:
        self.folder = folder
        self.entry = entry
        self.lock = lock
        self._running = running
        self._thread = threading.Lock()

    @classmethod
    def locked(cls, folder: Path, entry: ClusterDamage) -> Self:
        """Lock and read the journal of a cluster. Use ``entry`` if the journal is empty."""
        folder.mkdir(parents=True, exist_ok=True)
        running = os.open(folder / "running", os.O_RDWR | os.O_CREAT, 0o600)
        lock = -1
        try:
            lock = _lock_file(folder / "lock", running)
            return cls(folder, read(folder) or entry, lock, running)
        except BaseException:
            _close(lock, running)
            raise

    @classmethod
    def inherited(cls, folder: Path, lock: int) -> Self:
        """Read the journal of a harness that has ended. This process has inherited its lock."""
        entry = read(folder)
        if entry is None:
            raise HarnessError(f"the journal {folder} lists no faults to heal")
        return cls(folder, entry, lock)

    def record_damage(self, broker: int, cures: tuple[Command, ...]) -> None:
        """Record that a broker will get a fault, or replace its healing commands."""
        with self._updating() as entry:
            wounds = {**entry.wounds, broker: DamagedBroker(broker=broker, cures=cures)}
            self.entry = replace(entry, wounds=wounds)

    def record_healed(self, broker: int) -> None:
        """Record that a broker is healed."""
        with self._updating() as entry:
            wounds = {key: damaged for key, damaged in entry.wounds.items() if key != broker}
            self.entry = replace(entry, wounds=wounds)

    def record_topic(self, name: str, run: Path) -> None:
        """Record that a run is about to create a topic, with the run's directory."""
        made = MadeTopic(topic=name, run=str(run), at=datetime.now(UTC).isoformat("T", "seconds"))
        with (self.folder / _TOPICS).open("ab") as file:
            file.write(msgspec.json.encode(made) + b"\n")
        with self._updating() as entry:
            self.entry = replace(entry, topics=(*entry.topics, name))

    def record_deleted(self, name: str) -> None:
        """Record that a topic is deleted."""
        with self._updating() as entry:
            topics = tuple(topic for topic in entry.topics if topic != name)
            self.entry = replace(entry, topics=topics)

    def release(self) -> None:
        """Release the lock. A guard that inherited the lock still has the lock."""
        _close(self.lock, self._running)
        self.lock = self._running = -1

    @contextlib.contextmanager
    def _updating(self) -> Iterator[ClusterDamage]:
        """Yield the journal's entry. After the block has replaced ``entry``, write it to disk."""
        with self._thread:
            yield self.entry
            path = self.folder / "open.json"
            if not self.entry:
                path.unlink(missing_ok=True)
                return
            temporary = path.with_suffix(".partial")
            with temporary.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self.entry), indent=2))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)


def journal_folder(cluster_id: str) -> Path:
    """Return the folder of a cluster's journal."""
    plain = _PLAIN_NAME.fullmatch(cluster_id)
    return _clusters() / (cluster_id if plain else cluster_id.encode().hex()[:200])


def read(folder: Path) -> ClusterDamage | None:
    """Return the faults that must be healed, or None.

    Raises:
        HarnessError: the file is malformed. A crash of the harness alone cannot damage the file.
    """
    path = folder / "open.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClusterDamage)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise HarnessError(
            f"{path} cannot be read: {error}",
            hint="The file lists faults of an ended run. Heal these by hand, then delete it.",
        ) from error


def topics_made(folder: Path) -> dict[str, MadeTopic]:
    """Return every topic that runs created on a cluster. An incomplete last line is ignored."""
    path = folder / _TOPICS
    made: dict[str, MadeTopic] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(msgspec.MsgspecError):
            row = msgspec.json.decode(line, type=MadeTopic)
            made[row.topic] = row
    return made


def folders_to_heal(inventory: Path) -> list[Path]:
    """Return the journal directories of clusters with unhealed faults of this inventory."""
    folders = []
    for path in sorted(_clusters().glob("*/open.json")):
        entry = read(path.parent)
        if entry is not None and Path(entry.inventory) == inventory.resolve():
            folders.append(path.parent)
    return folders


def _clusters() -> Path:
    return state_directory() / "clusters"


def _lock_file(path: Path, running: int) -> int:
    """Lock a file. If an ended harness's guard has the lock, wait until the faults are healed.

    A harness with the lock also locks ``running``, which no guard inherits. A process id would not
    show whether that harness still runs, because the id may belong to another container or another
    process.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def acquire() -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(descriptor)
            try:
                fcntl.flock(running, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise HarnessError(
                    f"another run is active on this cluster (process {holder})",
                    hint="Wait until that run ends: two runs would heal each other's faults.",
                ) from None
            fcntl.flock(running, fcntl.LOCK_UN)
            raise NotYetError(f"the guard of the ended process {holder} has the lock") from error
        fcntl.flock(running, fcntl.LOCK_EX)  # another process may test it for a moment

    try:
        await_condition(
            acquire,
            what="the guard of an ended run to heal the cluster",
            limit_s=_HEALING_S,
        )
    except BaseException:
        os.close(descriptor)
        raise
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
    return descriptor


def _holder(descriptor: int) -> int | str:
    """Return the process id of a lock's owner, for a message."""
    try:
        return int(json.loads(os.pread(descriptor, 100, 0))["pid"])
    except (ValueError, KeyError):
        return "?"


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
