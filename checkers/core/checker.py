"""A checker: one function that returns the anomalies in the tables of all runs."""

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
"""A function that returns anomalies as rows of ``anomaly.SCHEMA``, or None without anomalies. Or it
returns ``Rows`` of ``history.findings.FINDING``, which refer to rows of the history. The judge then
reads the values of all these rows together."""

Idle: TypeAlias = Callable[[Tables, RunFiles], str]
"""A function that returns why a checker has nothing to judge in a run, as the end of a message.
The text is empty if the checker has something to judge. It is also empty if files of the run
cannot be used, because the verdict already names these files."""


def never_idle(_tables: Tables, _case: RunFiles) -> str:
    """Return an empty string, because every run has something for the checker to judge."""
    return ""


def without_disks(_tables: Tables, case: RunFiles) -> str:
    """Return why a checker of replicas' disks cannot judge a run; empty if the run has disks."""
    return "no disk was copied" if case.copyless else ""


@dataclass(frozen=True, slots=True)
class Checker:
    """A function that finds anomalies, and the kinds that it finds.

    Attributes:
        find: the function that finds the anomalies in all runs' tables.
        kinds: the kinds of anomaly that ``find`` finds, in the order of the report.
        idle: the function that returns why the checker has nothing to judge in a run.
    """

    find: Find
    kinds: tuple[Kind, ...]
    idle: Idle = never_idle

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kinds that the checker finds."""
        return tuple(kind.name for kind in self.kinds)


def checker(*kinds: Kind, idle: Idle = never_idle) -> Callable[[Find], Checker]:
    """Decorate a function that finds anomalies of these kinds in one pass."""

    def made(find: Find) -> Checker:
        return Checker(find, kinds, idle)

    return made
