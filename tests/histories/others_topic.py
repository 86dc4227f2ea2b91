"""Runs that only read a topic to which others write: what was read, and the final read of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from highwater.harness.runs.plan import EXTERNAL, External, Topic, Workload
from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

_EXTERNAL: Final = External(
    inventory="staging.toml",
    cluster_id="theirs",
    code="c0de",
    brokers=(1, 2, 3),
    commands=("copy", "kill", "start"),
)
Records = Sequence[tuple[int, str]]
"""Offsets and names."""

FIRST: Final = ((5, "a"), (6, "b"), (7, "c"), (9, "d"))
"""What a reader received; a marker of a transaction is at offset 8."""


def only_read(
    path: Path,
    first: Records = FIRST,
    second: Records = FIRST,
    *,
    begin: int = 5,
    end: int | None = 10,
    peeked: Records = (),
    unclean: bool = False,
) -> Run:
    """A reader received records of ``orders``; a broker was killed; the final read has others.

    Args:
        begin: where the final read began.
        end: the end that it reached; None if it reached none.
        peeked: what a reader of uncommitted records received.
    """
    topic = Topic(name="orders", min_insync_replicas=2, unclean_leader_election=unclean)
    run = RunBuilder(path, kafka="4.4.0", topic=topic, workload=Workload(producers=0))
    run.plan = replace(
        run.plan, nemesis=("kill",), read_only="orders", driver=EXTERNAL, external=_EXTERNAL
    )
    run.seek(0, 5, "consumer-0")
    for offset, name in first:
        run.read(name, offset, process="consumer-0", phase="run")
    for offset, name in peeked:
        run.read(name, offset, process="consumer-1", phase="run", isolation="read_uncommitted")
    run.fault("kill", 1, "broker 1 is killed")
    run.fault("kill", 1, "broker 1 is healed", phase="heal")
    run.final_range("seek", begin)
    for offset, name in second:
        run.read(name, offset)
    if end is not None:
        run.final_range("end", end)
    return run.write()


_GONE_B: Final = (("vanished", 0, 6, "b"),)

CASES: Final[
    tuple[
        tuple[
            str,
            Callable[[Path], Run],
            str,
            tuple[tuple[str, int, int | None, str | None], ...],
            bool,
            tuple[str, ...],
        ],
        ...,
    ]
] = (
    (
        "others-topic-kept",
        lambda path: only_read(path, second=[*FIRST, (10, "late")]),
        "valid",
        (),
        False,
        (
            "still has all 4 records that readers received from orders",
            "No replica's log was copied",
        ),
    ),
    (
        "others-topic-skipped",
        lambda path: only_read(path, second=[FIRST[0], *FIRST[2:]]),
        "invalid",
        _GONE_B,
        True,
        ("lost 1 of 4 records that readers received", "1 record was read, and is gone at the end."),
    ),
    (
        "others-topic-replaced",
        lambda path: only_read(path, second=[FIRST[0], (6, "x"), *FIRST[2:]]),
        "invalid",
        _GONE_B,
        True,
        ("1 more anomaly follows from these",),
    ),
    (
        "others-topic-shorter",
        lambda path: only_read(path, second=FIRST[:2], end=7),
        "invalid",
        (("vanished", 0, 7, "c"), ("vanished", 0, 9, "d")),
        True,
        ("lost 2 of 4 records",),
    ),
    (
        "others-topic-unclean",
        lambda path: only_read(path, second=[FIRST[0], *FIRST[2:]], unclean=True),
        "valid",
        _GONE_B,
        False,
        ("which unclean elections do not promise to keep", "The run's guarantee allows this."),
    ),
    (
        "others-topic-expired",
        lambda path: only_read(path, second=FIRST[2:], begin=7),
        "valid",
        (),
        False,
        (
            "still has all 2 records",
            "and that did not expire",
            "2 records are not judged: retention or a deletion",
        ),
    ),
    (
        "others-topic-all-expired",
        lambda path: only_read(path, second=(), begin=10),
        "unknown",
        (),
        False,
        ("Every record that a reader received has expired",),
    ),
    (
        "others-topic-uncommitted",
        lambda path: only_read(path, peeked=[(4, "aborted"), *FIRST[:3]]),
        "valid",
        (),
        False,
        ("still has all 4",),
    ),
    (
        "others-topic-silent",
        lambda path: only_read(path, first=(), second=(), end=5),
        "unknown",
        (),
        False,
        ("No read_committed reader received a record during the run",),
    ),
    (
        "others-topic-not-reached",
        lambda path: only_read(path, second=FIRST[:2], end=None),
        "unknown",
        (),
        False,
        ("2 records were not reached by the final read",),
    ),
)
"""Name, run, verdict, anomalies, whether they break the guarantee, and words of the verdict."""
