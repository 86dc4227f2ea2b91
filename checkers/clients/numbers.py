"""A history's Parquet files as columns of numbers, read by the tasks that need them.

Spark's own scan is fast, but handing its rows to Python costs four times as much as the scan (10
million operations: 2.7 CPU seconds to scan, and 9.9 when six columns go to Python); a task that
reads the file itself needs 1.2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from checkers.clients.facts import KINDS, OUTCOMES, SAYINGS
from checkers.clients.hashes import SEED, extended
from harness.history import FENCE, FINAL, OPERATIONS, READ_UNCOMMITTED

Numbers: TypeAlias = dict[str, NDArray[Any]]

NONE: Final = np.iinfo(np.int64).min
"""Stands for null in a column of numbers."""

ROWS: Final = 500_000
"""So many are read and looked at at once: the more, the fewer strides are cut in two."""

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

    Tasks are about equal, and at most ``_TASK_ROWS`` if row groups are not larger; small files are
    read together.

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
    share = min(max(-(-rows // cores), 1), _TASK_ROWS)
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
    own = part.source.run is None
    words = [*_WORDS, "run"] if own else list(_WORDS)
    with pq.ParquetFile(part.source.path, read_dictionary=words) as file:
        names = set(file.schema_arrow.names)
        asked = [name for name in (*columns, *(("run", "at") if own else ())) if name in names]
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


def numbered(part: Part) -> Iterator[tuple[Numbers, pa.Table]]:
    """``numbers_of`` the rows of a part, ``ROWS`` at a time."""
    for table in tables(part, _COLUMNS):
        yield numbers_of(table)


def numbers_of(table: pa.Table) -> tuple[Numbers, pa.Table]:
    """Rows that ``tables`` gave as numbers, and what the numbers of slots stand for.

    Returns:
        Columns ``client, slot, key, deed, op, at, offset, fact, invoke_ns, complete_ns, final,
        fence`` of all rows, hashes as in ``checkers.clients.view.View.rows``; ``pair`` and
        ``place``, small numbers of (client, slot) and of slots. And a table ``slot, history, run,
        topic, partition`` of the slots among them.
    """
    run, topic, process = (_Words.of(table[name]) for name in ("run", "topic", "process"))
    partition = table["partition"].combine_chunks()
    ordinal = partition.fill_null(-1).to_numpy().astype(np.int64) + 1
    place, first = _told_apart(run.codes, topic.codes, ordinal)
    slots = _slots(run, topic, partition, first)
    client, owner = _told_apart(run.codes, process.codes)
    history = extended(SEED, run.at(owner))
    clients = extended(history, process.at(owner))
    at = table["at"].to_numpy()
    op = table["op"].to_numpy() if table["op"].null_count == 0 else _op(table["op"], at)
    numbers = {
        "at": at,
        "op": op,
        "client": clients[client],
        "slot": slots["slot"].to_numpy()[place],
        "place": place,
        "pair": _small(client.astype(np.int64) * len(slots) + place),
        "key": extended(extended(SEED, slots["slot"].combine_chunks())[place], table["value"].combine_chunks()),
        "deed": extended(extended(SEED, pa.array(clients))[client], pa.array(op)),
        "fact": _facts(table),
        "final": _is(table["phase"], FINAL),
        "fence": _is(table["process"], FENCE),
    }
    for name in ("offset", "invoke_ns", "complete_ns"):
        numbers[name] = table[name].fill_null(NONE).to_numpy()
    return numbers, slots


def _op(op: pa.ChunkedArray, at: NDArray[Any]) -> NDArray[np.int64]:
    """The number of each row's operation; a row that has none stands alone, by its own."""
    return np.where(op.is_null().to_numpy(), at, op.fill_null(0).to_numpy())


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

    def at(self, rows: NDArray[Any]) -> pa.Array:
        return self.words.take(pa.array(self.codes[rows]))

    def among(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The place of each row's word among some, or how many there are."""
        known: pa.Array = pc.index_in(self.words, pa.array(words))
        return known.fill_null(len(words)).to_numpy().astype(np.int64)[self.codes]


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


def _slots(run: _Words, topic: _Words, partition: pa.Array, first: NDArray[np.int64]) -> pa.Table:
    names = run.at(first), topic.at(first), partition.take(pa.array(first))
    history = extended(SEED, names[0])
    slot = extended(extended(history, names[1]), names[2])
    columns = [pa.array(slot), pa.array(history), *names]
    return pa.table(columns, names=["slot", "history", "run", "topic", "partition"])


def _facts(table: pa.Table) -> NDArray[np.int32]:
    """``checkers.clients.facts.fact`` of each row."""
    kind = _Words.of(table["kind"]).among(KINDS)
    outcome = _Words.of(table["outcome"]).among(OUTCOMES)
    peek = _Words.of(table["isolation"]).among([READ_UNCOMMITTED]) == 0
    no_offset = table["offset"].is_null().to_numpy()
    no_partition = table["partition"].is_null().to_numpy()
    facts: NDArray[np.int32] = _FACTS[
        kind, outcome, peek.astype(int), no_offset.astype(int), no_partition.astype(int)
    ]
    return facts


def _table_of_facts() -> NDArray[np.int32]:
    facts = np.zeros((len(KINDS) + 1, len(OUTCOMES) + 1, 2, 2, 2), np.int32)
    for (kind, outcome, peek), saying in SAYINGS.items():
        here = facts[KINDS.index(kind), OUTCOMES.index(outcome), int(peek)]
        here[:] = saying.bits
        here[1, :] |= saying.no_offset
        here[:, 1] |= saying.no_partition
    return facts


_FACTS: Final = _table_of_facts()


def _is(column: pa.ChunkedArray, word: str) -> NDArray[np.bool_]:
    return _Words.of(column).among([word]) == 0
