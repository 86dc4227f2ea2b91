"""A history's Parquet files as columns of numbers, read by the tasks that need them.

Spark's own scan is fast, but handing its rows to Python costs four times as much as the scan (10
million operations: 2.7 CPU seconds to scan, and 9.9 when six columns go to Python); a task that
reads the file itself needs 1.2.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from checkers.clients.facts import KINDS, OUTCOMES, SAYINGS
from checkers.clients.hashes import SEED, Hashes, extended
from harness.history import FENCE, FINAL, OPERATIONS, READ_UNCOMMITTED

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = dict[str, NDArray[Any]]

NONE: Final = np.iinfo(np.int64).min
"""Stands for null in a column of numbers."""

ROWS: Final = 500_000
"""So many are read and looked at at once: the more, the fewer strides are cut in two."""

FEW_ROWS: Final = 50_000
"""So few are not worth a second task."""

_TASK_ROWS: Final = 2_000_000
_WORDS: Final = ("process", "kind", "phase", "outcome", "isolation", "topic")
_COLUMNS: Final = (
    *_WORDS,
    *("partition", "offset", "value", "op", "invoke_ns", "complete_ns"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A Parquet file of operations.

    Attributes:
        path: good wherever Spark's tasks run.
        run: whose they are; None: the file has columns ``run`` and ``at`` of its own.
    """

    path: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a source, and the number of the first of their rows."""

    source: Source
    groups: tuple[int, ...]
    at: int


def parts(sources: Sequence[Source], cores: int) -> tuple[list[list[Part]], int]:
    """What each task reads, and how many rows there are in all.

    Tasks are about equal, of ``FEW_ROWS`` or more, and at most ``_TASK_ROWS`` if row groups are not
    larger; small files are read together.

    Raises:
        OSError, pyarrow.ArrowException: a file cannot be read.
    """
    groups: list[tuple[Source, int, int, int]] = []
    for source in sources:
        metadata = pq.read_metadata(source.path)
        at = 0
        for group in range(metadata.num_row_groups):
            size = metadata.row_group(group).num_rows
            groups.append((source, group, at, size))
            at += size
    rows = sum(size for *_, size in groups)
    share = min(max(-(-rows // cores), FEW_ROWS), _TASK_ROWS)
    tasks: list[list[Part]] = [[]]
    taken = 0
    for source, group, at, size in groups:
        if taken and taken + size // 2 > share:
            tasks.append([])
            taken = 0
        last = tasks[-1][-1] if tasks[-1] else None
        if last and last.source is source:
            tasks[-1][-1] = Part(source, (*last.groups, group), last.at)
        else:
            tasks[-1].append(Part(source, (group,), at))
        taken += size
    return [task for task in tasks if task], rows


def tables(part: Part, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a part in order, ``ROWS`` at a time, with ``run`` and ``at``.

    Words are dictionaries; a column that an older run lacks is null.
    """
    path = part.source.path
    metadata = pq.read_metadata(path)
    own = ("run", "at") if part.source.run is None else ()
    asked = [name for name in (*columns, *own) if name in metadata.schema.names]
    words = [name for name in asked if name in (*_WORDS, "run")]
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=words) as file:
        gathered: list[pa.RecordBatch] = []
        at = part.at
        batches = file.iter_batches(ROWS, list(part.groups), asked, use_threads=False)
        for batch in batches:
            if gathered and sum(map(len, gathered)) + len(batch) > ROWS:
                table = _complete(gathered, part.source, columns, at)
                at += len(table)
                yield table
                gathered = []
            gathered.append(batch)
        if gathered:
            yield _complete(gathered, part.source, columns, at)


def _complete(
    batches: Sequence[pa.RecordBatch], source: Source, columns: Sequence[str], at: int
) -> pa.Table:
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    for name in columns:
        if name not in table.column_names:
            kind = OPERATIONS.field(name).type
            nothing = _word(None, len(table)) if name in _WORDS else pa.nulls(len(table), kind)
            table = table.append_column(name, nothing)
    if source.run is not None:
        table = table.append_column("run", _word(source.run, len(table)))
        table = table.append_column("at", pa.array(np.arange(at, at + len(table))))
    return table


def _word(word: str | None, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32), mask=np.full(rows, word is None)),
        pa.array([word or ""]),
    )


def numbered(part: Part) -> Iterator["Rows"]:
    """The rows of a part as numbers, ``ROWS`` at a time."""
    for table in tables(part, _COLUMNS):
        yield Rows(table)


class Rows:
    """Rows that ``tables`` gave, as columns of numbers, each made when it is first asked for.

    Hashes are those of ``checkers.clients.view.View.rows``.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def columns(self, names: Iterable[str], asked: Bools | None = None) -> Numbers:
        """Some columns, of all rows or of some."""
        found = {name: getattr(self, name) for name in names}
        if asked is None or asked.all():
            return found
        return {name: column[asked] for name, column in found.items()}

    @cached_property
    def slots(self) -> pa.Table:
        """``slot, history, run, topic, partition``: what the numbers of slots stand for."""
        first = pa.array(self._places[1])
        names = [self._run.at(first), self._topic.at(first), self._partition.take(first)]
        history = extended(SEED, names[0])
        slot = extended(extended(history, names[1]), names[2])
        columns = [pa.array(slot), pa.array(history), *names]
        return pa.table(columns, names=["slot", "history", "run", "topic", "partition"])

    @cached_property
    def at(self) -> Ints:
        """The number of each row in its run."""
        at: Ints = self._table["at"].to_numpy()
        return at

    @cached_property
    def op(self) -> Ints:
        """The number of each row's operation; a row that has none stands alone, by its own."""
        op = self._table["op"]
        number: Ints = np.where(op.is_null().to_numpy(), self.at, op.fill_null(0).to_numpy())
        return number

    @cached_property
    def place(self) -> NDArray[Any]:
        """Which of ``slots``."""
        return self._places[0]

    @cached_property
    def pair(self) -> NDArray[Any]:
        """A small number for client and slot."""
        return _small(self._clients[0].astype(np.int64) * len(self.slots) + self.place)

    @cached_property
    def slot(self) -> Ints:
        """Hash of run, topic and partition."""
        slot: Ints = np.take(self.slots["slot"].to_numpy(), self.place)
        return slot

    @cached_property
    def client(self) -> Ints:
        """Hash of run and process."""
        client: Ints = np.take(self._hashed_clients, self._clients[0])
        return client

    @cached_property
    def key(self) -> Ints:
        """Hash of slot and value."""
        seeds = extended(SEED, self.slots["slot"].combine_chunks())
        return extended(seeds[self.place], self._table["value"].combine_chunks())

    @cached_property
    def deed(self) -> Ints:
        """Hash of client and operation."""
        seeds = extended(SEED, pa.array(self._hashed_clients))
        return extended(seeds[self._clients[0]], pa.array(self.op))

    @cached_property
    def fact(self) -> NDArray[np.int32]:
        """``checkers.clients.facts.fact``."""
        table = self._table
        peek = _Words.of(table["isolation"]).are(READ_UNCOMMITTED)
        facts: NDArray[np.int32] = _FACTS[
            _Words.of(table["kind"]).among(KINDS),
            _Words.of(table["outcome"]).among(OUTCOMES),
            peek.astype(int),
            table["offset"].is_null().to_numpy().astype(int),
            table["partition"].is_null().to_numpy().astype(int),
        ]
        return facts

    @cached_property
    def final(self) -> Bools:
        """Whether it is of the run's final phase."""
        return _Words.of(self._table["phase"]).are(FINAL)

    @cached_property
    def fence(self) -> Bools:
        """Whether it is the fence's."""
        return self._process.are(FENCE)

    @cached_property
    def offset(self) -> Ints:
        """As recorded; ``NONE`` for null, as in the two below."""
        return self._known("offset")

    @cached_property
    def invoke_ns(self) -> Ints:
        """As recorded."""
        return self._known("invoke_ns")

    @cached_property
    def complete_ns(self) -> Ints:
        """As recorded."""
        return self._known("complete_ns")

    def _known(self, name: str) -> Ints:
        column: Ints = self._table[name].fill_null(NONE).to_numpy()
        return column

    @cached_property
    def _run(self) -> "_Words":
        return _Words.of(self._table["run"])

    @cached_property
    def _topic(self) -> "_Words":
        return _Words.of(self._table["topic"])

    @cached_property
    def _process(self) -> "_Words":
        return _Words.of(self._table["process"])

    @cached_property
    def _partition(self) -> pa.Array:
        return self._table["partition"].combine_chunks()

    @cached_property
    def _places(self) -> tuple[NDArray[Any], Ints]:
        ordinal = self._partition.fill_null(-1).to_numpy().astype(np.int64) + 1
        return _told_apart(self._run.codes, self._topic.codes, ordinal)

    @cached_property
    def _clients(self) -> tuple[NDArray[Any], Ints]:
        return _told_apart(self._run.codes, self._process.codes)

    @cached_property
    def _hashed_clients(self) -> Hashes:
        first = pa.array(self._clients[1])
        return extended(extended(SEED, self._run.at(first)), self._process.at(first))


@dataclass(frozen=True, slots=True)
class _Words:
    """A column of words: a small number a row, and what they stand for; null is the last."""

    codes: NDArray[np.int64]
    words: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> "_Words":
        array = column.combine_chunks()
        words = pa.concat_arrays([array.dictionary, pa.nulls(1, array.dictionary.type)])
        codes = array.indices.fill_null(len(words) - 1).to_numpy().astype(np.int64)
        return cls(codes, words)

    def at(self, rows: pa.Array) -> pa.Array:
        return self.words.take(pa.array(self.codes).take(rows))

    def among(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The place of each row's word among some, or how many there are."""
        known: Ints = pc.index_in(self.words, pa.array(words)).fill_null(len(words)).to_numpy()
        return known.astype(np.int64)[self.codes]

    def are(self, word: str) -> Bools:
        """Which rows have a word."""
        found: Bools = self.among([word]) == 0
        return found


def _told_apart(*codes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """A small number for each row, by several small numbers; and a row of each."""
    both = codes[0]
    for more in codes[1:]:
        both = both * (int(more.max(initial=0)) + 1) + more
    encoded = pc.dictionary_encode(pa.array(both))
    small = encoded.indices.to_numpy()
    first = np.empty(len(encoded.dictionary), np.int64)
    first[small[::-1]] = np.arange(len(small) - 1, -1, -1)
    return _small(small), first


def _small(numbers: NDArray[Any]) -> NDArray[Any]:
    """The same in as few bytes as they need: numpy sorts numbers of two by counting them."""
    few = numbers.max(initial=0) <= np.iinfo(np.int16).max
    return numbers.astype(np.int16) if few else numbers


def _table_of_facts() -> NDArray[np.int32]:
    facts = np.zeros((len(KINDS) + 1, len(OUTCOMES) + 1, 2, 2, 2), np.int32)
    for (kind, outcome, peek), saying in SAYINGS.items():
        here = facts[KINDS.index(kind), OUTCOMES.index(outcome), int(peek)]
        here[:] = saying.bits
        here[1, :] |= saying.no_offset
        here[:, 1] |= saying.no_partition
    return facts


_FACTS: Final = _table_of_facts()
