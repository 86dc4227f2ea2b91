"""The same search by Spark, for frontiers that outgrow memory: a Parquet folder a level.

A level is one job. Every task expands its states with the compiled kernel; the successors are
shuffled by fingerprint to shards, and each shard drops those that one of its earlier levels has.
A small level is made here by the same two functions, because the smallest job takes a second.
Because a level's folder is whole or not there, a search that was ended goes on where it was.
"""

import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from checkers.model.explore import BLOCK, Glance, Limits, Outcome, Reason, Watch, compile_all
from checkers.model.fingerprints import FULL, Words, new_table
from checkers.model.kernels import Problem, kernels
from checkers.model.machine import Machine
from checkers.model.paths import follow
from checkers.model.reference import Setting
from harness.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARDS: Final = 16
"""A shard's fingerprints of all levels fit in a Python worker, 8 bytes each: 256 shards for 10⁹."""

SMALL: Final = 1 << 16
"""A frontier of fewer states is expanded in this process."""

_LOCAL_SLOTS: Final = 1 << 20
_SCHEMA: Final = pa.schema(
    [
        pa.field("shard", pa.int32()),
        pa.field(
            "fingerprint", pa.int64()
        ),  # Spark has no unsigned integers; the bits are the same
        pa.field("parent", pa.int64()),
        pa.field("breaches", pa.int64()),
        pa.field("state", pa.binary()),
    ]
)
_DDL: Final = "shard int, fingerprint long, parent long, breaches long, state binary"

_Expand = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_Sieve = Callable[[tuple[Any, ...], pa.Table], pa.Table]


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder's levels are levels of."""

    setting: Setting
    shards: int
    state_bytes: int


@dataclass(slots=True)
class _Tally:
    """What the levels that are whole come to."""

    states: int = 0
    depth: int = -1
    frontier: int = 0
    breaches: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of each bit asked for the level and the fingerprint of a state that breaks it first."""


def explore(
    session: "Callable[[], SparkSession]",
    setting: Setting,
    asked: Sequence[str],
    *,
    folder: Path,
    limits: Limits,
    watch: Watch = lambda _: None,
    shards: int = SHARDS,
    small: int = SMALL,
) -> Outcome:
    """Search as ``checkers.model.explore.explore`` does, with the same result.

    Args:
        session: where to do it; asked for when a level is not small any more.
        setting: which model.
        asked: names of its invariants; none to meet every state.
        folder: of the levels, where every worker can read and write; created, or gone on with.
        limits: its time and its stop count, between two levels; memory is Spark's own business.
        watch: told after each level.
        shards: in how many parts the fingerprints are held; of a new folder.
        small: a frontier of fewer states is no job of Spark's.

    Raises:
        UsageError: the folder holds the levels of another search.
    """
    machine = setting.machine()
    compile_seconds = compile_all(machine, labels=True)
    began = time.perf_counter()
    question = _open(folder, setting, machine, shards)
    bits = {name: machine.invariants[name] for name in asked}
    tally = _Tally()
    while (_level(folder, tally.depth + 1) / "_SUCCESS").exists():
        if not _count(folder, bits.values(), tally):
            break
    reason: Reason | None = None
    while not _settled(bits, tally):
        seconds = time.perf_counter() - began
        watch(Glance(states=tally.states, depth=tally.depth, seconds=seconds))
        if reason := _over(limits, seconds):
            break
        _advance(session() if tally.frontier >= small else None, folder, question, tally.depth + 1)
        if not _count(folder, bits.values(), tally):
            break
    return Outcome(
        paths={
            name: follow(machine, _ancestors(folder, question, *tally.breaches[bit]))
            for name, bit in bits.items()
            if bit in tally.breaches
        },
        reason=reason,
        exhausted=reason is None and not _settled(bits, tally),
        states=tally.states,
        transitions=None,
        depth=tally.depth,
        seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds,
        peak_bytes=None,
    )


def _open(folder: Path, setting: Setting, machine: Machine, shards: int) -> _Question:
    """The folder's question; of a new folder this one, with the initial state as level 0."""
    question = _Question(setting=setting, shards=shards, state_bytes=machine.initial.nbytes)
    file = folder / "question.json"
    if file.exists():
        found = msgspec.json.decode(file.read_bytes(), type=_Question)
        if found.setting != setting or found.state_bytes != question.state_bytes:
            raise UsageError(
                f"{folder} holds another search, of Kafka {found.setting.kafka}",
                hint="Name an empty folder, or ask what was asked there.",
            )
        return found
    folder.mkdir(parents=True, exist_ok=True)
    _store(folder, 0, [_first(question, machine)])
    file.write_bytes(msgspec.json.encode(question))
    return question


def _first(question: _Question, machine: Machine) -> pa.Table:
    form = machine.initial.copy()
    machine.laws.canonical(machine.initial, form, machine.constants)
    key = np.array([kernels(machine.laws).identify(form, machine.constants)], np.uint64)
    breaches = np.array([machine.laws.broken(form, machine.constants)], np.uint64)
    return pa.table(_batch(form.view(np.uint64)[None, :], key, key, breaches, question.shards))


def _level(folder: Path, number: int) -> Path:
    return folder / f"level={number:05}"


def _store(folder: Path, number: int, shards: Iterable[pa.Table]) -> None:
    """Write a level as Spark does: a folder a shard, and last a mark that the level is whole."""
    level = _level(folder, number)
    shutil.rmtree(level, ignore_errors=True)
    level.mkdir()
    for rows in shards:
        if rows.num_rows:
            shard = level / f"shard={rows['shard'][0]}"
            shard.mkdir()
            pq.write_table(rows.drop_columns("shard"), shard / "here.parquet", compression="lz4")
    (level / "_SUCCESS").touch()


def _advance(session: "SparkSession | None", folder: Path, question: _Question, level: int) -> None:
    """Write a level: by Spark, or without a session in this process."""
    expand, sieve = _expander(question), _sieve(folder, level)
    if session is None:
        frontier = _dataset(_level(folder, level - 1).glob("*/*.parquet"))
        met = pa.Table.from_batches(expand(frontier.to_batches(columns=["state"])), _SCHEMA)
        parts = ((n, met.filter(pc.field("shard") == n)) for n in range(question.shards))
        _store(folder, level, (sieve((pa.scalar(n),), rows) for n, rows in parts))
        return
    files = session.read.schema("state binary").parquet(str(_level(folder, level - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about a pandas that is newer than it
        found = files.select("state").mapInArrow(expand, _DDL)
        new = found.groupBy("shard").applyInArrow(sieve, _DDL)
    new.write.partitionBy("shard").parquet(str(_level(folder, level)), mode="overwrite")


def _dataset(files: Iterable[Path]) -> ds.Dataset:
    """The rows of files, a level's or a shard's."""
    names = sorted(str(file) for file in files)
    return ds.dataset(names, _SCHEMA.remove(0), format="parquet") if names else _NOTHING


_NOTHING: Final = ds.dataset(_SCHEMA.remove(0).empty_table())


def _count(folder: Path, bits: Iterable[int], tally: _Tally) -> bool:
    """Add the next level to the tally; whether it has any state."""
    rows = _dataset(_level(folder, tally.depth + 1).glob("*/*.parquet"))
    tally.frontier = rows.count_rows()
    if not tally.frontier:
        return False
    tally.states, tally.depth = tally.states + tally.frontier, tally.depth + 1
    some = pc.field("breaches") != 0  # which a file's own statistics tell, nearly always
    for bit in set(bits) - set(tally.breaches):
        this = pc.bit_wise_and(pc.field("breaches"), pa.scalar(1 << bit)) != 0
        broken = rows.head(1, columns=["fingerprint"], filter=some & this)
        if broken.num_rows:
            tally.breaches[bit] = tally.depth, broken["fingerprint"][0].as_py()
    return True


def _settled(bits: dict[str, int], tally: _Tally) -> bool:
    return bool(bits) and all(bit in tally.breaches for bit in bits.values())


def _over(limits: Limits, seconds: float) -> Reason | None:
    if limits.stop():
        return "stopped"
    return "time" if limits.seconds is not None and seconds > limits.seconds else None


def _ancestors(folder: Path, question: _Question, level: int, fingerprint: int) -> list[int]:
    """Fingerprints from the initial state's to this one of a level, as the kernels write them."""
    chain = [fingerprint]
    for number in range(level, 0, -1):
        shard = (chain[-1] & (2**64 - 1)) % question.shards
        rows = _dataset((_level(folder, number) / f"shard={shard}").glob("*.parquet"))
        found = rows.head(1, columns=["parent"], filter=pc.field("fingerprint") == chain[-1])
        chain.append(found["parent"][0].as_py())
    return [one & (2**64 - 1) for one in reversed(chain)]


def _batch(
    states: Words, keys: Words, parents: Words, breaches: Words, shards: int
) -> pa.RecordBatch:
    """States and what is known of each as rows of ``_SCHEMA``."""
    width = states.shape[1] * 8
    offsets = np.arange(0, (len(states) + 1) * width, width, dtype=np.int32)
    content = np.ascontiguousarray(states)
    binary = pa.Array.from_buffers(
        pa.binary(), len(states), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    )
    columns = [
        pa.array((keys % np.uint64(shards)).astype(np.int32)),
        *(pa.array(one.view(np.int64)) for one in (keys, parents, breaches)),
        binary,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _expander(question: _Question) -> _Expand:
    def expand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        machine = question.setting.machine()
        compiled = kernels(machine.laws)
        problem = Problem(machine.constants, machine.moves, 0)
        marks, table, filled = np.zeros(63, np.uint64), new_table(_LOCAL_SLOTS), 0
        words = question.state_bytes // 8
        for batch in batches:
            content = bytearray().join(batch["state"].to_pylist())  # what cannot be written to is
            states = np.frombuffer(content, np.uint64)  # another type, and compiles once more
            source, row = states.reshape(-1, words), 0
            while row < len(source):
                if filled + BLOCK > FULL * _LOCAL_SLOTS:
                    table, filled = new_table(_LOCAL_SLOTS), 0
                out = np.empty((BLOCK, words), np.uint64)
                row, new, _ = compiled.expand(source, row, out, table, problem, marks)
                filled += new
                keys, parents, breaches = np.empty((3, new), np.uint64)
                compiled.label(out[:new], table, machine.constants, keys, parents, breaches)
                yield _batch(out[:new], keys, parents, breaches, question.shards)

    return expand


def _sieve(folder: Path, level: int) -> _Sieve:
    """Keep one row of each fingerprint that none of the shard's earlier levels has."""

    def sieve(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        keys, first = np.unique(rows["fingerprint"].to_numpy(), return_index=True)
        shard = f"shard={key[0].as_py()}/*.parquet"
        earlier = (file for n in range(level) for file in _level(folder, n).glob(shard))
        seen = _dataset(earlier).to_table(columns=["fingerprint"])["fingerprint"].to_numpy()
        return rows.take(np.sort(first[~np.isin(keys, seen)]))

    return sieve
