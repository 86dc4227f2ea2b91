"""The registry of checkers, and the one shape that what they find has."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.engine import Rows
from checkers.kinds import Kind, add
from harness import extensions

if TYPE_CHECKING:
    from checkers.tables import Tables

_COPY: Final = pa.struct(
    [
        ("broker", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("value", pa.string()),
        ("note", pa.string()),
    ]
)

_STEP: Final = pa.struct(
    [
        ("process", pa.string()),
        ("op", pa.int64()),
        ("kind", pa.string()),
        ("outcome", pa.string()),
        ("invoke_ns", pa.int64()),
        ("complete_ns", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.string()),
    ]
)

SCHEMA: Final = pa.schema(
    [
        ("run", pa.string()),
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.string()),
        ("acks", pa.string()),  # what its producer waited for, where that matters
        ("copies", pa.list_(_COPY)),
        ("steps", pa.list_(_STEP)),
        ("delta", pa.int64()),  # places in the log's order from one step to the next; 1 is right
        ("cause", pa.string()),  # what other finding this one follows from; null: it stands alone
    ]
)
"""One row an anomaly: the columns of ``analysis/anomalies.parquet``.

``copies`` are the places where a record stands: on a broker's disk, or (no broker) where the final
read met it. ``steps`` are what clients did, in columns of ``harness.history.OPERATIONS``: the least
of them that shows the anomaly, in the order that makes it one.
"""

ANOMALY: Final[T.StructType] = from_arrow_schema(SCHEMA)
"""``SCHEMA`` as Spark has it."""

Find = Callable[["Tables"], DataFrame | Rows | pa.Table]
"""What finds anomalies, in columns of ``SCHEMA``."""


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


_MODULES: Final = (
    *("records", "divergence", "corrupt"),
    *("replicas.runs", "clients.ours"),
)
_registry: dict[str, Checker] = {}


def checker(name: str, *, guarantee: str, kind: Kind | None = None) -> Callable[[Find], Find]:
    """Register a function from tables to anomalies under the name of the anomaly that it finds.

    Args:
        name: the kind of anomaly.
        guarantee: what holds when nothing is found, a sentence.
        kind: what it is called and breaks; None: ``checkers.kinds`` says so.

    Raises:
        ValueError: there is such a kind, or a checker of that name.
    """
    if kind is not None:
        add(name, kind)
    return checkers({name: guarantee})


def checkers(guarantees: Mapping[str, str]) -> Callable[[Find], Find]:
    """Register one function that finds anomalies of several kinds in one pass over the tables."""

    def register(find: Find) -> Find:
        for name, guarantee in guarantees.items():
            if name in _registry:
                raise ValueError(f"two checkers are called {name}")
            _registry[name] = Checker(name=name, guarantee=guarantee, find=find)
        return find

    return register


def registered() -> tuple[Checker, ...]:
    """Every checker, in the order in which a report lists them: those of other packages last.

    Raises:
        HarnessError: a package that has some cannot be loaded.
    """
    for module in _MODULES:
        importlib.import_module(f"checkers.{module}")
    extensions.load(extensions.CHECKERS)
    return tuple(_registry.values())


def finders(checkers: Iterable[Checker]) -> dict[Find, tuple[str, ...]]:
    """Every function of some checkers, once, and the names of what it finds."""
    found: dict[Find, tuple[str, ...]] = {}
    for one in checkers:
        found[one.find] = (*found.get(one.find, ()), one.name)
    return found


def anomalies(found: DataFrame, kind: str | Column, **columns: Column) -> DataFrame:
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
