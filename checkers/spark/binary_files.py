"""Read files with Spark's source ``binaryFile``, in pieces that fit into Arrow and a driver.

While Spark reads a file, it has several complete copies in memory.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import IO, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

_PIECE: Final = 16 << 20


def binary(spark: SparkSession, *paths: str) -> DataFrame:
    """Return files, and all files below folders. Names that begin with . or _ are left out."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    return reader.load([literal(path) for path in paths])


def paths_of(files: DataFrame) -> list[str]:
    """Return the paths of files, as Spark writes them. Empty files are missing."""
    return [re.sub("^([^:/]+):///", r"\1:/", unquote(file)) for file in files.inputFiles()]


def contents(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the bytes of files, as rows ``path, start, piece``.

    One task has all pieces of a file, in order.

    Args:
        spark: a session of any kind.
        paths: the files' paths, as Spark writes them.
    """
    files = binary(spark, *paths)
    starts = F.sequence(F.lit(0).cast("long"), F.col("length") - 1, F.lit(_PIECE).cast("long"))
    rows = files.select("path", "content", F.explode(starts).alias("start"))
    piece = F.substring("content", (F.col("start") + 1).cast("int"), F.lit(_PIECE))
    return rows.select("path", "start", piece.alias("piece"))


def whole_files(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the path and an open temporary copy of each file in the rows of ``contents``."""
    pieces = (
        pair
        for batch in batches
        for pair in zip(batch["path"].to_pylist(), batch["piece"], strict=True)
    )
    for path, of_file in groupby(pieces, key=itemgetter(0)):
        with tempfile.TemporaryFile() as file:
            for _, piece in of_file:
                file.write(piece.as_buffer())
            yield path, file


def literal(path: str) -> str:
    """Return a path in which the characters of Spark's file name patterns are escaped."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
