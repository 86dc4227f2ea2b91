"""Copy runs that only Spark can read to this machine, and write the results back.

Spark's source ``binaryFile`` lists and reads a run's files. Their copies are in a folder on this
machine, the mirror. If the segments are too long together, the mirror has empty (sparse) files of
the same lengths instead. Spark's tasks read tables and segments from the run's own folder.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.kafka_files.segment_files import FILE_BYTES_MAX
from highwater.checkers.spark.binary_files import binary, contents, paths_of
from highwater.checkers.spark.failures import first_line
from highwater.harness.base.errors import HarnessError, HighwaterError, NotThereError
from highwater.harness.runs import manifest
from highwater.harness.runs.manifest import Manifest, RecordedFile
from highwater.harness.runs.store import Run

MIRRORED_MAX: Final = 1 << 30
"""The greatest length, in bytes, of a file that is copied to this machine. Spark has several copies
of a file in memory."""

SEGMENTS_MAX: Final = 1 << 30
"""The greatest total length, in bytes, of a run's segments that are copied to this machine. If a
run's segments are longer, none is copied."""

_BATCH_BYTES: Final = (
    64 << 20
)  # the greatest number of bytes that Spark sends to this process at once

_SEGMENT: Final = re.compile(r"replicas/\d+/[^/]+/\d{20}\.log")
_HIDDEN: Final = re.compile(r"(?:[^/_.][^/]*/)*[_.][^/]*(?=/)")
_PART: Final = re.compile(r"/part-\d{5}-[^/]+$")
_NOISE: Final = re.compile(r"^\[[\w.]+\] |^(([\w$]+\.)+[\w$]+: )+| SQLSTATE: \w+$")
"""Parts of Spark's error that Highwater's message omits: Spark's name, Java classes, SQLSTATE."""

_HINT: Final = (
    "Name a run's folder that this Spark can reach. A store such as s3a: needs jars and keys:"
    " --spark-conf spark.jars.packages=… --spark-conf spark.hadoop.fs.s3a.access.key=…"
)


class RemoteRun(Run):
    """The local mirror of a run that is on another machine or in a store.

    Args:
        path: the folder of the mirror.
        uri: the URI of the run's own directory.
        digests: the length and digest of each segment that is only a sparse file in the mirror, by
            the segment's path in the run's folder. Spark computed them.
    """

    def __init__(self, path: Path, uri: str, digests: Mapping[str, RecordedFile]) -> None:
        super().__init__(path)
        self.uri = uri
        self.digests = digests

    @property
    def disks_here(self) -> bool:
        """True if the local mirror has the contents of the run's segments."""
        return not self.digests

    def uri_of(self, path: Path) -> str:
        """Return the URI of the original of a file in the mirror."""
        return f"{self.uri}/{path.relative_to(self.path).as_posix()}"


def fetch(spark: SparkSession, uri: str, folder: Path) -> RemoteRun:
    """Mirror the run at a URI below ``folder``, in a folder with the run's name.

    Raises:
        NotThereError: there is no run at the URI.
        HarnessError: Spark cannot read the run, or one of its files is too long for Spark.
    """
    with _translated_errors(spark, uri, "read"):
        root = _root(spark, uri)
        hidden = _hidden_folders(spark, root)
        sizes = _sizes(binary(spark, root, *hidden), root)
        _require_readable(uri, sizes)
        mirror = folder / PurePosixPath(root).name
        targets = _targets(mirror, sizes)
        for name, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
            os.truncate(target, sizes[name])
        segments = {name: size for name, size in sizes.items() if _SEGMENT.fullmatch(name)}
        far = segments if sum(segments.values()) > SEGMENTS_MAX else {}
        for name, start, data in _bring_files(spark, root, dict(sizes.items() - far.items())):
            with targets[name].open("r+b") as file:
                file.seek(start)
                file.write(data)
        digests = _digests(spark, root, hidden) if far else {}
    return RemoteRun(mirror, root, digests)


def send_back(spark: SparkSession, run: RemoteRun) -> None:
    """Write the results about a run into its folder, the verdict last.

    Spark writes each file as a folder that contains the file's content as one part. If the
    anomalies are too many for this process, Spark has already written them into the run's folder.

    Raises:
        HarnessError: Spark cannot write into the run's folder.
    """
    with _translated_errors(spark, run.uri, "written"):
        if run.anomalies.exists():
            frame = spark.createDataFrame(pq.read_table(run.anomalies).combine_chunks())
            frame.coalesce(1).write.mode("overwrite").parquet(run.uri_of(run.anomalies))
        verdict = run.analysis / "verdict.json"
        others = {run.report, *run.analysis.glob("*.json")} - {verdict}
        for path in (*sorted(others), verdict):
            if path.exists():
                _write_text(spark, path.read_bytes().decode(), run.uri_of(path))


def _root(spark: SparkSession, uri: str) -> str:
    """Return the path of the run's directory, in the form that Spark lists."""
    paths = _paths(spark, f"{uri.rstrip('/')}/plan.json")
    if paths is None:
        binary(spark, uri)  # raises a clearer error if the folder does not exist
        raise NotThereError(f"{uri} is not a run directory", hint="It has no plan.json.")
    (plan,) = paths
    return plan.removesuffix("/plan.json")


def _paths(spark: SparkSession, path: str) -> list[str] | None:
    try:
        return paths_of(binary(spark, path))  # a Connect session raises the error only here
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None


def _hidden_folders(spark: SparkSession, root: str) -> list[str]:
    """Return folders that Spark does not list by itself, such as topics named ``_…``."""
    path = f"{root}/{manifest.NAME}"
    if _paths(spark, path) is None:
        return []
    try:
        [row] = binary(spark, path).select("content").collect()
        names = msgspec.json.decode(row.content, type=Manifest).files
    except (ValueError, msgspec.DecodeError):
        return []  # the judge reports that the manifest cannot be read
    paths = {f"{root}/{folder[0]}" for folder in map(_HIDDEN.match, names) if folder}
    return [folder for folder in sorted(paths) if _paths(spark, folder) is not None]


def _sizes(files: DataFrame, root: str) -> dict[str, int]:
    sizes = dict.fromkeys(paths_of(files), 0)
    sizes |= {row.path: row.length for row in files.select("path", "length").collect()}
    return {path.removeprefix(f"{root}/"): size for path, size in sizes.items()}


def _require_readable(uri: str, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        most = FILE_BYTES_MAX if _SEGMENT.fullmatch(name) else MIRRORED_MAX
        if size > most:
            raise HarnessError(
                f"{uri}/{name} has {size:,} bytes, but Spark can read files of at most {most:,} "
                "bytes",
                hint="Copy the run to a folder on this machine, and name that folder.",
            )


def _targets(mirror: Path, names: Iterable[str]) -> dict[str, Path]:
    """Return the local path of each file. A folder with one part file of Spark becomes one file."""
    targets = {name: _PART.sub("", name) for name in names}
    parts = Counter(targets.values())
    return {name: mirror / (part if parts[part] == 1 else name) for name, part in targets.items()}


def _bring_files(
    spark: SparkSession, root: str, sizes: Mapping[str, int]
) -> Iterator[tuple[str, int, bytes]]:
    """Yield pieces of files: the file's name, the piece's position in the file, and its bytes."""
    files = contents(spark, [f"{root}/{name}" for name in sizes])
    if (parts := sum(sizes.values()) // _BATCH_BYTES) > 0:  # Spark sends one partition at a time
        files = files.repartition(1 + parts)
    for row in files.toLocalIterator():
        yield row.path.removeprefix(f"{root}/"), row.start, row.piece


def _digests(spark: SparkSession, root: str, hidden: Sequence[str]) -> dict[str, RecordedFile]:
    files = binary(spark, f"{root}/replicas", *hidden).where(
        F.col("path").rlike(f"{_SEGMENT.pattern}$")
    )
    digests = files.select("path", F.length("content"), F.sha2("content", 256)).collect()
    return {
        path.removeprefix(f"{root}/"): RecordedFile(bytes=size, sha256=digest)
        for path, size, digest in digests
    }


def _write_text(spark: SparkSession, text: str, uri: str) -> None:
    """Write a text file. Spark ends it with a separator, so its last character is the separator."""
    row = spark.createDataFrame([(text[:-1],)], "value string").coalesce(1)
    row.write.mode("overwrite").text(uri, lineSep=text[-1])


@contextmanager
def _translated_errors(spark: SparkSession, uri: str, done: str) -> Iterator[None]:
    try:
        yield
    except HighwaterError:
        raise
    except Exception as error:
        why, hint = _NOISE.sub("", first_line(error)).rstrip("."), _HINT
        try:
            spark.sql("SELECT 1").collect()
        except Exception:  # noqa: BLE001 - any error here means that Spark has ended
            why = "Spark ended"
            hint = (
                "Spark holds several complete copies of a file in memory: give it more with "
                "--driver-memory."
            )
        raise HarnessError(f"{uri} cannot be {done}: {why}", hint=hint) from error
