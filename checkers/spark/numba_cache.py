"""Store Numba's machine code on disk, separately for each version of its sources.

Numba's own cache checks the time of only one file, but compiled functions come from several files.
So the name of the cache's directory contains a hash of all these files.
"""

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numba

from highwater.harness.base.user_dirs import cache_directory

_VERSIONS_MAX: Final = 4
_IN_USE_S: Final = 3600.0


@contextmanager
def cached_compilation(name: str, sources: Iterable[Path]) -> Iterator[None]:
    """Store the machine code of functions declared in this block with ``cache=True``.

    Args:
        name: the name of the folder in the cache directory.
        sources: all source files of these functions. If they are in a zip, as on a Spark worker,
            Numba chooses the directory.
    """
    sources = tuple(sources)
    if not all(path.is_file() for path in sources):
        yield
        return
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    folder = cache_directory() / name / digest.hexdigest()[:16]
    _use(folder)
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _use(folder: Path) -> None:
    """Make the folder and mark it as used. Remove all folders except the latest few.

    A folder that was used within the last hour remains: another process may write to it.
    """
    with contextlib.suppress(OSError):  # Numba itself handles a cache that cannot be written
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        used = {path: path.stat().st_mtime for path in folder.parent.iterdir()}
        for old in sorted(used, key=lambda folder: used[folder])[:-_VERSIONS_MAX]:
            if used[old] < time.time() - _IN_USE_S:
                shutil.rmtree(old, ignore_errors=True)
