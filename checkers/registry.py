"""The registry of checkers, and the one shape that what they find has."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql import types as T  # noqa: N812

if TYPE_CHECKING:
    from checkers.tables import Tables

COPY: Final = T.StructType(
    [
        T.StructField("broker", T.IntegerType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("leader_epoch", T.IntegerType()),
        T.StructField("value", T.StringType()),
        T.StructField("note", T.StringType()),
    ]
)
"""A place where a record stands: on a broker's disk, or (no broker) where the final read met it."""

ANOMALY: Final = T.StructType(
    [
        T.StructField("run", T.StringType()),
        T.StructField("kind", T.StringType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("value", T.StringType()),
        T.StructField("acks", T.StringType()),  # what its producer waited for, where that matters
        T.StructField("copies", T.ArrayType(COPY)),
    ]
)
"""One row an anomaly."""

Find = Callable[["Tables"], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """One guarantee, and how to find what violates it.

    Attributes:
        name: the kind of anomaly, such as ``lost-write``.
        guarantee: what holds when nothing is found, a sentence.
        find: all runs' tables to their anomalies, in columns of ``ANOMALY``.
    """

    name: str
    guarantee: str
    find: Find


_MODULES: Final = ("lost", "unseen", "divergence", "duplicate", "corrupt")
_registry: dict[str, Checker] = {}


def checker(name: str, *, guarantee: str) -> Callable[[Find], Find]:
    """Register a function from tables to anomalies under the name of the anomaly that it finds."""

    def register(find: Find) -> Find:
        if name in _registry:
            raise ValueError(f"two checkers are called {name}")
        _registry[name] = Checker(name=name, guarantee=guarantee, find=find)
        return find

    return register


def registered() -> tuple[Checker, ...]:
    """Every checker, in the order in which a report lists them."""
    for module in _MODULES:
        importlib.import_module(f"checkers.{module}")
    return tuple(_registry.values())


def anomalies(found: DataFrame, kind: str, **columns: Column) -> DataFrame:
    """Rows as anomalies of one kind: ``columns`` by name, then ``found``'s own, then null."""
    given = {"kind": F.lit(kind), **columns}
    return found.select(
        *(
            given.get(field.name, F.col(field.name) if field.name in found.columns else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in ANOMALY
        )
    )
