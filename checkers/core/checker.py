"""A checker: one function from the tables of all runs to the anomalies in them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from highwater.checkers.core.anomaly_kinds import Kind
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows

Find: TypeAlias = Callable[[Tables], DataFrame | Rows | pa.Table | None]
"""A function that returns anomalies in columns of ``anomaly.SCHEMA``, or None if there are none.

Instead it may return ``Rows`` in ``history.findings.FINDING``, which name the rows of the history
that show anomalies: the judge looks up the words of all of these together.
"""

Idle: TypeAlias = Callable[[Tables, RunFiles], str]
"""A function that returns why a checker has nothing to judge in a run, the end of a sentence.

Empty where it has something, or where something of the run is no evidence, which says it already.
"""


def never_idle(_tables: Tables, _case: RunFiles) -> str:
    """Return nothing: what the checker judges is there in every run."""
    return ""


def without_disks(_tables: Tables, case: RunFiles) -> str:
    """Return why a checker of replicas' disks has nothing to judge; empty where it has."""
    return "no disk was copied" if case.copyless else ""


@dataclass(frozen=True, slots=True)
class Checker:
    """A function that finds anomalies.

    Attributes:
        find: all runs' tables to their anomalies.
        kinds: of its findings, in the order of the report.
        idle: why it has nothing to judge in a run.
    """

    find: Find
    kinds: tuple[Kind, ...]
    idle: Idle = never_idle

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kinds that it finds."""
        return tuple(kind.name for kind in self.kinds)


def checker(*kinds: Kind, idle: Idle = never_idle) -> Callable[[Find], Checker]:
    """Make a function the checker of a kind, or of several that it finds in one pass."""

    def made(find: Find) -> Checker:
        return Checker(find, kinds, idle)

    return made
