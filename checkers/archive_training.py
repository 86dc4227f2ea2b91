"""The training run for Spark's class archive: ``-m …archive_training FLAG ...``.

The training run is its own process, because a process can start only one JVM.
"""

import contextlib
import os
import shutil
import struct
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.judge import judge
from highwater.checkers.spark import classic
from highwater.checkers.spark.session import SETTINGS
from highwater.harness.base.scratch import scratch
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.history import TABLES
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, RunStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH: Final = bytearray.fromhex(
    "00000000000000000000005800000000"  # base offset, length, leader epoch
    "0212e51cb700000000000000000000000000010000000000000001ffffffffffffffffffffffffffff"
    "000000014c00000001406d307c2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e00"
)
"""A v2 record batch with one record, m0."""

_EPOCH_AT: Final = 12


def main(sharing: list[str]) -> None:
    """Judge an artificial run in a JVM with these flags.

    With the flags, the JVM writes the class archive when it exits.
    """
    threading.Thread(target=_end_with_who_asked, name="asked", daemon=True).start()
    options = SparkOptions(driver_memory="1g")
    started = classic.start(options, SETTINGS, sharing=tuple(sharing))
    warm_up(started)
    classic.end_in_order(started)


def _end_with_who_asked() -> None:
    """End this process when its standard input closes, because its parent process has ended.

    A JVM that is just starting would not end by itself: it fails when it writes its port into the
    folder that this process removes, and one of its threads goes on.
    """
    sys.stdin.read()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    os._exit(1)


def warm_up(spark: "SparkSession") -> None:
    """Judge an artificial run in which one record is lost and one record's replicas differ.

    It is the smallest run for which every checker reads, compares, finds and explains.
    """
    folder = scratch("warm-up")
    try:
        judge([_made_up(folder / "warm-up")], spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made_up(path: Path) -> Run:
    run = Run(path)
    run.path.mkdir()
    run.write("plan.json", Plan(kafka=MODERN).to_json())
    run.write_struct("status.json", RunStatus(phase="frozen", quiesced=True))
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}
    rows["history/ops"] = [
        _operation("producer-0", "send", "run", 0, "m0"),
        _operation("producer-0", "send", "run", 1, "m1"),
        _operation("reader", "read", "final", 0, "m0"),
        _operation("fence", "send", "final", 2, "fence"),
        _operation("reader", "read", "final", 2, "fence"),
    ]
    for name, schema in TABLES.items():
        target = run.path / f"{name}.parquet"
        target.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows[name], schema=schema), target)
    for broker in (1, 2, 3):
        folder = run.replicas / str(broker) / "events-0"
        folder.mkdir(parents=True)
        struct.pack_into(">i", _BATCH, _EPOCH_AT, broker)
        (folder / f"{0:020d}.log").write_bytes(_BATCH)
    return run


def _operation(process: str, kind: str, phase: str, offset: int, value: str) -> dict[str, object]:
    return {
        "process": process,
        "kind": kind,
        "phase": phase,
        "outcome": "ok",
        "invoke_ns": offset,
        "topic": "events",
        "partition": 0,
        "offset": offset,
        "acks": "all",
        "value": value,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
