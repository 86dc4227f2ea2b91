"""A checker: one function from the tables of all runs to the anomalies in them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from highwater.checkers.core.anomaly_kinds import Kind
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows

Find: TypeAlias = Callable[[Tables], DataFrame | Rows | pa.Table]
"""A function that returns anomalies, in columns of ``anomaly.SCHEMA``."""


@dataclass(frozen=True, slots=True)
class Checker:
    """A function that finds anomalies.

    Attributes:
        find: all runs' tables to their anomalies.
        kinds: of its findings, in the order of the report.
    """

    find: Find
    kinds: tuple[Kind, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kinds that it finds."""
        return tuple(kind.name for kind in self.kinds)


def checker(*kinds: Kind) -> Callable[[Find], Checker]:
    """Make a function the checker of a kind, or of several that it finds in one pass."""

    def made(find: Find) -> Checker:
        return Checker(find, kinds)

    return made
