"""Kafka's jars: the list for each release, the cache, and the verification.

Each release has a lock file with the sha256 of every jar. jgo (pure Python) downloads each jar once
from the Maven registry into the user's cache. A cached jar is compared with the lock file when it
is new, or has changed since the last check.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.jvm_class_archive import exclusive
from highwater.harness.base.user_dirs import cache_directory
from highwater.harness.releases.catalogue import Release

_LOCKS = Path(__file__).parent / "locks"

REMOTE_STORAGE: Final = "kafka-storage"
REMOTE_STORAGE_LOCK: Final = _LOCKS / "remote-storage.toml"
"""The lock file with one LocalTieredStorage jar for each release that published such a jar."""

TIERED_SINCE: Final = (3, 6)
"""The first release whose brokers have a remote tier (KIP-405)."""
_DOWNLOADS_AT_ONCE = 8
_OF_CLIENTS = ("kafka-clients", "slf4j-", "log4j", "reload4j", "lz4", "snappy-java", "zstd-jni")
_DOWNLOAD_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One jar in a lock file."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        """File name in the cache. It contains the version, so all releases share one folder."""
        kind = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{kind}.jar"


def lock_file(release: Release) -> Path:
    """Return the path of the release's lock file in the repository."""
    return _LOCKS / f"{release.version}.toml"


def locked_jars(release: Release) -> list[Jar]:
    """Return the release's jars in class path order."""
    return read_lock(lock_file(release))


def read_lock(path: Path) -> list[Jar]:
    """Return the jars in a lock file, in the file's order."""
    table: Mapping[str, str] = tomllib.loads(path.read_text("utf-8"))["jars"]
    jars = []
    for coordinate, digest in table.items():
        group, artifact, version, *classifier = coordinate.split(":")
        jar = Jar(
            group=group,
            artifact=artifact,
            version=version,
            sha256=digest,
            classifier="".join(classifier),
        )
        jars.append(jar)
    return jars


def remote_storage_jars(release: Release) -> list[Jar]:
    """Return the jars that LocalTieredStorage needs on the class path, after the release's jars.

    The list is empty if the release has no tiered storage. If a release did not publish its test
    jar, it gets the test jar of the nearest older release that did. It also gets that release's
    clients jar, because some classes have moved since. The interface, RemoteStorageManager, is
    public (KIP-405).
    """
    if release.number < TIERED_SINCE:
        return []
    older = [jar for jar in read_lock(REMOTE_STORAGE_LOCK) if _number(jar) <= release.number]
    nearest = max(older, key=_number)
    if nearest.version == release.version:
        return [nearest]
    of_nearest = read_lock(_LOCKS / f"{nearest.version}.toml")
    return [nearest, *(jar for jar in of_nearest if jar.artifact == "kafka-clients")]


def remote_storage_classpath(release: Release) -> list[Path]:
    """Download the jars of ``remote_storage_jars`` if needed; return their paths."""
    return fetch(f"{REMOTE_STORAGE}-{release.version}", remote_storage_jars(release))


def _number(jar: Jar) -> tuple[int, ...]:
    return tuple(int(part) for part in jar.version.split("."))


def digests(release: Release, *, tiered: bool = False) -> dict[str, str]:
    """Return jar name to locked sha256, for the record of a run's environment."""
    more = remote_storage_jars(release) if tiered else []
    return {jar.file_name: jar.sha256 for jar in [*locked_jars(release), *more]}


def classpath(release: Release) -> list[Path]:
    """Download the release's jars if needed; return their paths in class path order."""
    return fetch(release.version, locked_jars(release))


def clients_classpath(release: Release) -> list[Path]:
    """Download the jars of the release's Java clients if needed; return their paths."""
    return fetch(
        f"{release.version}-clients",
        [jar for jar in locked_jars(release) if jar.artifact.startswith(_OF_CLIENTS)],
    )


def fetch(name: str, jars: list[Jar]) -> list[Path]:
    """Download missing jars, verify all jars, and return their paths.

    Several threads and processes may call this function at once. If all jars are cached, the
    function needs no network.

    Args:
        name: name of the set of jars, for its files in the cache.
        jars: the jars, in class path order.

    Raises:
        HarnessError: a download failed, the disk is full, or a jar differs from the locked jar.
    """
    folder = cache_directory() / "jars"
    with _disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        checked = _Checked(folder / f".checked-{name}.json")
        if not checked.covers(folder, jars):
            with exclusive(folder / f".lock-{name}"):
                _complete(folder, jars)
                checked.record(folder, jars)
    return [folder / jar.file_name for jar in jars]


def is_cached(release: Release) -> bool:
    """Return whether the release's jars are cached and verified. If so, no network is needed."""
    folder = cache_directory() / "jars"
    return _Checked(folder / f".checked-{release.version}.json").covers(
        folder, locked_jars(release)
    )


def _complete(folder: Path, jars: list[Jar]) -> None:
    missing = [jar for jar in jars if not (folder / jar.file_name).exists()]
    for jar in jars:
        if jar not in missing:
            _verify(folder / jar.file_name, jar)
    if not missing:
        return
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as staging,
        ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool,
    ):
        for done in [pool.submit(_download, jar, Path(staging), folder) for jar in missing]:
            done.result()


def _download(jar: Jar, staging: Path, folder: Path) -> None:
    """Download one jar to a temporary directory, verify it, and move it to the cache."""
    import requests  # noqa: PLC0415 - slow to import, and only needed on a first run
    from jgo.maven import MavenContext  # noqa: PLC0415 - for the same reason

    context = MavenContext(repo_cache=staging / jar.file_name, timeout=_DOWNLOAD_TIMEOUT_S)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    try:
        fetched = component.artifact(classifier=jar.classifier).resolve()
    except (requests.RequestException, RuntimeError) as error:
        raise HarnessError(
            f"{jar.file_name} could not be downloaded: {type(error).__name__}",
            hint="The first run of a Kafka release downloads its jars from the Maven registry. "
            "Check the network or proxy settings, and run again. Later runs need no network.",
        ) from error
    _verify(fetched, jar)
    fetched.replace(folder / jar.file_name)


def _verify(path: Path, jar: Jar) -> None:
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != jar.sha256:
        raise HarnessError(
            f"{jar.file_name} differs from the jar in the lock file: "
            f"its sha256 is {actual}, not {jar.sha256}",
            hint=f"Delete {path} and run again. If it differs again, the registry has another file "
            "than this release of Highwater was tested with.",
        )


class _Checked:
    """The record of verified jars, by size and modification time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def covers(self, folder: Path, jars: list[Jar]) -> bool:
        """Return whether every jar exists, and is unchanged since it was verified."""
        try:
            return bool(json.loads(self._path.read_bytes()) == _stamps(folder, jars))
        except (OSError, ValueError):
            return False

    def record(self, folder: Path, jars: list[Jar]) -> None:
        """Record that these jars are verified; write the file atomically."""
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(_stamps(folder, jars)), encoding="utf-8")
        temporary.replace(self._path)


def _stamps(folder: Path, jars: list[Jar]) -> list[list[str | int]]:
    stats = [((folder / jar.file_name).stat(), jar) for jar in jars]
    return [[jar.sha256, stat.st_size, stat.st_mtime_ns] for stat, jar in stats]


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS}:
            raise
        free = shutil.disk_usage(folder if folder.exists() else Path("/")).free
        raise HarnessError(
            f"the jar cache {folder} cannot be written: {error.strerror}",
            hint=f"{free // 2**20} MiB are free there; a release needs up to 150 MiB. "
            "Free disk space, or set XDG_CACHE_HOME to a folder on another disk.",
        ) from error
