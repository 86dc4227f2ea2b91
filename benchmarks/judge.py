"""Measure the judge's time and memory for 0.1, 1 and 10 million operations.

The JVM has 4 GB of heap. Half of the operations are sends, and half are the final read. There are
four variants. *Clients*: only the clients' history, as in Jepsen's checker, with one lost record in
1000. The other variants change one part: one lost record in 16; a transaction marker after each
record, so that no two offsets are consecutive; or every record also on three replicas' disks. For
other sizes: ``python -m benchmarks.judge clients 100000000``.
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
"""The variants: clients only; the same with many losses; the same with markers between records;
clients and three disks."""

_ROWS: Final = 250_000
_BATCH: Final = 500  # records in a batch on disk
_LOST_EVERY: Final = 1000
_OFTEN: Final = 16
_LIGHT: Final = 2_000_000  # so many operations are about as many bytes as are light
_SAMPLE_S: Final = 0.1
_MB: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class Peak:
    """The peak resident memory in bytes: the JVM's, and that of all Python processes."""

    jvm: int = 0
    python: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The result of one judgement: its time and its memory."""

    operations: int
    seconds: float
    peak: Peak
    lost: int


def main(sizes: Sequence[int] = SIZES) -> None:
    """Measure every variant in its own JVM; print each size and the growth of time with size."""
    for what in (CLIENTS, LOSSES, MARKERS, DISKS):
        command = [sys.executable, "-m", "benchmarks.judge", what, *map(str, sizes)]
        subprocess.run(command, check=True)


def measure(what: str, sizes: Sequence[int]) -> None:
    """Measure one variant in this process. Small histories come first, so that the JVM is warm."""
    session = spark(SparkOptions(driver_memory="4g"), heavy=what == DISKS or max(sizes) > _LIGHT)
    print(f"{what}, one record in {_OFTEN if what == LOSSES else _LOST_EVERY} lost")
    print(f"{'operations':>12} {'seconds':>8} {'per second':>11} {'JVM MB':>7} {'Python MB':>9}")
    measured = [_measure(session, size, what) for size in (*WARM, *sizes)][len(WARM) :]
    if len(measured) > 1:
        print(f"time grows with operations to the power of {exponent(measured):.2f}")


def _measure(session: SparkSession, size: int, what: str) -> Measurement:
    """Judge one history, and print the time and the memory."""
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
    """Return the slope of log time over log size. A slope of 1 means linear growth."""
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
    """Write a run with this many operations on one partition and three brokers.

    Args:
        path: the run's directory.
        operations: the number of operations, half of which are sends.
        disks: whether to write the log of each of the three replicas.
        lost_every: the final read misses one record in this many.
        apart: the distance between consecutive offsets.
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
    """Measure the peak memory of this process and its children during the block."""
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
    """Yield encoded batches (format v2) of records ``p0-0``, ``p0-1``, …, all in leader epoch 0."""
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
