"""What is hurt and what was made on somebody's cluster, on disk before it is done.

Below ``$XDG_STATE_HOME/highwater/clusters/<cluster id>`` lie ``lock``, which the harness and its
guard hold, and ``open.json``, which is there as long as anything is to be mended. It names the
commands that mend, so that a person can do it, too.
"""

import contextlib
import fcntl
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import msgspec
import psutil

from highwater.clusters.external.inventory import Command
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.user_dirs import state_directory
from highwater.harness.base.waiting import await_condition

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEALING_S: Final = 300.0


class DamagedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that is hurt.

    Attributes:
        cures: what mends it, in this order.
    """

    broker: int
    cures: tuple[Command, ...]


class ClusterDamage(msgspec.Struct, frozen=True, kw_only=True):
    """All that is to be mended on one cluster.

    Attributes:
        inventory: path of the file.
        addresses: broker id to ``host:port``, of every broker of the cluster.
        wounds: of its brokers.
        topics: that were made there, or were about to be.
    """

    cluster_id: str
    inventory: str
    addresses: dict[int, str]
    wounds: dict[int, DamagedBroker] = {}
    topics: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to mend."""
        return bool(self.wounds or self.topics)

    def manual_steps(self) -> str:
        """What a person would do."""
        lines = [cure.line for wound in self.wounds.values() for cure in wound.cures]
        lines += [f"delete the topic {topic}" for topic in self.topics]
        return "\n".join(f"  {line}" for line in lines)


class Journal:
    """The entry of one cluster, held by a lock until ``release`` and the end of its guard.

    Attributes:
        folder: of the cluster.
        entry: what it says now.
    """

    def __init__(self, folder: Path, entry: ClusterDamage, lock: int) -> None:
        self.folder = folder
        self.entry = entry
        self._lock = lock
        self._thread = threading.Lock()

    @classmethod
    def locked(cls, folder: Path, entry: ClusterDamage) -> Self:
        """Hold the journal of a cluster, which may have an entry already.

        Raises:
            HarnessError: another run holds it, or it is broken.
        """
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock_file(folder / "lock")
        try:
            return cls(folder, read(folder) or entry, lock)
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def inherited(cls, folder: Path, lock: int) -> Self:
        """The journal of a harness that is dead, whose lock this process has.

        Raises:
            HarnessError: it has nothing to mend, or is broken.
        """
        entry = read(folder)
        if entry is None:
            raise HarnessError(f"{folder} has nothing to mend")
        return cls(folder, entry, lock)

    @property
    def lock(self) -> int:
        """Descriptor that holds the lock; whoever inherits it holds it, too."""
        return self._lock

    def record_damage(self, broker: int, cures: tuple[Command, ...]) -> None:
        """A broker is about to be hurt, or it is known now what mends it."""
        with self._updating() as entry:
            wounds = {**entry.wounds, broker: DamagedBroker(broker=broker, cures=cures)}
            self.entry = msgspec.structs.replace(entry, wounds=wounds)

    def record_healed(self, broker: int) -> None:
        """A broker is whole again."""
        with self._updating() as entry:
            wounds = {
                damaged: wound for damaged, wound in entry.wounds.items() if damaged != broker
            }
            self.entry = msgspec.structs.replace(entry, wounds=wounds)

    def record_topic(self, name: str) -> None:
        """A topic is about to be made."""
        with self._updating() as entry:
            self.entry = msgspec.structs.replace(entry, topics=(*entry.topics, name))

    def record_deleted(self, name: str) -> None:
        """A topic is there no more."""
        with self._updating() as entry:
            topics = tuple(topic for topic in entry.topics if topic != name)
            self.entry = msgspec.structs.replace(entry, topics=topics)

    def release(self) -> None:
        """Give the lock back; a guard that inherited it goes on holding it. May be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @contextlib.contextmanager
    def _updating(self) -> Iterator[ClusterDamage]:
        """The entry, to be replaced; on disk before anything else happens."""
        with self._thread:
            yield self.entry
            path = self.folder / "open.json"
            if not self.entry:
                path.unlink(missing_ok=True)
                return
            aside = path.with_suffix(".partial")
            with aside.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self.entry), indent=2))
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)


def journal_folder(cluster_id: str) -> Path:
    """Where the journal of a cluster lies."""
    plain = _PLAIN_NAME.fullmatch(cluster_id)
    return _clusters() / (cluster_id if plain else cluster_id.encode().hex()[:200])


def read(folder: Path) -> ClusterDamage | None:
    """What is to be mended, if anything is.

    Raises:
        HarnessError: the file is broken, which it cannot be by a crash alone.
    """
    path = folder / "open.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClusterDamage)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise HarnessError(
            f"{path} cannot be read: {error}",
            hint="It says what a dead run left broken: mend that by hand, and delete the file.",
        ) from error


def folders_to_heal(inventory: Path) -> list[Path]:
    """Folders of clusters on which runs with this inventory left something to mend."""
    folders = []
    for path in sorted(_clusters().glob("*/open.json")):
        entry = read(path.parent)
        if entry is not None and Path(entry.inventory) == inventory.resolve():
            folders.append(path.parent)
    return folders


def _clusters() -> Path:
    return state_directory() / "clusters"


def _lock_file(path: Path) -> int:
    """Hold a lock file; one whose harness is dead is held by a guard that heals: wait for that."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def is_acquired() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(descriptor)
            if holder and psutil.pid_exists(holder):
                raise HarnessError(
                    f"another run works on this cluster (process {holder})",
                    hint="Two at once would heal each other's faults. Wait for its end.",
                ) from None
            return False
        return True

    try:
        await_condition(
            is_acquired,
            bool,
            what="the guard of a dead run to heal the cluster",
            limit_s=_HEALING_S,
        )
    except (HarnessError, WaitTimeoutError):
        os.close(descriptor)
        raise
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
    return descriptor


def _holder(descriptor: int) -> int:
    try:
        return int(json.loads(os.pread(descriptor, 100, 0))["pid"])
    except (ValueError, KeyError):
        return 0
