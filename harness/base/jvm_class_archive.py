"""Class data sharing: an archive of a program's classes, in the JVM's own format.

A starting broker spends most of its time on reading and verifying thousands of classes. A dynamic
archive (JEP 350) needs a base archive with the classes of the Java runtime. Both archives together
about halve the CPU time of a start. At the first use of a release or of Spark, the harness starts
the JVM once more, only to write the archive. If the archive cannot be made, or does not match, the
JVM starts without the archive.
"""

import contextlib
import fcntl
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.user_dirs import cache_directory

Flags = tuple[str, ...]
COLLECTOR = "-XX:+UseSerialGC"  # every JVM uses this: an archive works with one collector only
NOT_SHARED: Flags = ("-Xshare:auto",)  # use only the archive that the Java runtime has, if any
_FAILURE_STANDS_S = 24 * 3600
_BASE_LIMIT_S = 60
_ARCHIVES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A program's archive (``top``), and the Java runtime's archive that it needs (``base``).

    The JVM ignores an archive of other jars or of another JVM, and an archive with a wrong
    checksum. But if a file is missing or truncated, the JVM exits. So this class checks both files
    first.
    """

    base: Path
    top: Path

    @property
    def using(self) -> Flags:
        """Return flags for a JVM that uses the archive."""
        return (
            "-Xshare:auto",
            f"-XX:SharedArchiveFile={self.base}:{self.top}",
            "-XX:+VerifySharedSpaces",
            "-Xlog:disable",  # an archive that does not fit must not fill a program's log
            "-Xlog:all=error:stderr",
        )

    def recording(self, target: Path) -> Flags:
        """Return flags for a JVM that writes the archive when it exits normally."""
        return (
            "-Xshare:auto",
            f"-XX:SharedArchiveFile={self.base}",
            f"-XX:ArchiveClassesAtExit={target}",
            "-Xlog:disable",
        )

    @property
    def _seal(self) -> Path:
        return self.top.with_suffix(".json")

    def seal(self) -> None:
        """Store the size and time of both files; None for a missing file."""
        aside = self._seal.with_suffix(".new")
        aside.write_text(json.dumps(self._stamps()), encoding="utf-8")
        aside.replace(self._seal)

    def tried(self) -> bool:
        """Return whether both files still have the stored sizes and times.

        After a failure (a file is missing), return True for a day: then the harness tries again.
        """
        try:
            sealed = json.loads(self._seal.read_bytes())
            age_s = time.time() - self._seal.stat().st_mtime
        except (OSError, ValueError):
            return False
        return bool(sealed == self._stamps()) and (None not in sealed or age_s < _FAILURE_STANDS_S)

    def usable(self) -> bool:
        """Return whether both files exist and have not changed since ``seal``."""
        return self.tried() and None not in self._stamps()

    def _stamps(self) -> list[list[int] | None]:
        return [_stamp(self.base), _stamp(self.top)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program whose classes are archived.

    Attributes:
        name: the program's name, which is a part of the archive's file name.
        jars: bytes that identify the jars, such as the release's lock file.
    """

    name: str
    java: Path
    jars: bytes


def flags(program: Program, rehearse: Callable[[Flags], None]) -> Flags:
    """Return JVM flags that use the program's archive. Make the archive on the first call.

    While another process makes the archive, return flags without the archive, because waiting would
    take longer.

    Args:
        rehearse: starts the program with the given flags, and stops it normally.
    """
    try:
        archive = _archive(program)
        if not archive.tried():
            with exclusive(archive.top.with_suffix(".lock"), wait=False):
                if not archive.tried():
                    _make(archive, program, rehearse)
                    _tidy(archive)
    except OSError:  # the cache cannot be written, or another process has the lock
        return NOT_SHARED
    return archive.using if archive.usable() else NOT_SHARED


@contextlib.contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Run the block in one thread or process at a time. The lock ends with its process.

    Raises:
        BlockingIOError: another thread or process has the lock, and ``wait`` is False.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _archive(program: Program) -> Archive:
    """Return the archive's paths. Other jars, or another JVM, have other paths."""
    folder = cache_directory() / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    built = program.java.resolve().parent.parent / "release"
    runtime = sha256(built.read_bytes()).hexdigest()[:12]
    jars = sha256(program.jars).hexdigest()[:12]
    return Archive(
        base=folder / f"java-{runtime}.jsa",
        top=folder / f"{program.name}-{jars}-{runtime}.jsa",
    )


def _make(archive: Archive, program: Program, rehearse: Callable[[Flags], None]) -> None:
    """Make both files under temporary names, and rename them. Then, or on failure, seal."""
    with contextlib.suppress(HarnessError, subprocess.SubprocessError):
        with exclusive(archive.base.with_suffix(".lock")):  # all programs share this base
            if not archive.base.exists():
                _dump(program.java, archive.base)
        new = archive.top.with_suffix(".new")
        rehearse(archive.recording(new))
        if new.exists():
            new.replace(archive.top)
    archive.seal()


def _dump(java: Path, base: Path) -> None:
    new = base.with_suffix(".new")
    command = [str(java), "-Xshare:dump", COLLECTOR, f"-XX:SharedArchiveFile={new}"]
    subprocess.run(command, check=True, capture_output=True, timeout=_BASE_LIMIT_S)
    new.replace(base)


def _tidy(archive: Archive) -> None:
    """Remove the program's oldest archives; keep the newest ``_ARCHIVES_MAX``."""
    name = archive.top.name.rsplit("-", 2)[0]
    paths = sorted(archive.top.parent.glob(f"{name}-*.jsa"), key=lambda path: path.stat().st_mtime)
    for old in paths[:-_ARCHIVES_MAX]:
        old.unlink()
        old.with_suffix(".json").unlink(missing_ok=True)


def _stamp(path: Path) -> list[int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return [stat.st_size, stat.st_mtime_ns]
