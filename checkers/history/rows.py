"""The rows of histories as numbers, by which everything is grouped.

Histories of our runs and of others, one or ten thousand of them, are one frame of operations: the
columns of ``harness.runs.history.OPERATIONS``, ``run``, and ``at``, the number of the row within
its run. Names are long and rows are many, so rows are grouped by 64-bit hashes of them (Spark's
``xxhash64``). Two of 100 million records share a key once in 3,700 such histories.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.history.columns import schema
from highwater.checkers.history.row_flags import fact

ROW: Final = schema(
    *(
        "slot",
        "client",
        "key",
        "operation",
        "op",
        "at",
        "offset",
        "invoke_ns",
        "complete_ns",
        "fact",
    ),
    fact=pa.int32(),
)
"""A row of a history in numbers.

``slot`` is a topic's partition in a run, ``client`` a process in a run, ``key`` a record (a slot
and a value), ``operation`` a client and ``op`` (a row without ``op`` stands alone, by its own
``at``). ``client`` and ``at`` together name one row. ``fact`` has bits of
``checkers.history.row_flags``; the other columns are as recorded, and null where that is.
"""

REFERENCE: Final = ("client", "at")
"""The columns that name one row of any history. The least ``at`` of several is the first row."""

_WORDS: Final = dict.fromkeys(
    ("run", "topic", "process", "kind", "outcome", "value", "acks"), pa.string()
) | {"partition": pa.int32()}

WORDS: Final = schema(
    *(*REFERENCE, "run", "topic", "partition", "process", "kind", "outcome", "op", "invoke_ns"),
    *("complete_ns", "offset", "value", "acks"),
    **_WORDS,
)
"""The columns of a row that an anomaly repeats."""

NAMES: Final = schema("slot", "history", "run", "topic", "partition", **_WORDS)
"""The names behind the numbers of slots."""

OF_SLOT: Final = ("run", "topic", "partition")


def slot() -> Column:
    """Return the number of a partition, from the columns ``OF_SLOT``."""
    return F.xxhash64(*OF_SLOT)


def named(partitions: DataFrame) -> DataFrame:
    """Partitions, in the columns ``OF_SLOT``, as rows of ``NAMES``."""
    columns = partitions.withColumns({"slot": slot(), "history": F.xxhash64("run")})
    return columns.select(*NAMES.names)


def numbered(operations: DataFrame) -> DataFrame:
    """Operations with the columns of ``ROW`` and ``NAMES`` beside their own."""
    named = operations.withColumns(
        {
            "op": F.coalesce("op", "at"),
            "history": F.xxhash64("run"),
            "client": F.xxhash64("run", "process"),
            "slot": slot(),
            "fact": fact(),
        }
    )
    hashes = {"key": F.xxhash64("slot", "value"), "operation": F.xxhash64("client", "op")}
    return named.withColumns(hashes)
