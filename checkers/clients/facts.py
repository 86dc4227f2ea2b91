"""What one row of a history says, as bits; those of a record are or-ed together."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from harness.history import (
    ASSIGN,
    FAIL,
    INFO,
    OK,
    READ,
    READ_UNCOMMITTED,
    REBALANCE,
    SEEK,
    SEND,
    SUBSCRIBE,
)

SENT_OK: Final = 1
SENT_INFO: Final = 2
SENT_FAIL: Final = 4
"""A send, by its outcome."""

READ_OK: Final = 8
READ_OTHER: Final = 16
PEEK_OK: Final = 32
PEEK_OTHER: Final = 64
"""A read; a peek is one under ``read_uncommitted``, which proves nothing about what is committed.
OTHER were made in operations that failed or whose end nobody knows."""

BLIND: Final = 128
ADRIFT: Final = 4096
"""BLIND with a send that was acknowledged, or a read, without an offset (Jepsen's histories have
some); ADRIFT with a send to a partition that the client was never told."""

ASSIGNED: Final = 256
SOUGHT: Final = 512
REBALANCED: Final = 1024
EVERYWHERE: Final = 2048
MOVES: Final = ASSIGNED | SOUGHT | REBALANCED
"""What moved a reader (``assign`` and ``subscribe`` do the same); EVERYWHERE with it: in all its
partitions. What failed moved nobody, and says nothing."""

SENT: Final = SENT_OK | SENT_INFO | SENT_FAIL
READ_BY_ANY: Final = READ_OK | READ_OTHER
PEEK: Final = PEEK_OK | PEEK_OTHER
SEEN: Final = READ_BY_ANY | PEEK
SEEN_OK: Final = READ_OK | PEEK_OK
STRAY: Final = SENT_INFO | SENT_FAIL | BLIND
"""Rows that do not know for themselves where, or whether, their record stands."""


def has(facts: str, bits: int) -> Column:
    """Whether any of these bits is among the facts."""
    return F.col(facts).bitwiseAND(F.lit(bits)) != 0


def fact() -> Column:
    """What a row of ``harness.history.OPERATIONS`` says."""
    kind, outcome = F.col("kind"), F.col("outcome")
    good = outcome == OK
    blind = F.when(F.col("offset").isNull(), BLIND).otherwise(0)
    sent = (
        F.when(good, blind.bitwiseOR(SENT_OK))
        .when(outcome == INFO, SENT_INFO)
        .when(outcome == FAIL, SENT_FAIL)
    )
    peek = F.col("isolation").eqNullSafe(READ_UNCOMMITTED)
    read = F.when(peek, F.when(good, PEEK_OK).otherwise(PEEK_OTHER)).otherwise(
        F.when(good, READ_OK).otherwise(READ_OTHER)
    )
    moved = (
        F.when(kind.isin(ASSIGN, SUBSCRIBE), ASSIGNED)
        .when(kind == SEEK, SOUGHT)
        .when(kind == REBALANCE, REBALANCED)
        .otherwise(0)
    )
    where = F.when(F.col("partition").isNull(), EVERYWHERE).otherwise(0)
    move = F.when((outcome == FAIL) | (moved == 0), 0).otherwise(moved.bitwiseOR(where))
    adrift = F.when(F.col("partition").isNull(), ADRIFT).otherwise(0)
    return (
        F.when(kind == SEND, sent.bitwiseOR(adrift))
        .when(kind == READ, read.bitwiseOR(blind))
        .otherwise(move)
    )
