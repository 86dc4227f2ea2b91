"""Faults of compaction: a broker crashes while its cleaner writes or replaces segments.

The log cleaner copies the records that it keeps to ``.cleaned`` files, and renames these files to
``.swap``. Then it renames the old segments to ``.deleted``, and the new segments to their final
names. If the broker crashes between these steps, it completes or repeats them at its next start
(class LogLoader, before 3.0 Log).
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from highwater.clusters.core.interfaces import Broker, Cluster
from highwater.nemesis.faults.registry import KEYS, FaultTarget, NothingDoneError, aimed

_LIMIT_S: Final = 5.0
_SUFFIXES: Final = (".cleaned", ".swap")


@aimed("cleaner-kill", needs=KEYS)
def cleaner_kill(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """SIGKILL a broker as soon as its cleaner writes or replaces segments."""
    target = cluster.brokers[aim.victim]
    _await_cleaning(target, aim, _SUFFIXES[int(aim.choice * len(_SUFFIXES))])
    target.kill()
    try:
        left = Counter(suffix for name in _files(target, aim) if (suffix := Path(name).suffix))
        there = [f"{left[suffix]} {suffix}" for suffix in (*_SUFFIXES, ".deleted") if left[suffix]]
        what = ", ".join(there) or "no"
        yield f"broker {target.id} is killed while its log cleaner runs; it left {what} files"
    finally:
        target.start()


def _await_cleaning(target: Broker, aim: FaultTarget, suffix: str) -> None:
    """Wait until the cleaner creates a file with this suffix; the file exists about a millisecond.

    Raises:
        NothingDoneError: the cleaner wrote no such file.
    """
    deadline = time.monotonic() + _LIMIT_S
    while not any(name.endswith(suffix) for name in _files(target, aim)):
        if time.monotonic() > deadline or aim.healing() or aim.stopped():
            raise NothingDoneError(
                f"the cleaner of broker {target.id} wrote no {suffix} file in {_LIMIT_S:g} s"
            )


def _files(target: Broker, aim: FaultTarget) -> Iterator[str]:
    """Yield the names of the files in a broker's replicas of the topic."""
    for partition in range(aim.topic.partitions):
        for folder in target.log_directories:
            replica = folder / f"{aim.topic.name}-{partition}"
            if replica.is_dir():
                yield from (path.name for path in replica.iterdir())
