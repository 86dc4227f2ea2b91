"""What the checkers found: written by Spark for all runs together, then one sorted file a run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from checkers import frames
from checkers.anomaly import SCHEMA
from checkers.clients.causes import Causes, stretches, with_cause
from checkers.leaves import dataset, leaves
from checkers.lineage.evidence import Row
from checkers.ordering import in_order

LISTED_MAX: Final = 100
"""Anomalies of each kind that a verdict lists; ``anomalies.parquet`` has them all."""


ORDER: Final = ("run", "kind", "topic", "partition", "offset", "value")


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


def write(finds: Sequence[DataFrame | Path], folder: Path) -> None:
    """Find every anomaly of every run and have it below ``folder``, in any order.

    Files that tasks have written already are linked there: for Spark to read and write 250,000
    anomalies with their steps again took 3 CPU seconds.
    """
    if told := [one for one in finds if isinstance(one, DataFrame)]:
        frames.save(reduce(DataFrame.unionByName, told), folder, mode="append")
    folder.mkdir(exist_ok=True)
    for one in finds:
        if isinstance(one, Path):
            for file in leaves(one):
                (folder / f"{one.name}-{file.name}").symlink_to(file.resolve())


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one run's anomalies go.

    Attributes:
        name: the run's, which its rows bear.
        path: the file, ``analysis/anomalies.parquet``.
        without: kinds of anomaly that this run cannot show; they are dropped.
    """

    name: str
    path: Path
    without: frozenset[str] = frozenset()


def collect(folder: Path, targets: Mapping[str, Target], scratch: Path) -> dict[str, Found]:
    """Bring each run's anomalies into its own file, in order, and take note of the first ones.

    Each is told of which other it is a consequence (``checkers.clients.causes``). A duplicate in
    the final log follows from nothing: both records are there.

    Args:
        folder: where ``write`` put all runs' anomalies.
        targets: where each case's go, by its key.
        scratch: an empty folder.
    """
    found = {key: Found() for key in targets}
    source = dataset([folder], SCHEMA)
    causes = stretches(source)
    tables = in_order(source, ORDER, scratch)
    each = (part for table in tables for part in _by_run(table))
    for key, parts in groupby(each, key=itemgetter(0)):
        _bring(found[key], (_caused(part, causes) for _, part in parts), targets[key])
    for key, target in targets.items():
        if not (found[key].counts or found[key].following):
            _bring(found[key], (), target)
    return found


def _bring(found: Found, parts: Iterable[pa.RecordBatch], target: Target) -> None:
    target.path.parent.mkdir(parents=True, exist_ok=True)
    partial = target.path.with_suffix(".partial")
    without = pa.array(sorted(target.without), pa.string())
    # Numbers that differ fill dictionaries up in vain: two bytes of three, a third of the time.
    with pq.ParquetWriter(partial, SCHEMA, compression="zstd", use_dictionary=False) as writer:
        for part in parts:
            batch = part
            if target.without:
                batch = part.filter(pc.invert(pc.is_in(part["kind"], without)))
            run = pa.repeat(target.name, batch.num_rows)
            writer.write_batch(batch.set_column(0, "run", run).cast(SCHEMA))
            _note(found, batch)
    partial.replace(target.path)


def _by_run(table: pa.Table) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each run, whose key stands first."""
    for batch in table.to_batches():
        runs = pc.run_end_encode(batch["run"])
        start = 0
        for key, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield key, batch.slice(start, end - start)
            start = end


def _caused(batch: pa.RecordBatch, causes: Causes) -> pa.RecordBatch:
    own = pc.if_else(pc.equal(batch["kind"], "duplicate"), batch["cause"], causes.of(batch))
    return with_cause(batch, own)


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
