"""Golden runs with a remote tier beside the replicas' disks."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

Finding = tuple[str, int, int | None, str | None]
Segments = Sequence[Sequence[tuple[int, int, str]]]

_RECORDS: Final = [(number, 0, f"m{number}") for number in range(4)]
_LOST: Final[tuple[Finding, ...]] = tuple(("lost-write", 0, n, f"m{n}") for n in range(2))


def run_with(
    path: Path,
    *segments: Sequence[tuple[int, int, str]],
    local_from: int = 0,
    read_from: int = 0,
    damaged: bool = False,
) -> Run:
    """A run with four records, of which brokers hold the later ones, and these remote segments.

    Args:
        local_from: the first record on disks.
        read_from: the first record that the final reader met.
        damaged: whether the last byte of the first remote segment is another.
    """
    run = RunBuilder(path, kafka="4.3.1")
    for offset, epoch, value in _RECORDS:
        run.send(value, offset, leader_epoch=epoch)
    for offset, _, value in _RECORDS[read_from:]:
        run.read(value, offset)
    run.fence(4)
    run.disk([1, 2, 3], [*_RECORDS[local_from:], (4, 0, "fence-0")])
    for segment in segments:
        run.remote(segment)
    if damaged:
        name, data = run.segments[0]
        run.segments[0] = (name, data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    return run.write()


def moved_whole(path: Path, *, end: int) -> Run:
    """A run whose records are all in the remote tier; the last segment on disks is empty.

    Args:
        end: where that segment begins, and the log ends.
    """
    run = RunBuilder(path, kafka="4.3.1")
    run.leader(1, 0, [1, 2, 3])
    for offset, epoch, value in _RECORDS:
        run.send(value, offset, leader_epoch=epoch)
        run.read(value, offset)
    run.fence(4)
    run.remote([*_RECORDS, (4, 0, "fence-0")])
    built = run.write()
    for replica in built.replicas.glob("*/*/"):
        (replica / f"{0:020d}.log").rename(replica / f"{end:020d}.log")
    return built


def _other(offset: int) -> list[tuple[int, int, str]]:
    return [(number, 0, "x" if number == offset else f"m{number}") for number in range(2)]


CASES: Final[Sequence[tuple[str, Callable[[Path], Run], tuple[Finding, ...]]]] = (
    ("remote-tier-agrees", lambda p: run_with(p, _RECORDS[:2], _RECORDS[2:3]), ()),
    ("remote-tier-alone-holds", lambda p: run_with(p, _RECORDS[:2], local_from=2), ()),
    (
        "remote-tier-overlaps",  # two leaders have copied the same range, in other segments
        lambda p: run_with(p, _RECORDS[:2], _RECORDS[:3], _RECORDS[1:3]),
        (),
    ),
    (
        "remote-tier-differs",
        lambda p: run_with(p, _other(1), _RECORDS[2:3]),
        (("remote-divergence", 0, 1, "m1"),),
    ),
    (
        "remote-tier-other-epoch",
        lambda p: run_with(p, [(0, 0, "m0"), (1, 1, "m1")]),
        (("remote-divergence", 0, 1, "m1"),),
    ),
    (
        "remote-tier-segments-differ",  # where no disk holds the offset any more
        lambda p: run_with(p, _RECORDS[:2], _other(0), local_from=2),
        (("remote-divergence", 0, 0, "m0"),),
    ),
    (
        "remote-tier-skips",
        lambda p: run_with(p, [_RECORDS[0], _RECORDS[2]]),
        (("remote-divergence", 0, 1, "m1"),),
    ),
    (
        "remote-tier-damaged",
        lambda p: run_with(p, _RECORDS[:1], damaged=True),
        (("remote-divergence", 0, 0, None),),
    ),
    (
        "remote-tier-lacks-segment",
        lambda p: run_with(p, _RECORDS[2:3], local_from=2, read_from=2),
        _LOST,
    ),
    ("remote-tier-holds-all", lambda p: moved_whole(p, end=5), ()),
    (
        "remote-tier-holds-more",  # the disks' logs end before the fence, which was committed
        lambda p: moved_whole(p, end=4),
        tuple([("missing", 0, 4, None)] * 3),
    ),
    (
        "remote-tier-lacks-segment-nearly",  # the disks hold what the remote tier lacks
        lambda p: run_with(p, _RECORDS[2:3]),
        (),
    ),
)
