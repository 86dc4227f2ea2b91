"""Fetches a few rows of a history by what the numbers say: its record, its place, its client.

Spark would scan the whole history, hash it and join it; a task that reads a file itself, and keeps
only what is asked for, needs a third of that.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import types as T  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.clients.numbers import Numbers, Part, Rows, tables
from harness.history import OPERATIONS

RECORD: Final = ("key",)
PLACE: Final = ("slot", "offset")
ROW: Final = ("at", "client")
"""By what rows are picked. Rows are counted within a run, which its clients tell from others."""

_ROWS: Final = pa.schema(
    [
        *(
            (one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type)
            for one in OPERATIONS
        ),
        ("run", pa.string()),
        ("at", pa.int64()),
    ]
)
ROWS: Final[T.StructType] = from_arrow_schema(_ROWS)
"""What is left of them: their words as such, and which rows they were."""

HELD_ROWS: Final = 50_000
"""So many rows of an Arrow file are looked at together."""

_KEPT: Final = ("some.npy", "ends.npy")
_LEAST_BITS, _MOST_BITS, _SPARE = 16, 26, 16
_MIX: Final = np.int64(-7046029254386353131)


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Which rows somebody will ask for.

    Attributes:
        by: RECORD, PLACE or ROW.
        rows: gives numbers in these columns, in any order.
        columns: of ``ROWS``, that are asked for.
        facts: only rows of which one of these is true (``checkers.clients.facts``); None: all.
    """

    by: Sequence[str]
    rows: Callable[[], pa.Table]
    columns: Sequence[str] = tuple(_ROWS.names)
    facts: int | None = None


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers in order, once each.

    numpy's own ``unique`` hashes them first: six million that differ take it 6.4 s, and this 0.4.
    """
    ordered = np.sort(numbers)
    fresh = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]


@dataclass(frozen=True, slots=True)
class Request:
    """Which rows are to be fetched, and where to leave them.

    Attributes:
        by, columns, facts: see ``Want``.
        asked: the folder in which ``of`` left it, for every task to look into.
        folder: of the rows.
        held: whether they are to be read as they lie, as Arrow files, with their number in a column
            ``one``; else they are Parquet, for Spark.
    """

    by: tuple[str, ...]
    asked: Path
    folder: Path
    columns: tuple[str, ...]
    facts: int | None
    held: bool

    @classmethod
    def of(cls, want: Want, folder: Path, *, held: bool) -> "Request":
        """Have the folder made, and in it one of what is wanted."""
        rows, asked = want.rows(), folder / "_asked"
        Among(distinct(one({name: rows[name].to_numpy() for name in want.by}))).keep(asked)
        return cls(tuple(want.by), asked, folder, tuple(want.columns), want.facts, held)

    @property
    def wants_any(self) -> bool:
        """Whether any row is asked for."""
        return len(Among.kept(self.asked)) > 0


class Among:
    """Which numbers are among some.

    Most are not, and end otherwise than any of those: looking that up takes a fifth of the search,
    if few of all ends are those of any (100 million rows and 6 million asked for: 22 bits would be
    the ends of three rows in four).

    Args:
        some: in order.
        ends: which ends are those of any; None: that is worked out.
    """

    def __init__(self, some: NDArray[np.int64], ends: NDArray[np.bool_] | None = None) -> None:
        self._some = some
        if ends is None:
            bits = max(_LEAST_BITS, min((_SPARE * len(some)).bit_length(), _MOST_BITS))
            ends = np.zeros(1 << bits, np.bool_)
            ends[some & ((1 << bits) - 1)] = True
        self._ends = ends

    @classmethod
    def kept(cls, path: Path) -> "Among":
        """The same as was kept, read as far as it is looked at."""
        return cls(*(np.load(path / name, mmap_mode="r").view(np.ndarray) for name in _KEPT))

    def keep(self, path: Path) -> None:
        """Leave it in a folder for many tasks, which need not work it out each for itself."""
        path.mkdir(parents=True, exist_ok=True)
        for name, array in zip(_KEPT, (self._some, self._ends), strict=True):
            np.save(path / name, array)

    def __len__(self) -> int:
        """How many they are."""
        return len(self._some)

    def __call__(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each is one of them."""
        found = np.zeros(len(numbers), np.bool_)
        if len(self._some):
            maybe = np.flatnonzero(self._ends[numbers & (len(self._ends) - 1)])
            place = np.searchsorted(self._some, numbers[maybe])
            place = np.minimum(place, len(self._some) - 1)
            found[maybe] = self._some[place] == numbers[maybe]
        return found


class Picking:
    """A task of Spark's: the rows of some parts of a history that are asked for, in one pass."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = tuple(requests)

    def __call__(self, number: int, task: Sequence[Part]) -> None:
        """Pick from what one task reads, whose number its files bear."""
        with ExitStack() as stack:
            files = [stack.enter_context(_Leaving(one, number)) for one in self._requests]
            for part in task:
                for table in tables(part, OPERATIONS.names):
                    rows = Rows(table)
                    for file in files:
                        file.pick(table, rows)


class _Leaving(AbstractContextManager["_Leaving"]):
    """The rows of one request, in a file that is there once there is any."""

    def __init__(self, request: Request, number: int) -> None:
        self._request = request
        self._number = number
        self._among = Among.kept(request.asked)
        self._files = ExitStack()
        self._writer: Any = None

    def pick(self, table: pa.Table, rows: Rows) -> None:
        """Leave those of some rows that are asked for."""
        numbers = one(rows.columns(self._request.by))
        asked = self._among(numbers)
        if self._request.facts is not None and asked.any():
            at = np.flatnonzero(asked)
            facts = Rows(table.take(pa.array(at))).fact
            asked[at] = (facts & np.int32(self._request.facts)) != 0
        if not asked.any():
            return
        schema = pa.schema([_ROWS.field(name) for name in self._request.columns])
        picked = table.select(schema.names).filter(pa.array(asked)).cast(schema)
        if self._request.held:
            picked = picked.append_column("one", pa.array(numbers[asked]))
            self._open(picked.schema).write_table(picked, HELD_ROWS)
        else:
            self._open(picked.schema).write_table(picked)

    def _open(self, schema: pa.Schema) -> Any:  # noqa: ANN401 - a writer of Arrow or of Parquet
        if self._writer is None:
            path = self._request.folder / str(self._number)
            self._writer = self._files.enter_context(
                pa.ipc.new_file(path.with_suffix(".arrow"), schema)
                if self._request.held
                else pq.ParquetWriter(path.with_suffix(".parquet"), schema, compression="lz4")
            )
        return self._writer

    def __exit__(self, *error: object) -> None:
        self._files.close()


class Held:
    """Rows that ``Picking`` left to be looked into.

    Args:
        folders: of a request each.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        paths = [path for folder in folders for path in sorted(folder.glob("*.arrow"))]
        files = [pa.ipc.open_file(pa.memory_map(str(path))) for path in paths]
        self._batches = [(file, nth) for file in files for nth in range(file.num_record_batches)]
        self._ranges: dict[str, list[tuple[int, int]]] = {}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All of them, a batch at a time."""
        for file, nth in self._batches:
            yield file.get_batch(nth)

    def between(self, column: str, low: int, high: int) -> Iterator[pa.RecordBatch]:
        """Batches in which there may be rows that have one of these numbers in a column.

        Whoever asks in the order of the history is given few.
        """
        for (least, most), (file, nth) in zip(self._in(column), self._batches, strict=True):
            if least <= high and most >= low:
                yield file.get_batch(nth)

    def _in(self, column: str) -> list[tuple[int, int]]:
        """The least and the greatest number of each batch; none are null."""
        if column not in self._ranges:
            told = (pc.min_max(batch[column]).as_py() for batch in self)
            self._ranges[column] = [(each["min"], each["max"]) for each in told]
        return self._ranges[column]


def one(rows: Numbers) -> NDArray[np.int64]:
    """One number for several, by which a row that is not asked for is picked once in 2 ** 64."""
    first, *others = rows.values()
    number: NDArray[Any] = first
    for more in others:
        number = number * _MIX + more
    return number
