"""Which anomalies follow from which, each case a few anomalies and what is said of each."""

from typing import Any

import pyarrow as pa

from highwater.checkers.anomalies.root_causes import OpenEnds, TruncatedRanges, caused
from highwater.checkers.core.anomaly import SCHEMA

Anomaly = dict[str, Any]


def _at(kind: str, offset: int | None, *, partition: int = 0, value: str = "v") -> Anomaly:
    return {
        "kind": kind, "topic": "events", "partition": partition, "offset": offset, "value": value
    }  # fmt: skip


def _copies(kind: str, *offsets: int) -> Anomaly:
    """A skip of these offsets, or a duplicate at them."""
    copies = [{"partition": 0, "offset": offset, "value": f"m{offset}"} for offset in offsets]
    return {**_at(kind, offsets[0]), "copies": copies}


def _steps(kind: str, *offsets: int) -> Anomaly:
    """A step from one offset to another, or a cycle of such."""
    steps = [{"kind": "send", "partition": 0, "offset": offset} for offset in offsets]
    return {**_at(kind, offsets[-1]), "steps": steps}


LOST_3_TO_5 = [_at("lost-write", offset) for offset in (3, 4, 5)]
BY_3 = "lost-write events-0@3"

CASES: dict[str, tuple[list[Anomaly], list[tuple[Anomaly, str | None]]]] = {
    "each lost record is lost": ([], [(lost, None) for lost in LOST_3_TO_5]),
    "two records at a lost one's offset": (
        LOST_3_TO_5,
        [
            (_at("inconsistent-offsets", 4), BY_3),
            (_at("inconsistent-offsets", 6), BY_3),  # the next offset is of the stretch
            (_at("inconsistent-offsets", 8), None),
            (_at("inconsistent-offsets", 4, partition=1), None),
        ],
    ),
    "two records at one offset, and nothing lost": (
        [],
        [
            (_at("inconsistent-offsets", 4), None),
            (_at("inconsistent-offsets", 5), None),
            (_steps("nonmonotonic-poll", 6, 5), "inconsistent-offsets events-0@4"),
        ],
    ),
    "a vanished record is not called after what follows from it": (
        [_at("vanished", 5)],
        [(_at("inconsistent-offsets", 4), "vanished events-0@5")],
    ),
    "a skip over nothing but what was lost": (
        LOST_3_TO_5,
        [
            (_copies("poll-skip", 3, 4, 5), BY_3),
            (_copies("int-poll-skip", 4), BY_3),
            (_copies("poll-skip", 5, 6), None),
            (_copies("int-poll-skip", 2), None),
        ],
    ),
    "a record that was cut and sent again": (
        LOST_3_TO_5,
        [(_copies("duplicate", 5, 9), BY_3), (_copies("duplicate", 6, 9), None)],
    ),
    "a step back over what was lost": (
        LOST_3_TO_5,
        [
            (_steps("nonmonotonic-poll", 9, 2), BY_3),
            (_steps("nonmonotonic-send", 5, 3), BY_3),
            (_steps("int-nonmonotonic-poll", 5, 5), BY_3),
            (_steps("int-nonmonotonic-send", 9, 6), None),
            (_steps("nonmonotonic-poll", 2, 1), None),
        ],
    ),
    "a cycle through a lost record": (
        LOST_3_TO_5,
        [
            (_steps("G0", 1, 2, 4, 6), BY_3),
            (_steps("G1c-realtime", 1, 2), None),
        ],
    ),
    "two stretches": (
        [_at("lost-write", 3), _at("divergence", 7)],
        [
            (_copies("poll-skip", 3, 7), BY_3),
            (_copies("poll-skip", 7), "divergence events-0@7"),
            (_steps("nonmonotonic-send", 7, 7), "divergence events-0@7"),
        ],
    ),
    "what no cut makes": (
        LOST_3_TO_5,
        [
            (_at("G1a", 4), None),
            (_at("phantom", 4), None),
            (_at("precommitted-read", 4), None),
            (_at("unseen", None), None),
            (_copies("int-send-skip", 4), None),
        ],
    ),
    "a loss without a place": ([_at("lost-write", None)], [(_copies("poll-skip", 3), None)]),
}  # fmt: skip


BY_4 = "hanging-transaction events-0@4"
BEHIND_OPEN: list[tuple[Anomaly, str | None]] = [
    (_at("hanging-transaction", 4), None),
    (_at("hanging-transaction", 6), None),
    (_at("unseen", 3), None),
    (_at("unseen", 4), BY_4),
    (_at("unseen", 9), BY_4),
    (_at("unseen", None), None),
    (_at("unseen", 9, partition=1), None),
    ({**_at("unseen", 9), "topic": "others"}, None),
    ({**_at("unseen", 9), "run": "r1"}, None),
    (_at("lost-write", 9), None),
    (_at("G1a", 9), None),
]


def test_what_is_unseen_behind_a_transaction_that_hangs_follows_from_it() -> None:
    rows = [{"run": "r0", **anomaly} for anomaly, _ in BEHIND_OPEN]
    given = pa.Table.from_pylist(rows, schema=SCHEMA)
    causes = TruncatedRanges(given.combine_chunks().to_batches()[0])
    table = caused(given, causes=causes, ends=OpenEnds(given), alone="duplicate")
    assert table["cause"].to_pylist() == [cause for _, cause in BEHIND_OPEN]


def test_what_follows_from_a_cut_is_said_to() -> None:
    rows = [
        {**anomaly, "run": name}
        for name, (given, asked) in CASES.items()
        for anomaly in [*given, *(one for one, _ in asked)]
    ]
    expected = [
        (name, anomaly["kind"], anomaly["offset"], anomaly["partition"], cause)
        for name, (given, asked) in CASES.items()
        for anomaly, cause in [*((one, None) for one in given), *asked]
    ]
    found = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    causes = TruncatedRanges(found)
    parts = [found.slice(start, 7) for start in range(0, len(rows), 7)]
    said = [cause for part in parts for cause in causes.of(part).to_pylist()]
    told = [
        (row["run"], row["kind"], row["offset"], row["partition"], cause)
        for row, cause in zip(rows, said, strict=True)
    ]
    assert sorted(told, key=str) == sorted(expected, key=str)
