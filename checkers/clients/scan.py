"""Two passes of Spark's tasks over a history: its rows in order, and then record by record.

The first reads the history, shortens its rows to strides and deals them out to buckets by record;
the second sums each bucket up. Both run compiled code over whole columns and leave Parquet files in
a folder that all tasks share; Spark is told what to do where, and moves no row. (10 million
operations by Spark's own grouping: 38 CPU seconds for records and strides.)
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers import frames
from checkers.clients import tally
from checkers.clients.facts import SEEN, SENT
from checkers.clients.numbers import FEW_ROWS, Bools, Numbers, Part, Rows, Source, numbered, parts
from checkers.clients.picks import ROWS, Picking, Request, Want
from checkers.clients.strides import SCHEMA, strides
from checkers.clients.tally import PIECE, RECORD, SLOT
from checkers.leaves import for_spark

SIDES: Final = pa.schema([("client", pa.int64()), ("sends", pa.bool_()), ("reads", pa.bool_())])
NAMES: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("slot", "history")),
        *((name, pa.string()) for name in ("run", "topic")),
        ("partition", pa.int32()),
    ]
)
_MET: Final = pa.schema([*NAMES, *((name, pa.int64()) for name in ("rows", "dealt"))])
"""A slot that a task met, how many rows of it there were, and how many it dealt out."""

_BUCKET_ROWS: Final = 1_000_000
_BUCKETS_MAX: Final = 256


class Scan:
    """What two passes over a history found.

    Args:
        spark: the session; its tasks must reach the folder and the sources by their paths.
        sources: the history.
        folder: an empty one, which outlives the use of the frames.
        final_read: whether there was a final reader, who should have met all that was acknowledged.
    """

    def __init__(
        self, spark: SparkSession, sources: Sequence[Source], folder: Path, *, final_read: bool
    ) -> None:
        self._spark = spark
        self._sources = tuple(sources)
        self._folder = folder
        self._told: dict[int, bool] = {}
        ignored = () if final_read else tally.OF_FINAL_READS
        self._asked = tally.bits(*(name for name in tally.DOUBTS if name not in ignored))

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self._parts[1]

    @cached_property
    def strides(self) -> DataFrame:
        """All rows in their order, shortened; see ``checkers.clients.strides``."""
        return self._frame(self.stretched, SCHEMA)

    @property
    def stretched(self) -> Path:
        """The folder of files with ``strides``."""
        return self._scanned / "strides"

    def tells(self, facts: int) -> bool:
        """Whether there are strides that are rows with one of these facts, of those passed on."""
        if facts not in self._told:
            found = ds.dataset(self.stretched, schema=SCHEMA, format="parquet")
            what = pc.bit_wise_and(ds.field("what"), pa.scalar(facts, pa.int32()))
            self._told[facts] = bool(found.count_rows(filter=what != 0))
        return self._told[facts]

    @cached_property
    def sides(self) -> pa.Table:
        """``client, sends, reads``: who ever sent, and who read. Several rows a client."""
        return _read(self._scanned / "sides", SIDES)

    @cached_property
    def names(self) -> pa.Table:
        """``slot, history, run, topic, partition``: what the numbers of slots stand for."""
        found = self._met.select(NAMES.names)
        first = found.append_column("row", pa.array(np.arange(len(found))))
        return found.take(first.group_by("slot").aggregate([("row", "min")])["row_min"])

    @property
    def judged(self) -> dict[str, int]:
        """Run to how many of its rows were looked at, those of records by both passes."""
        met = self._met.group_by(["run", "slot"]).aggregate([("rows", "sum"), ("dealt", "sum")])
        both = met.join(self.slots.select(["slot", "rows"]), "slot", join_type="left outer")
        found = Counter[str]()
        for row in both.to_pylist():
            found[row["run"]] += row["rows_sum"] - row["dealt_sum"] + (row["rows"] or 0)
        return dict(found)

    @cached_property
    def _met(self) -> pa.Table:
        return _read(self._scanned / "names", _MET)

    @cached_property
    def slots(self) -> pa.Table:
        """Sums over the records of each slot, in ``tally.SLOT``."""
        found = _read(self._tallied / "slots", SLOT)
        how = {"bound": "max", "reach": "max", "complete": "any"}
        asked = [(name, how.get(name, "sum")) for name in SLOT.names[1:]]
        summed = found.group_by("slot").aggregate(asked)
        return summed.rename_columns(["slot", *SLOT.names[1:]]).cast(SLOT)

    @cached_property
    def doubtful(self) -> DataFrame:
        """The records about which there is any doubt, in ``tally.RECORD``."""
        return self._frame(self.doubts, RECORD)

    @property
    def doubts(self) -> Path:
        """The folder of files with ``doubtful``."""
        return self._tallied / "doubtful"

    @property
    def left(self) -> int:
        """How many rows there are in ``doubtful`` and in ``strides``."""
        kept = ((self.doubts, RECORD), (self.stretched, SCHEMA))
        found = (ds.dataset(folder, schema, format="parquet") for folder, schema in kept)
        return sum(int(each.count_rows()) for each in found)

    def keys(self, *doubts: str) -> pa.Table:
        """``key`` of the records about which there is one of these doubts."""
        found = _read(self.doubts, RECORD, ["key", "doubts"])
        asked = (found["doubts"].to_numpy() & tally.bits(*doubts)) != 0
        return found.select(["key"]).filter(pa.array(asked))

    @cached_property
    def records(self) -> DataFrame:
        """All records, in ``tally.RECORD``."""
        return self._frame(self._tally("records", None) / "records", RECORD)

    def rows(self, name: str, want: Want) -> DataFrame:
        """The rows of the history that are wanted, as ``picks`` fetches them.

        Args:
            name: by which they are kept.
            want: their numbers.
        """
        request = Request.of(want, self._folder / "rows" / name, held=False)
        self.each(self._parts[0], Picking([request]))
        return frames.read(self._spark, request.folder, ROWS)

    def hold(self, wants: Mapping[str, Want]) -> None:
        """Have rows fetched in one pass, each to a folder that ``held`` names."""
        requests = [Request.of(want, self.held(name), held=True) for name, want in wants.items()]
        if asked := [request for request in requests if request.wants_any]:
            self.each(self._parts[0], Picking(asked))

    def held(self, name: str) -> Path:
        """The folder of rows that tasks may look into; see ``picks.Held``."""
        return self._folder / "held" / name

    def each(self, tasks: Sequence[Any], do: Callable[[int, Any], None]) -> None:
        """Have Spark's tasks do something with each of some things and its number.

        One task is done here: nothing runs beside it, and a job of Spark's takes longer to begin.
        """
        if len(tasks) <= 1:
            for number, one in enumerate(tasks):
                do(number, one)
            return
        context = self._spark.sparkContext
        context.parallelize(list(enumerate(tasks)), len(tasks)).foreach(lambda one: do(*one))

    @cached_property
    def _parts(self) -> tuple[list[list[Part]], int]:
        """What each task reads, and how many rows there are."""
        return parts(self._sources, self._spark.sparkContext.defaultParallelism)

    @cached_property
    def _buckets(self) -> int:
        cores, rows = self._spark.sparkContext.defaultParallelism, self.size
        return min(max(-(-rows // _BUCKET_ROWS), min(cores, rows // FEW_ROWS + 1)), _BUCKETS_MAX)

    @cached_property
    def _scanned(self) -> Path:
        """Where the first pass left its files, when it has."""
        for name in ("strides", "sides", "names", "pieces"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)  # it may have failed before
        self.each(self._parts[0], _Scanning(self._folder, self._buckets))
        return self._folder

    @cached_property
    def _tallied(self) -> Path:
        """Where the second pass left its files, when it has."""
        return self._tally("doubtful", self._asked)

    def _tally(self, name: str, asked: int | None) -> Path:
        for folder in (name, "slots"):
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
        slots = self.names["slot"].to_numpy()
        order = np.argsort(slots)
        histories = slots[order], self.names["history"].to_numpy()[order]
        task = _Tallying(self._folder, name, histories, asked)
        self.each(list(range(self._buckets)), task)
        return self._folder

    def _frame(self, folder: Path, schema: pa.Schema) -> DataFrame:
        return frames.read(self._spark, folder, from_arrow_schema(schema))


class _Scanning:
    """The first pass: what one task reads."""

    def __init__(self, folder: Path, buckets: int) -> None:
        self._folder = folder
        self._buckets = buckets

    def __call__(self, number: int, task: Sequence[Part]) -> None:
        found: dict[str, list[pa.Table]] = {"strides": [], "sides": [], "names": []}
        with contextlib.ExitStack() as stack:
            pieces: dict[int, pa.RecordBatchFileWriter] = {}
            for rows in (each for part in task for each in numbered(part)):
                found["strides"] += map(_as_table, strides(rows))
                of_records = (rows.fact & (SENT | SEEN)) != 0
                found["names"].append(_counted(rows, of_records))
                told = rows.columns(("client", *PIECE.names), of_records)
                found["sides"].append(_sides(told))
                for bucket, piece in self._dealt(told):
                    if bucket not in pieces:
                        path = self._folder / "pieces" / str(bucket) / f"{number}.arrow"
                        path.parent.mkdir(exist_ok=True)
                        pieces[bucket] = stack.enter_context(pa.ipc.new_file(path, PIECE))
                    pieces[bucket].write_batch(piece)
        for name, tables in found.items():
            if tables:
                _write(pa.concat_tables(tables), self._folder / name, number)

    def _dealt(self, rows: Numbers) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows by the bucket of their record."""
        bucket = (rows["key"].view(np.uint64) % np.uint64(self._buckets)).astype(np.int16)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self._buckets))
        arrays = [pa.array(rows[name][order]) for name in PIECE.names]
        whole = pa.record_batch(arrays, schema=PIECE)
        for number, (start, end) in enumerate(zip((0, *ends), ends, strict=False)):
            if end > start:
                yield number, whole.slice(start, end - start)


class _Tallying:
    """The second pass: a bucket. ``asked`` has the doubts whose records are kept; None: all are."""

    def __init__(
        self,
        folder: Path,
        name: str,
        histories: tuple[NDArray[Any], NDArray[Any]],
        asked: int | None,
    ) -> None:
        self._folder = folder
        self._name = name
        self._histories = histories
        self._asked = asked

    def __call__(self, number: int, bucket: int) -> None:
        folder = self._folder / "pieces" / str(bucket)
        if not folder.is_dir():
            return
        pieces = [
            pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in folder.iterdir()
        ]
        record = tally.records(tally.joined(pieces), self._histories)
        doubts = record["doubts"]
        asked = np.ones(len(doubts), np.bool_)
        if self._asked is not None:
            asked = (doubts & np.int32(self._asked)) != 0
        _write(tally.slots(record), self._folder / "slots", number)
        if asked.any():
            _write(tally.table(record, asked), self._folder / self._name, number)


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _counted(rows: Rows, dealt: Bools) -> pa.Table:
    """The slots of rows, in ``_MET``."""
    found = rows.slots
    for name, place in (("rows", rows.place), ("dealt", rows.place[dealt])):
        found = found.append_column(name, pa.array(np.bincount(place, minlength=len(rows.slots))))
    return found.cast(_MET)


def _sides(rows: Numbers) -> pa.Table:
    client, place = np.unique(rows["client"], return_inverse=True)
    sent = (rows["fact"] & SENT) != 0
    sides = [np.bincount(place[asked], minlength=len(client)) > 0 for asked in (sent, ~sent)]
    return pa.table([client, *sides], schema=SIDES)


def _write(table: pa.Table, folder: Path, number: int) -> None:
    with for_spark(folder, number, table.schema) as writer:
        writer.write_table(table)


def _read(folder: Path, schema: pa.Schema, columns: list[str] | None = None) -> pa.Table:
    return ds.dataset(folder, schema=schema, format="parquet").to_table(columns)
