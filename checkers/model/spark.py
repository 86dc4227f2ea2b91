"""The same search by Spark, for frontiers that outgrow memory: a Parquet folder a level.

A level is one job. Every task expands its states with the compiled kernel; the successors are
shuffled by fingerprint to shards, and each shard drops those that one of its earlier levels has.
Because a level's folder is whole or not there, a search that was ended goes on where it was.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users call it

from checkers.model.explore import BLOCK, Glance, Limits, Outcome, Reason, Watch, compile_all
from checkers.model.fingerprints import FULL, Words, new_table
from checkers.model.kernels import Problem, kernels
from checkers.model.machine import Machine
from checkers.model.paths import follow
from checkers.model.reference import Setting
from harness.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARDS: Final = 16
"""A shard's fingerprints of all levels fit in a Python worker, 8 bytes each: 256 shards for 10⁹."""

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


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder's levels are levels of."""

    setting: Setting
    shards: int
    state_bytes: int


@dataclass(slots=True)
class _Tally:
    states: int
    depth: int
    breaches: dict[int, tuple[int, int]]
    """Of each bit the level and the fingerprint of a state that breaks it first."""


def explore(
    session: "SparkSession",
    setting: Setting,
    asked: Sequence[str],
    *,
    folder: Path,
    limits: Limits,
    watch: Watch = lambda _: None,
    shards: int = SHARDS,
) -> Outcome:
    """Search as ``checkers.model.explore.explore`` does, with the same result.

    Args:
        session: where to do it.
        setting: which model.
        asked: names of its invariants; none to meet every state.
        folder: of the levels, where every worker can read and write; created, or gone on with.
        limits: its time and its stop count, between two levels; memory is Spark's own business.
        watch: told after each level.
        shards: in how many parts the fingerprints are held; of a new folder.

    Raises:
        UsageError: the folder holds the levels of another search.
    """
    machine = setting.machine()
    compile_seconds = compile_all(machine, labels=True)
    began = time.perf_counter()
    question = _open(folder, setting, machine, shards)
    bits = {name: machine.invariants[name] for name in asked}
    tally = _resume(session, folder)
    reason: Reason | None = None
    while tally.states and not _settled(bits, tally):
        seconds = time.perf_counter() - began
        watch(Glance(states=tally.states, depth=tally.depth, seconds=seconds))
        reason = _over(limits, seconds)
        if reason or not _advance(session, folder, question, tally):
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
    _write_first(folder, question, machine)
    file.write_bytes(msgspec.json.encode(question))
    return question


def _write_first(folder: Path, question: _Question, machine: Machine) -> None:
    form = machine.initial.copy()
    machine.laws.canonical(machine.initial, form, machine.constants)
    key = np.array([kernels(machine.laws).identify(form, machine.constants)], np.uint64)
    breaches = np.array([machine.laws.broken(form, machine.constants)], np.uint64)
    rows = _batch(form.view(np.uint64)[None, :], key, key, breaches, question.shards)
    shard = _level(folder, 0) / f"shard={rows['shard'][0]}"
    shard.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows).drop_columns("shard"), shard / "first.parquet")
    (_level(folder, 0) / "_SUCCESS").touch()


def _level(folder: Path, number: int) -> Path:
    return folder / f"level={number:05}"


def _resume(session: "SparkSession", folder: Path) -> _Tally:
    """What the levels that are whole come to."""
    tally = _Tally(states=0, depth=0, breaches={})
    while (_level(folder, tally.depth + bool(tally.states)) / "_SUCCESS").exists():
        level = tally.depth + bool(tally.states)
        if not _count(session, folder, level, tally):
            break
    return tally


def _advance(session: "SparkSession", folder: Path, question: _Question, tally: _Tally) -> bool:
    """Write the next level; whether there was anything new."""
    level = tally.depth + 1
    frontier = _read(session, folder, tally.depth).select("state")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about a pandas that is newer than it
        found = frontier.mapInArrow(_expander(question), _DDL)
        new = found.groupBy("shard").applyInArrow(_sieve(folder, level), _DDL)
    new.write.partitionBy("shard").parquet(str(_level(folder, level)), mode="overwrite")
    return _count(session, folder, level, tally)


def _read(session: "SparkSession", folder: Path, level: int) -> "DataFrame":
    ddl = "fingerprint long, parent long, breaches long, state binary, shard string"
    return session.read.schema(ddl).parquet(str(_level(folder, level)))


def _count(session: "SparkSession", folder: Path, level: int, tally: _Tally) -> bool:
    """Add a level to the tally; whether it has any state."""
    rows = _read(session, folder, level)
    first = rows.agg(F.count("*"), F.bit_or("breaches")).first()
    assert first is not None
    count, breaches = first[0], first[1] or 0
    if not count:
        return False
    tally.states, tally.depth = tally.states + count, level
    for bit in range(breaches.bit_length()):
        if breaches >> bit & 1 and bit not in tally.breaches:
            broken = F.col("breaches").bitwiseAND(1 << bit) != 0
            example = rows.where(broken).agg(F.min("fingerprint")).first()
            assert example is not None
            tally.breaches[bit] = level, example[0]
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
        rows = pq.read_table(
            _level(folder, number) / f"shard={shard}",
            columns=["fingerprint", "parent"],
            filters=pc.field("fingerprint") == chain[-1],
            partitioning=None,
        )
        chain.append(rows["parent"][0].as_py())
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


def _expander(
    question: _Question,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def expand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        machine = question.setting.machine()
        compiled = kernels(machine.laws)
        problem = Problem(machine.constants, machine.moves, 0)
        marks, table, filled = np.zeros(63, np.uint64), new_table(_LOCAL_SLOTS), 0
        words = question.state_bytes // 8
        for batch in batches:
            states = np.frombuffer(b"".join(batch["state"].to_pylist()), np.uint64)
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


def _sieve(folder: Path, level: int) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """Keep one row of each fingerprint that none of the shard's earlier levels has."""

    def sieve(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        shard = f"shard={key[0].as_py()}"
        keys, first = np.unique(rows["fingerprint"].to_numpy(), return_index=True)
        seen = [np.empty(0, np.int64)]
        for earlier in range(level):
            for file in (_level(folder, earlier) / shard).glob("*.parquet"):
                found = pq.read_table(file, columns=["fingerprint"], partitioning=None)
                seen.append(found["fingerprint"].to_numpy())
        return rows.take(np.sort(first[~np.isin(keys, np.concatenate(seen))]))

    return sieve
