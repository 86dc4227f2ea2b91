"""What the checkers found: written by Spark once for all runs, then one sorted file a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers import frames
from checkers.clients.causes import grouped
from checkers.lineage.evidence import Row
from checkers.registry import ANOMALY, SCHEMA

LISTED_MAX: Final = 100
"""Anomalies of each kind that a verdict lists; ``anomalies.parquet`` has them all."""


@dataclass(slots=True, kw_only=True)
class Found:
    """One run's anomalies: how many of each kind, and the first of each.

    Attributes:
        following: how many of each kind follow from another anomaly (their ``cause``); they are
            neither in ``counts`` nor listed.
    """

    counts: dict[str, int] = field(default_factory=dict)
    following: dict[str, int] = field(default_factory=dict)
    listed: list[Row] = field(default_factory=list)


def write(frames: Sequence[DataFrame], folder: Path) -> None:
    """Find every anomaly of every run and write it below ``folder``: the one large Spark job."""
    found = frames[0]
    for frame in frames[1:]:
        found = found.unionByName(frame)
    order = ["run", "kind", "topic", "partition", "offset", "value"]
    found.repartition("run").sortWithinPartitions(*order).write.partitionBy("run").parquet(
        str(folder), mode="append"
    )


def group(folder: Path, spark: SparkSession) -> Path:
    """Note of which anomaly another is the cause (``checkers.clients.causes``).

    Only what clients saw can follow from something: where there is no such anomaly, nothing is
    done. A duplicate in the final log follows from nothing: both records are there.

    Returns:
        Where all runs' anomalies are now.
    """
    if not any(folder.rglob("*.parquet")):
        return folder
    found = frames.read(spark, folder, ANOMALY)
    plain = ds.dataset(folder, schema=SCHEMA.remove(0), format="parquet")
    if not plain.count_rows(filter=ds.field("steps").is_valid()):
        return folder
    own = F.when(F.col("kind") != "duplicate", F.col("cause"))
    target = folder.with_name(f"{folder.name}-grouped")
    write([grouped(found).withColumn("cause", own)], target)
    return target


def collect(folder: Path, key: str, name: str, target: Path) -> Found:
    """Bring one run's anomalies into its own file, and take note of the first ones.

    Args:
        folder: where ``write`` put all runs' anomalies.
        key: of the case.
        name: the run's, which its file bears.
        target: ``analysis/anomalies.parquet``.
    """
    found = Found()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    with pq.ParquetWriter(partial, SCHEMA, compression="zstd") as writer:
        for batch in _batches(folder / f"run={key}"):
            named = batch.append_column("run", pa.repeat(name, batch.num_rows)).select(SCHEMA.names)
            writer.write_batch(named.cast(SCHEMA))
            _note(found, named)
    partial.replace(target)
    return found


def _batches(folder: Path) -> Iterator[pa.RecordBatch]:
    if folder.is_dir():
        plain = SCHEMA.remove(0)
        files = [str(path) for path in sorted(folder.glob("*.parquet"))]
        yield from ds.dataset(files, schema=plain).to_batches()


def _note(found: Found, batch: pa.RecordBatch) -> None:
    follows = batch["cause"].is_valid()
    for each in pc.value_counts(batch.filter(follows)["kind"]).to_pylist():
        found.following[each["values"]] = found.following.get(each["values"], 0) + each["counts"]
    batch = batch.filter(pc.invert(follows))
    for kind in pc.unique(batch["kind"]).to_pylist():
        rows = batch.filter(pc.equal(batch["kind"], kind))
        before = found.counts.get(kind, 0)
        found.counts[kind] = before + rows.num_rows
        found.listed += rows.slice(0, max(0, LISTED_MAX - before)).to_pylist()
