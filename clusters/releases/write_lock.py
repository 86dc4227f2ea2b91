"""Write a release's lock file, to add a release: ``-m …write_lock NAME ...``.

The name ``remote-storage`` writes the lock file for the jars with LocalTieredStorage.

jgo (pure Python, no Maven needed) finds all jars that a release depends on, as Maven would. The
lock file has each jar with its sha256. So a run only downloads the listed jars.
"""

import hashlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.clusters.releases.jars import (
    REMOTE_STORAGE,
    REMOTE_STORAGE_LOCK,
    TIERED_SINCE,
    lock_file,
)
from highwater.harness.releases.catalogue import CATALOGUE, Release, release

_CLASSIFIER = "test"


def resolve(release: Release, repository: Path) -> dict[str, str]:
    """Return ``group:artifact:version`` -> sha256 of a release's jars, in class path order."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - slow to import, and needed here only

    context = MavenContext(repo_cache=repository, timeout=60)
    roots = [context.create_dependency(coordinate) for coordinate in release.coordinates]
    inputs, transitive = context.resolver.resolve(roots)
    jars = {}
    for dependency in [*inputs, *transitive]:
        name = f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}"
        jar = dependency.artifact.resolve()
        jars[name] = hashlib.sha256(jar.read_bytes()).hexdigest()
    return jars


def resolve_remote_storage(repository: Path) -> dict[str, str]:
    """Return ``group:artifact:version:test`` -> sha256 of each published LocalTieredStorage jar."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - slow to import, and needed here only

    context = MavenContext(repo_cache=repository, timeout=60)
    project = context.project("org.apache.kafka", REMOTE_STORAGE)
    jars = {}
    tiered = [entry.version for entry in CATALOGUE.values() if entry.number >= TIERED_SINCE]
    for version in dict.fromkeys(tiered):
        try:
            jar = project.at_version(version).artifact(classifier=_CLASSIFIER).resolve()
        except RuntimeError as error:  # the jar is not published, or cannot be downloaded
            sys.stderr.write(f"{version} is left out: {error}\n")
            continue
        name = f"org.apache.kafka:{REMOTE_STORAGE}:{version}:{_CLASSIFIER}"
        jars[name] = hashlib.sha256(jar.read_bytes()).hexdigest()
    return jars


def main(names: Sequence[str]) -> None:
    """Write one lock file for each name."""
    for name in names:
        if name == REMOTE_STORAGE_LOCK.stem:
            with tempfile.TemporaryDirectory() as repository:
                jars = resolve_remote_storage(Path(repository))
            _write(REMOTE_STORAGE_LOCK, "Jars with LocalTieredStorage, of each release", jars)
            continue
        entry = release(name)
        with tempfile.TemporaryDirectory() as repository:
            jars = resolve(entry, Path(repository))
        _write(lock_file(entry), f"Jars of Kafka {entry.version}, in class path order", jars)


def _write(path: Path, title: str, jars: Mapping[str, str]) -> None:
    lines = [f'"{coordinate}" = "{digest}"' for coordinate, digest in jars.items()]
    head = f"# {title}, as `python -m highwater.clusters.releases.write_lock` found them."
    path.write_text("\n".join([head, "[jars]", *lines, ""]), encoding="utf-8")
    sys.stdout.write(f"{path.name}: {len(jars)} jars\n")


if __name__ == "__main__":
    main(sys.argv[1:])
