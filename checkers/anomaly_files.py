"""Write each run's anomalies in order, and return the first anomalies of each kind.

A few anomalies become one file, ``analysis/anomalies.parquet``. If a run has too many anomalies for
this process, Spark writes a directory of files with that name, in the same order.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.anomalies.root_causes import caused, open_ends, truncated_ranges
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.lineage.evidence import Row
from highwater.checkers.spark.engine import Engine, Rows

LISTED_MAX: Final = 100
"""The greatest number of anomalies of one kind in a verdict; ``anomalies.parquet`` has all
anomalies. Anomalies with steps come first, because a checker may give steps to only some anomalies.
"""

ORDER: Final = ("run", "kind", "topic", "partition", "offset", "value")

Finds: TypeAlias = DataFrame | Rows | pa.Table
"""Anomalies, in columns of ``checkers.core.anomaly.SCHEMA``."""


@dataclass(slots=True, kw_only=True)
class AnomalyCounts:
    """One run's anomalies: the number of each kind, and the first anomalies of each kind.

    Attributes:
        counts: the number of anomalies of each kind that have no ``cause``.
        following: the number of anomalies of each kind that another anomaly caused.
        listed: the first ``LISTED_MAX`` anomalies of each kind in ``counts``. Anomalies with steps
            come first.
    """

    counts: dict[str, int] = field(default_factory=dict)
    following: dict[str, int] = field(default_factory=dict)
    listed: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place to which one run's anomalies are written.

    Attributes:
        name: the run's name, for the column ``run``.
        path: the file, ``analysis/anomalies.parquet``.
        uri: the directory into which Spark writes many anomalies; empty for ``path``.
        without: kinds of anomaly that this run cannot prove. Anomalies of these kinds are dropped.
    """

    name: str
    path: Path
    uri: str = ""
    without: frozenset[str] = frozenset()


def gather(engine: Engine, finds: Iterable[Finds]) -> Rows:
    """Return the anomalies of several checkers as one table.

    A small table is collected into this process.
    """
    there: list[DataFrame] = []
    rows = [engine.table(SCHEMA.empty_table())]
    for source in finds:
        if isinstance(source, DataFrame):
            there.append(source.select(*SCHEMA.names))
        else:
            rows.append(source if isinstance(source, Rows) else engine.table(source.cast(SCHEMA)))
    if there:
        rows.append(engine.few(reduce(DataFrame.unionByName, there), SCHEMA))
    return rows[0].union(*rows[1:]).persist()


def collect(anomalies: Rows, targets: Mapping[str, Target]) -> dict[str, AnomalyCounts]:
    """Write each run's anomalies into its own file, in order; return counts and first anomalies.

    ``cause`` names the anomaly that caused an anomaly (``checkers.anomalies.root_causes``). A
    duplicate in the final log gets no cause, because both records are in the log.

    ``targets``: the place for each run's anomalies, by the run's key.
    """
    causes = truncated_ranges(anomalies)
    ends = open_ends(anomalies)
    grouped = anomalies.map(partial(caused, causes=causes, ends=ends, alone="duplicate"), SCHEMA)
    counts: dict[str, AnomalyCounts] = {}
    for keys in _together(anomalies, targets):
        some_rows = grouped if grouped.here else grouped.only("run", *keys).persist()
        if some_rows.here:
            parts = dict(_by_run(some_rows.table()))
            for key in keys:
                counts[key] = _bring(parts.get(key, SCHEMA.empty_table()), targets[key])
        else:
            (key,) = keys
            counts[key] = _written(some_rows.frame(), targets[key])
    return counts


def _together(anomalies: Rows, targets: Mapping[str, Target]) -> Iterator[Sequence[str]]:
    """Yield groups of runs whose anomalies fit into this process.

    A run with more anomalies is a group of its own.
    """
    if anomalies.here:
        yield list(targets)
        return
    counts = {row["run"]: row["count"] for row in anomalies.counts(["run"]).to_pylist()}
    keys: list[str] = []
    for key in targets:
        if keys and sum(counts.get(other, 0) for other in (*keys, key)) > anomalies.most_here:
            yield keys
            keys = []
        keys.append(key)
    if keys:
        yield keys


def _by_run(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield each run's key and its rows in ``ORDER``: nulls first, strings in byte order."""
    order = [(name, "ascending", "at_start") for name in ORDER]
    # Columns with only one value are not sorted, because comparing their strings takes long.
    telling = [key for key in order if _varies(table[key[0]])]
    if telling:
        table = table.take(pc.sort_indices(table.select([name for name, *_ in telling]), telling))
    start = 0
    for row in pc.value_counts(table["run"]).to_pylist():
        yield row["values"], table.slice(start, row["counts"])
        start += row["counts"]


def _varies(column: pa.ChunkedArray) -> bool:
    if not len(column):
        return False
    return bool(column.null_count) or not pc.all(pc.equal(column, column[0])).as_py()


def _bring(table: pa.Table, target: Target) -> AnomalyCounts:
    if target.without:
        dropped = pc.is_in(table["kind"], pa.array(sorted(target.without)))
        table = table.filter(pc.invert(dropped))
    partial_path = _partial(target.path)
    run = pa.repeat(target.name, len(table))
    # Most values are different, so a dictionary would make the file larger and slower to write.
    named = table.set_column(0, SCHEMA.field("run"), run)
    pq.write_table(named, partial_path, compression="zstd", use_dictionary=False)
    _replace(partial_path, target.path)
    follows = table["cause"].is_valid()
    leading = table.filter(pc.invert(follows))
    counts = AnomalyCounts(counts=_counts(leading), following=_counts(table.filter(follows)))
    for kind in counts.counts:
        rows = leading.filter(pc.equal(leading["kind"], kind))
        explained = pc.fill_null(pc.greater(pc.list_value_length(rows["steps"]), 0), False)
        chosen = pc.sort_indices(pc.invert(explained).cast(pa.int8())).slice(0, LISTED_MAX)
        counts.listed += rows.take(pc.array_take(chosen, pc.sort_indices(chosen))).to_pylist()
    return counts


def _counts(table: pa.Table) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in pc.value_counts(table["kind"]).to_pylist()}


def _written(frame: DataFrame, target: Target) -> AnomalyCounts:
    written = frame.where(~F.col("kind").isin(*target.without)) if target.without else frame
    named = written.withColumn("run", F.lit(target.name)).orderBy(*ORDER)
    partial_path = _partial(target.path)
    where = target.uri or str(partial_path)
    named.write.option("compression", "zstd").parquet(where, mode="overwrite")
    if not target.uri:
        _replace(partial_path, target.path)
    counted = written.groupBy("kind", F.col("cause").isNotNull().alias("follows")).count().collect()
    counts, following = Counter[str](), Counter[str]()
    for row in counted:
        (following if row["follows"] else counts)[row["kind"]] += row["count"]
    explained = F.coalesce(F.size("steps"), F.lit(0)) > 0
    order = Window.partitionBy("kind").orderBy(explained.desc(), *ORDER)
    first = written.where(F.col("cause").isNull()).withColumn("rank", F.row_number().over(order))
    listed = first.where(F.col("rank") <= LISTED_MAX).orderBy(*ORDER).drop("rank")
    rows = [row.asDict(recursive=True) for row in listed.collect()]
    return AnomalyCounts(
        counts=dict(sorted(counts.items())), following=dict(following), listed=rows
    )


def _partial(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".partial")
    _remove(unfinished)
    return unfinished


def _replace(partial_path: Path, path: Path) -> None:
    if path.is_dir() or partial_path.is_dir():
        _remove(path)
    partial_path.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
