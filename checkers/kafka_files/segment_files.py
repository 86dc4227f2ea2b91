"""Segment files: their places, their names, and how they are opened."""

import re
from collections.abc import Collection, Sequence
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
INDEX: Final = re.compile(r"(\d{20})\.(?:index|timeindex|txnindex)")
SNAPSHOT: Final = re.compile(r"(\d{20})\.snapshot")
"""What is known of producers at an offset that the log has reached (ProducerStateManager)."""

_BESIDE_LOGS: Final = ("leader-epoch-checkpoint", "partition.metadata")
_ON_THE_WAY: Final = (".deleted", ".swap", ".cleaned")
"""Ends of names of segments that Kafka is deleting or compacting."""

_NAMED_MAX: Final = 3
_URI: Final = re.compile(r"[A-Za-z][A-Za-z\d+.-]*:/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One ``.log`` file, with what its path says.

    Attributes:
        path: of the file; a URI where only Spark can read it (``checkers.remote_runs``).
        limit: the first offset that it cannot hold: where the next segment begins; None when that
            is not known.
        named_by_keys: whether records that have a key are named by it (``Plan.named_by_keys``).
    """

    path: str
    run: str
    broker: int
    topic: str
    partition: int
    base_offset: int
    limit: int | None = None
    named_by_keys: bool = False

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


def of_replica(name: str) -> bool:
    """Return whether a file of this name lies in a replica's folder, and nowhere else."""
    forms = (SEGMENT, INDEX, SNAPSHOT)
    return name in _BESIDE_LOGS or any(form.fullmatch(name) for form in forms)


def left_out(names: Collection[str]) -> str | None:
    """Return which segments a replica's folder must have had, the end of a sentence about it.

    A log has a segment at all times (LocalLog), and an index is made after its segment and removed
    after it (LogSegment).

    Args:
        names: of the files in the folder.
    """
    logs = {name for name in names if SEGMENT.fullmatch(name)}
    if not logs:
        rest = ", ".join(sorted(names)[:_NAMED_MAX]) or "it is empty"
        more = len(names) - _NAMED_MAX
        rest += f" and {more} more" if more > 0 else ""
        return f"holds no segment (no *.log; {'only ' if names else ''}{rest})"
    indexed = {f"{match[1]}.log" for name in names if (match := INDEX.fullmatch(name))}
    moving = {f"{log}{end}" for log in indexed for end in _ON_THE_WAY} & {*names}
    gone = sorted(indexed - logs - {name.rpartition(".")[0] for name in moving})
    if not gone:
        return None
    named = ", ".join(gone[:_NAMED_MAX])
    more = len(gone) - _NAMED_MAX
    return f"has the indexes of {named}{f' and {more} more' if more > 0 else ''} and not the log"


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
