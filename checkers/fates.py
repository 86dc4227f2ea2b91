"""What became of every record that was sent, from the clients' side alone.

The clients' view sums up what was said of every record, partition by partition: these sums make the
books and say how far the final read came. Only records that it did not return, or returned at two
offsets, are looked at by name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers import leaves
from checkers.clients.facts import ADRIFT, SENT, has
from checkers.clients.picks import RECORD, Want
from checkers.clients.view import final
from checkers.deciding import DOUBTS, FATE, LIMIT, LOST, READ_BACK, SAID, UNSEEN, Deciding

if TYPE_CHECKING:
    from checkers.tables import Tables

_DOUBTFUL: Final = "records-in-doubt"
_TOGETHER: Final = 1_000_000  # records that a task decides


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The books of one partition, and how far the final read came in it.

    Attributes:
        partition: None has the records whose partition their producer was never told.
        read: acknowledged records that the final read returned.
        missing: acknowledged records that it did not return.
        again: records that it returned at several offsets.
        last: the greatest offset that it read; None when it read nothing.
        complete: whether it read the partition's fence, and so everything before it.
    """

    run: str
    topic: str
    partition: int | None
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0
    missing: int = 0
    again: int = 0
    last: int | None = None
    complete: bool = False


def books(tables: "Tables") -> list[Book]:
    """The books of every partition of every run in which anything was sent or read."""
    view = tables.view
    topics = {case.key: case.plan.topic for case in tables.cases}
    names = ("sent", "acknowledged", "failed", "unknown", "read", "missing", "again", "complete")
    found = view.names.join(view.sums, "slot", join_type="inner").to_pylist()
    return [
        Book(
            **{name: row[name] for name in ("run", "topic", "partition", *names)}, last=row["reach"]
        )
        for row in found
        if (topic := topics[row["run"]]).name == row["topic"]
        and (row["partition"] is None or row["partition"] < topic.partitions)
    ]


def wants(tables: "Tables") -> dict[str, Want]:
    """What records in doubt will ask of the history: whoever sent them."""
    sends = Want(by=RECORD, rows=lambda: tables.view.keys(*DOUBTS), columns=SAID, facts=SENT)
    return {_DOUBTFUL: sends}


def fates(tables: "Tables", folder: Path) -> Path:
    """One row, in ``FATE``, for every record that is lost, unseen, or there several times.

    Args:
        tables: the runs.
        folder: where to leave them, by ``checkers.leaves``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    view = tables.view
    doubtful = sum(each.missing + each.again for each in tables.books)
    if not doubtful:
        return folder
    view.hold(wants(tables))
    deciding = Deciding(view.held(_DOUBTFUL), view.doubts, _limits(tables), _adrift(tables), folder)
    view.each(view.shares(doubtful, _TOGETHER), deciding)
    return folder


def ledger(tables: "Tables") -> dict[str, dict[str, int]]:
    """The books of every run: the fields of ``harness.verdict.Ledger``."""
    found: dict[str, dict[str, int]] = {}
    for each in tables.books:
        book = found.setdefault(each.run, {LOST: 0, UNSEEN: 0})
        for name in ("sent", "acknowledged", "failed", "unknown", READ_BACK):
            book[name] = book.get(name, 0) + getattr(each, name)
    for row in _counted(tables.decided):
        if row["fate"] in (LOST, UNSEEN):
            found[row["run"]][row["fate"]] += row["count_all"]
    for book in found.values():  # those without a partition may be found in any
        book[READ_BACK] = book["acknowledged"] - book[LOST] - book[UNSEEN]
    return found


def _counted(folder: Path) -> Iterator[dict[str, Any]]:
    """How many records of each run have each fate, file by file."""
    for batch in leaves.dataset([folder], FATE).to_batches(columns=["run", "fate"]):
        told = pa.Table.from_batches([batch]).group_by(["run", "fate"])
        yield from told.aggregate([([], "count_all")]).to_pylist()


def _adrift(tables: "Tables") -> Path | None:
    """Where the final read met records whose partition their producer was never told: a folder."""
    if not any(each.partition is None for each in tables.books):
        return None
    names = ["run", "topic", "value"]
    read = tables.view.rows.where(final())
    adrift = tables.view.rows.where(has("fact", ADRIFT)).select(*names).distinct()
    met = read.join(F.broadcast(adrift), names, "left_semi").groupBy(*names)
    tables.keep("adrift", met.agg(F.min("offset").alias("there")))
    return tables.kept("adrift")


def _limits(tables: "Tables") -> pa.Table:
    """How far the final read came, in ``LIMIT``."""
    rows: list[dict[str, Any]] = [
        {
            "run": each.run,
            "topic": each.topic,
            "partition": each.partition,
            "reach": each.last,
            "complete": each.complete,
        }
        for each in tables.books
        if each.partition is not None
    ]
    for case in tables.cases:
        topic = case.plan.topic
        done = sum(row["run"] == case.key and row["complete"] for row in rows)
        rows.append({"run": case.key, "topic": topic.name, "complete": done >= topic.partitions})
    return pa.Table.from_pylist(rows, LIMIT)
