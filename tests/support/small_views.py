"""Views of small histories in this process, without Spark, and what kernels find in them."""

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.history import view as views
from highwater.checkers.history.findings import (
    COPY,
    END,
    FINDING_COLUMNS,
    STEP,
    SUBJECT,
    rows_of_findings,
)
from highwater.checkers.history.row_flags import IN_FINAL, OF_FENCE, SAYINGS
from highwater.checkers.history.rows import REFERENCE, WORDS
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Engine, Rows
from highwater.harness.runs import history

Row = dict[str, Any]
Found = tuple[Any, ...]

TOPIC: Final = "t"
RUN: Final = "r0"


def number(*words: object) -> int:
    """Return a hash of some words, the same in every process."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def numbered(rows: Iterable[Row]) -> list[Row]:
    """Return operations with the columns of ``checkers.history.rows`` beside their own."""
    return [_numbered(row) for row in rows]


def view_of(rows: Iterable[Row]) -> ClientHistory:
    """Return the view of operations that ``numbered`` numbered; of one run if they say no other."""
    engine = Engine(cast("Any", None))
    table = pa.Table.from_pylist(list(rows), views._ALL)
    view = ClientHistory(engine, cast("Any", None), len(table), final_read=True)
    view.__dict__["_all"] = engine.table(table)
    return view


def anomalies(view: ClientHistory, found: Sequence[Rows | None]) -> list[Row]:
    """Return findings as anomalies, in columns of ``checkers.core.anomaly.SCHEMA``."""
    rows: list[Row] = []
    for findings in filter(None, found):
        words = findings.renamed(FINDING_COLUMNS).join(view.words.select(WORDS.names), REFERENCE)
        rows += words.by(["finding"], rows_of_findings, SCHEMA).table().to_pylist()
    return rows


def references(findings: pa.Table) -> list[Found]:
    """Return findings in an order that depends on nothing else.

    Returns:
        ``kind, fault, offset``, then ``at`` of the steps, ``(nth, at)`` of the subjects in order,
        and ``(place, at, note)`` of the copies and ends in order.
    """
    by: dict[tuple[str, int], list[Row]] = {}
    for row in findings.to_pylist():
        by.setdefault((row["kind"], row["finding"]), []).append(row)
    return sorted(map(_reference, by.values()), key=repr)


def random_rows(seed: int) -> list[Row]:
    """Return a small history in which much is wrong. No record is sent with both info and fail."""
    dice = random.Random(seed)  # noqa: S311 - histories are no secrets
    values = [f"v{count}" for count in range(dice.choice([4, 6, 10]))]
    partitions: list[int | None] = dice.choice([[0], [0, 1], [0, 1, None]])
    places: dict[str, tuple[int | None, int | None]]
    places = {value: (dice.choice(partitions), dice.randrange(8)) for value in values}
    peeks = dice.choice([0.1, 0.6])
    rows: list[Row] = []
    for op in range(dice.randrange(3, 14)):
        sends, outcome = dice.random() < 0.5, dice.choice([*3 * ["ok"], "info", "fail"])
        names = values[::2] if outcome == "info" else values[1::2] if outcome == "fail" else values
        time, isolation = dice.randrange(200), "read_committed"
        shared: Row = {"op": op, "outcome": outcome, "topic": TOPIC, "invoke_ns": time}
        shared["process"] = dice.choice(["p1", "p2"] if sends else ["c1", "c2"])
        if dice.random() < 0.3:
            shared["process"] = dice.choice(["p1", "c1", "t1"])
        if sends and dice.random() < 0.1:
            shared["process"] = history.FENCE
        shared["phase"] = "final" if not sends and dice.random() < 0.4 else "run"
        for _ in range(dice.randrange(1, 4)):
            value = dice.choice(names if sends else values)
            partition, offset = places[value]
            if dice.random() < 0.15:
                offset = dice.randrange(8)
            if dice.random() < 0.1:
                partition = dice.choice(partitions)
            if dice.random() < (0.6 if sends and outcome != "ok" else 0.08):
                offset = None
            isolation = "read_uncommitted" if dice.random() < peeks else "read_committed"
            row = {**shared, "kind": "send" if sends else "read", "isolation": isolation}
            row |= {"partition": partition, "offset": offset, "value": value, "at": len(rows)}
            row["complete_ns"] = time + dice.randrange(1, 40) if dice.random() < 0.9 else None
            if not sends and dice.random() < 0.1:
                row |= {"kind": "end", "value": "", "isolation": None}
            rows.append(row)
    return numbered(rows)


def shuffled(table: pa.Table | pa.Array, seed: int) -> Any:  # noqa: ANN401 - of the same type
    """Return the rows of a table in another order."""
    order = list(range(len(table)))
    random.Random(seed).shuffle(order)  # noqa: S311 - for the same reason
    return table.take(order)


def _numbered(row: Row) -> Row:
    run, topic, process = row.get("run", RUN), row["topic"], row["process"]
    partition, value, at = row.get("partition"), row["value"], row["at"]
    op = at if row.get("op") is None else row["op"]
    slot, client = number(run, topic, partition), number(run, process)
    saying = SAYINGS[row["kind"], row["outcome"], row.get("isolation") == history.READ_UNCOMMITTED]
    fact = saying.bits | (saying.no_offset if row.get("offset") is None else 0)
    fact |= saying.no_partition if partition is None else 0
    fact |= saying.named if value else 0
    fact |= IN_FINAL if row.get("phase") == history.FINAL else 0
    fact |= OF_FENCE if process == history.FENCE else 0
    numbers = {"slot": slot, "client": client, "key": number(slot, value), "history": number(run)}
    numbers |= {"operation": number(client, op), "word": number(run, topic, value)}
    none = {"offset": None, "complete_ns": None, "acks": None, "partition": None}
    return {**none, **row, **numbers, "run": run, "op": op, "fact": fact}


def _reference(rows: list[Row]) -> Found:
    def part(*parts: int) -> Iterator[Row]:
        return (row for row in rows if row["part"] in parts)

    steps = sorted((row["nth"], row["at"]) for row in part(STEP))
    subjects = sorted((row["nth"], row["at"]) for row in part(SUBJECT))
    copies = sorted(((row["place"], row["at"], row["note"]) for row in part(COPY, END)), key=repr)
    (shared,) = {(row["kind"], row["fault"], row["offset"]) for row in rows}
    return (*shared, tuple(at for _, at in steps), tuple(subjects), tuple(copies))
