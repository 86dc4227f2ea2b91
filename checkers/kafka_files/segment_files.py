"""Segment files: their paths and names, and the offsets that they may contain."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final, Self

from highwater.harness.base.errors import UsageError

FILE_BYTES_MAX: Final = (1 << 31) - 1
"""The greatest size of a segment: log.segment.bytes is an int (FileRecords)."""

OFFSETS_MAX: Final = 1 << 31
"""The greatest number of offsets in a segment: an index entry has 31 bits for an offset
(LogSegment.append). If compaction makes a segment with more offsets, the broker splits the segment
at its next start (KAFKA-6264)."""

PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
SEGMENT: Final = re.compile(r"\d{20}\.log")
INDEX: Final = re.compile(r"(\d{20})\.(?:index|timeindex|txnindex)")
SNAPSHOT: Final = re.compile(r"(\d{20})\.snapshot")
"""The name of a producer snapshot: the producers' state at an offset of the log
(ProducerStateManager)."""

_BESIDE_LOGS: Final = ("leader-epoch-checkpoint", "partition.metadata")
_ON_THE_WAY: Final = (".deleted", ".swap", ".cleaned")
"""The endings of file names while Kafka is deleting or compacting a segment."""

_NAMED_MAX: Final = 3
_URI: Final = re.compile(r"[A-Za-z][A-Za-z\d+.-]*:/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One ``.log`` file, with the values in its path.

    Attributes:
        path: the path of the file; a URI if only Spark can read it (``checkers.remote_runs``).
        limit: the base offset of the next segment; None if unknown.
        named_by_keys: whether a record's id is its key (``Plan.named_by_keys``).
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
            UsageError: the path does not have this form.
        """
        home = PARTITION.fullmatch(path.parent.name)
        broker = path.parent.parent.name
        if not (home and broker.isdecimal() and SEGMENT.fullmatch(path.name)):
            raise UsageError(
                f"{path} is not the path of a segment",
                hint=(
                    "The path of a segment is replicas/<broker "
                    "id>/<topic>-<partition>/<base offset>.log."
                ),
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
        """True if only Spark can read the segment."""
        return _URI.match(self.path) is not None

    @property
    def end(self) -> int:
        """The first offset that cannot be in the segment."""
        widest = self.base_offset + OFFSETS_MAX
        return widest if self.limit is None else min(self.limit, widest)


def segments(replicas: Path) -> list[Segment]:
    """Return the segments below a run's ``replicas`` folder, in order, without internal topics.

    Files that Kafka is deleting, swapping or cleaning are ignored, and directories that Kafka will
    delete.

    Raises:
        UsageError: the folder does not exist.
    """
    if not replicas.is_dir():
        raise UsageError(
            f"{replicas} is not a directory",
            hint="Name a run's directory replicas, which has one directory for each broker id.",
        )
    folders = [path for path in replicas.glob("*/*/") if not path.name.startswith("__")]
    return limited([segment for folder in folders for segment in inside(folder)])


def inside(folder: Path) -> list[Segment]:
    """Return the segments in a replica's directory; an empty list for any other path."""
    if not (PARTITION.fullmatch(folder.name) and folder.parent.name.isdecimal()):
        return []
    return [Segment.at(path) for path in folder.iterdir() if SEGMENT.fullmatch(path.name)]


def of_replica(name: str) -> bool:
    """Return whether a file with this name can only be in a replica's directory."""
    forms = (SEGMENT, INDEX, SNAPSHOT)
    return name in _BESIDE_LOGS or any(form.fullmatch(name) for form in forms)


def left_out(names: Collection[str]) -> str | None:
    """Describe the missing segments of a replica's directory; None if no segment is missing.

    A log always has a segment (LocalLog). An index without a segment shows that the segment is
    missing, because Kafka creates the segment first. While Kafka deletes a segment, the file has
    another ending.

    Args:
        names: the names of the files in the folder.
    """
    logs = {name for name in names if SEGMENT.fullmatch(name)}
    if not logs:
        rest = ", ".join(sorted(names)[:_NAMED_MAX]) or "it is empty"
        more = len(names) - _NAMED_MAX
        rest += f" and {more} more" if more > 0 else ""
        return f"has no segment (no *.log; {'only ' if names else ''}{rest})"
    indexed = {f"{match[1]}.log" for name in names if (match := INDEX.fullmatch(name))}
    moving = {f"{log}{end}" for log in indexed for end in _ON_THE_WAY} & {*names}
    gone = sorted(indexed - logs - {name.rpartition(".")[0] for name in moving})
    if not gone:
        return None
    named = ", ".join(gone[:_NAMED_MAX])
    more = len(gone) - _NAMED_MAX
    return (
        f"has the indexes of {named}{f' and {more} more' if more > 0 else ''}, but not "
        "the segment files"
    )


def limited(unordered: Sequence[Segment]) -> list[Segment]:
    """Return the segments in order, each with its ``limit``."""

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
