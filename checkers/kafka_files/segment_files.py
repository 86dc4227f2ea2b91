"""Segment files: their places, their names, and how they are opened."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final, Self

from highwater.harness.base.errors import UsageError

FILE_BYTES_MAX: Final = (1 << 31) - 1
"""No segment is longer: log.segment.bytes is an int (FileRecords)."""

OFFSETS_MAX: Final = 1 << 31
"""No segment spans more offsets: an index entry holds 31 bits (LogSegment.append; a log in which
compaction had joined more than that was split by the next start, KAFKA-6264)."""

PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
SEGMENT: Final = re.compile(r"\d{20}\.log")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z\d+.-]*:/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One ``.log`` file, with what its path tells.

    Attributes:
        path: of the file; a URI where only Spark can read it (``checkers.remote_runs``).
        limit: the first offset that it cannot hold: where the next segment begins; None when that
            is not known.
    """

    path: str
    run: str
    broker: int
    topic: str
    partition: int
    base_offset: int
    limit: int | None = None

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the segment at ``replicas/<broker id>/<topic>-<partition>/<base offset>.log``.

        Raises:
            UsageError: the path does not end like that.
        """
        home = PARTITION.fullmatch(path.parent.name)
        broker = path.parent.parent.name
        if not (home and broker.isdecimal() and SEGMENT.fullmatch(path.name)):
            raise UsageError(
                f"{path} is not the path of a segment",
                hint="Segments lie at replicas/<broker id>/<topic>-<partition>/<base offset>.log.",
            )
        return cls(
            path=str(path),
            run=path.absolute().parents[3].name,
            broker=int(broker),
            topic=home["topic"],
            partition=int(home["partition"]),
            base_offset=int(path.stem),
        )

    @property
    def remote(self) -> bool:
        """True if only Spark can read it."""
        return _URI.match(self.path) is not None

    @property
    def end(self) -> int:
        """The first offset that cannot be in it."""
        widest = self.base_offset + OFFSETS_MAX
        return widest if self.limit is None else min(self.limit, widest)


def segments(replicas: Path) -> list[Segment]:
    """Every segment below a run's ``replicas`` folder, in order; Kafka's internal topics left out.

    Deleted, swapped and cleaned files, and folders about to be deleted, are no part of the log.

    Raises:
        UsageError: there is no such folder.
    """
    if not replicas.is_dir():
        raise UsageError(
            f"{replicas} is not a folder",
            hint="Name the folder replicas of a run; it has one folder a broker id.",
        )
    folders = [path for path in replicas.glob("*/*/") if not path.name.startswith("__")]
    return limited([segment for folder in folders for segment in inside(folder)])


def inside(folder: Path) -> list[Segment]:
    """Return the segments in a replica's folder; none where its path is not that of one."""
    if not (PARTITION.fullmatch(folder.name) and folder.parent.name.isdecimal()):
        return []
    return [Segment.at(path) for path in folder.iterdir() if SEGMENT.fullmatch(path.name)]


def limited(unordered: Sequence[Segment]) -> list[Segment]:
    """Return the segments in order, each with the begin of the next one of its replica."""

    def replica(segment: Segment) -> tuple[int, str, int]:
        return segment.broker, segment.topic, segment.partition

    ordered = sorted(unordered, key=lambda segment: (replica(segment), segment.base_offset))
    with_limits = []
    for _, group in groupby(ordered, key=replica):
        of_replica = list(group)
        with_limits += [
            replace(segment, limit=after.base_offset) for segment, after in pairwise(of_replica)
        ]
        with_limits.append(of_replica[-1])
    return with_limits
