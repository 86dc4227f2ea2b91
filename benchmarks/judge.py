"""How fast the judge is and what memory it takes: 0.1, 1 and 10 million operations, 4 GB of heap.

Half of the operations send and half are the final read. The clients' view is judged alone, as
Jepsen's checker does, with one record in 1000 lost, with one in 16, and with a transaction's marker
behind each record, so that no offset follows the one before; and with every record on three
replicas' disks. The histories are streamed to disk, so that making them is no test of memory.
For other sizes: ``python -m benchmarks.judge clients 100000000``.
"""

import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from highwater.checkers.spark.session import spark
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.history import OPERATIONS, TABLES
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, RunStatus

SIZES: Final = (100_000, 1_000_000, 10_000_000)
WARM: Final = (20_000, 20_000)  # a JVM's first judgements are several times as slow
CLIENTS: Final = "clients"
LOSSES: Final = "losses"
MARKERS: Final = "markers"
DISKS: Final = "disks"
"""What is judged: clients alone; the same of which much is lost, and the same with markers between
records; clients and three disks."""

_ROWS: Final = 250_000
_BATCH: Final = 500  # records in a batch on disk
_LOST_EVERY: Final = 1000
_OFTEN: Final = 16
_LIGHT: Final = 2_000_000  # so many operations are about as many bytes as are light
_SAMPLE_S: Final = 0.1
_MB: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class Peak:
    """The most memory that was seen resident, bytes: the JVM's, and every Python process's."""

    jvm: int = 0
    python: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One judgement."""

    operations: int
    seconds: float
    peak: Peak
    lost: int


def main(sizes: Sequence[int] = SIZES) -> None:
    """Measure and print every size, and how time grows with it, each way in a JVM of its own."""
    for what in (CLIENTS, LOSSES, MARKERS, DISKS):
        command = [sys.executable, "-m", "benchmarks.judge", what, *map(str, sizes)]
        subprocess.run(command, check=True)


def measure(what: str, sizes: Sequence[int]) -> None:
    """Measure one way in this process, where what is small is judged first to warm the JVM up."""
    session = spark(SparkOptions(driver_memory="4g"), heavy=what == DISKS or max(sizes) > _LIGHT)
    print(f"{what}, one record in {_OFTEN if what == LOSSES else _LOST_EVERY} lost")
    print(f"{'operations':>12} {'seconds':>8} {'per second':>11} {'JVM MB':>7} {'Python MB':>9}")
    measured = [_measure(session, size, what) for size in (*WARM, *sizes)][len(WARM) :]
    if len(measured) > 1:
        print(f"time grows with operations to the power of {exponent(measured):.2f}")


def _measure(session: SparkSession, size: int, what: str) -> Measurement:
    """Judge one history, and print what that took."""
    lost_every = _OFTEN if what == LOSSES else _LOST_EVERY
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
        run = history(
            Path(folder) / str(size),
            size,
            disks=what == DISKS,
            lost_every=lost_every,
            apart=2 if what == MARKERS else 1,
        )
        with peak_memory() as peak:
            began = time.perf_counter()
            (verdict,) = judge([run], session)
            seconds = time.perf_counter() - began
    one = Measurement(operations=size, seconds=seconds, peak=peak, lost=verdict.ledger.lost)
    assert one.lost == size // 2 // lost_every, verdict.reasons
    print(
        f"{size:>12,} {seconds:>8.1f} {size / seconds:>11,.0f}"
        f" {peak.jvm // _MB:>7,} {peak.python // _MB:>9,}",
        flush=True,
    )
    return one


def exponent(measured: Sequence[Measurement]) -> float:
    """Return the slope of time over size, both as logarithms; 1 is linear."""
    first, last = measured[0], measured[-1]
    if first.operations == last.operations:
        return math.nan
    return math.log(last.seconds / first.seconds) / math.log(last.operations / first.operations)


def history(
    path: Path,
    operations: int,
    *,
    disks: bool = True,
    lost_every: int = _LOST_EVERY,
    apart: int = 1,
) -> Run:
    """Return a run of this many operations on one partition and three brokers, written bit by bit.

    Args:
        path: of the run.
        operations: half of which send.
        disks: whether its records are on replicas, too; these have them one behind the other.
        lost_every: one record of so many is not read.
        apart: how far offsets lie from each other.
    """
    records = operations // 2
    run = Run(path)
    run.path.mkdir()
    run.write("plan.json", Plan(kafka=MODERN).to_json())
    run.write_struct("status.json", RunStatus(phase="frozen", quiesced=True))
    for name, schema in TABLES.items():
        (run.path / name).parent.mkdir(exist_ok=True)
        with pq.ParquetWriter(run.path / f"{name}.parquet", schema) as writer:
            if schema is OPERATIONS:
                _write_operations(writer, records, lost_every, apart)
    folders = [run.replicas / str(broker) / "events-0" for broker in (1, 2, 3)]
    for folder in folders:
        folder.mkdir(parents=True)
    if not disks:
        return run
    with (
        (folders[0] / f"{0:020d}.log").open("wb") as one,
        (folders[1] / f"{0:020d}.log").open("wb") as two,
        (folders[2] / f"{0:020d}.log").open("wb") as three,
    ):
        for data in _batches(records):
            for file in (one, two, three):
                file.write(data)
    return run


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Watch the memory of this process and its children while the block runs."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        me = psutil.Process()
        while not done.wait(_SAMPLE_S):
            now = Peak(python=me.memory_info().rss)
            for child in me.children(recursive=True):
                try:
                    name, resident = child.name(), child.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
                if name == "java":
                    now.jvm += resident
                else:
                    now.python += resident
            peak.jvm, peak.python = max(peak.jvm, now.jvm), max(peak.python, now.python)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _write_operations(writer: pq.ParquetWriter, records: int, lost_every: int, apart: int) -> None:
    for start in range(0, records, _ROWS):
        sent = np.arange(start, min(start + _ROWS, records))
        writer.write_batch(_operations(sent, apart, kind="send", phase="run", acks="all"))
    for start in range(0, records, _ROWS):
        sent = np.arange(start, min(start + _ROWS, records))
        kept = sent[sent % lost_every != lost_every - 2]
        writer.write_batch(_operations(kept, apart, kind="read", phase="final", acks=None))


def _operations(
    sent: np.ndarray, apart: int, *, kind: str, phase: str, acks: str | None
) -> pa.RecordBatch:
    rows = len(sent)
    numbers = pa.array(sent)
    values = pc.binary_join_element_wise("p0", numbers.cast(pa.string()), "-")
    columns: dict[str, object] = {
        "process": "producer-0" if kind == "send" else "reader",
        "kind": kind,
        "phase": phase,
        "outcome": "ok",
        "invoke_ns": numbers,
        "complete_ns": numbers,
        "topic": "events",
        "partition": 0,
        "offset": pa.array(sent * apart),
        "leader_epoch": None,
        "acks": acks,
        "value": values,
        "error": None,
        "op": numbers,
        "isolation": None,
    }
    arrays = []
    for column in OPERATIONS:
        value = columns[column.name]
        if isinstance(value, pa.Array):
            arrays.append(value.cast(column.type))
        elif value is None:
            arrays.append(pa.nulls(rows, column.type))
        elif pa.types.is_dictionary(column.type):
            codes = pa.array(np.zeros(rows, np.int32))
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array([value])))
        else:
            arrays.append(pa.repeat(pa.scalar(value, column.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=OPERATIONS)


def _batches(records: int) -> Iterator[bytes]:
    """Yield the partition's record batches, v2, as a leader of epoch 0 writes them."""
    for start in range(0, records, _BATCH):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=_MB,
        )
        for index in range(min(_BATCH, records - start)):
            value = b"p0-%d" % (start + index)
            builder.append(index, timestamp=1, key=None, value=value, headers=[])
        data = builder.build()
        data[0:8] = start.to_bytes(8)
        data[12:16] = bytes(4)  # aiokafka leaves the leader epoch at zero; say so
        yield bytes(data)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word in (CLIENTS, LOSSES, MARKERS, DISKS)]
    asked = [int(word) for word in sys.argv[1:] if word not in words] or SIZES
    for each in words:
        measure(each, asked)
    if not words:
        main(asked)
