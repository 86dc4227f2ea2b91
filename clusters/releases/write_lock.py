"""Write a release's lock file, to add a release: ``-m …write_lock NAME ...``.

jgo (pure Python, no Maven needed) resolves the coordinates as Maven would; the lock file records
each jar with its sha256, so that a run needs no resolution, only downloads.
"""

import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from highwater.clusters.releases.jars import lock_file
from highwater.harness.releases.catalogue import Release, release


def resolve(release: Release, repository: Path) -> dict[str, str]:
    """Return the jars in class path order: ``group:artifact:version`` to sha256."""
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


def main(names: Sequence[str]) -> None:
    """Write one lock file for each name."""
    for name in names:
        entry = release(name)
        with tempfile.TemporaryDirectory() as repository:
            jars = resolve(entry, Path(repository))
        lines = [f'"{coordinate}" = "{digest}"' for coordinate, digest in jars.items()]
        head = (
            f"# Jars of Kafka {entry.version}, in class path order, "
            "as `python -m highwater.clusters.releases.write_lock` found them."
        )
        path = lock_file(entry)
        path.write_text("\n".join([head, "[jars]", *lines, ""]), encoding="utf-8")
        sys.stdout.write(f"{path.name}: {len(jars)} jars\n")


if __name__ == "__main__":
    main(sys.argv[1:])
