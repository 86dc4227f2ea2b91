"""The rows of histories as numbers. Checkers group rows by these numbers.

The operations of all histories are in one DataFrame. It has the columns of
``harness.runs.history.OPERATIONS``, the column ``run``, and the column ``at``: the number of the
row within its run. The numbers are 64-bit hashes of the long names (Spark's ``xxhash64``). A
collision is unlikely: among 100 million records, two have the same hash with a probability of 1 in
3,700.
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

``slot`` stands for a topic's partition in a run, ``client`` for a process in a run, ``key`` for a
record (a slot and a value), and ``operation`` for a client and ``op``. A row without ``op`` is an
operation of its own; the operation's number is the row's ``at``. ``client`` and ``at`` together
identify one row. ``fact`` has bits of ``checkers.history.row_flags``. The other columns are copied
from the history, with their nulls."""

REFERENCE: Final = ("client", "at")
"""The columns that identify one row of any history."""

_WORDS: Final = dict.fromkeys(
    ("run", "topic", "process", "kind", "outcome", "value", "acks"), pa.string()
) | {"partition": pa.int32()}

WORDS: Final = schema(
    *(*REFERENCE, "run", "topic", "partition", "process", "kind", "outcome", "op", "invoke_ns"),
    *("complete_ns", "offset", "value", "acks"),
    **_WORDS,
)
"""The columns that rows of a history and rows of anomalies have in common."""

NAMES: Final = schema("slot", "history", "run", "topic", "partition", **_WORDS)
"""The number of a partition in a run (``slot``), with the names of its run, topic and partition."""

OF_SLOT: Final = ("run", "topic", "partition")


def slot() -> Column:
    """Return the number of a partition in a run, computed from the columns ``OF_SLOT``."""
    return F.xxhash64(*OF_SLOT)


def named(partitions: DataFrame) -> DataFrame:
    """Return partitions as rows of ``NAMES``. The input has the columns ``OF_SLOT``."""
    columns = partitions.withColumns({"slot": slot(), "history": F.xxhash64("run")})
    return columns.select(*NAMES.names)


def numbered(operations: DataFrame) -> DataFrame:
    """Return the operations with more columns: those of ``ROW`` and ``NAMES``."""
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
