"""The scan's hashes against Spark's own, whose values they must be joined with."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients.hashes import SEED, extended

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("word", pa.string()), ("number", pa.int32()), ("long", pa.int64())])
ROWS = 2_000
LENGTHS = 70  # of words: shorter than 4, 8 and 32 bytes, and longer than two times 32


def _rows(rng: random.Random) -> pa.Table:
    def maybe(value: object) -> object:
        return value if rng.random() < 0.9 else None

    rows = [
        {
            "word": maybe("".join(rng.choices("aÄ中😀", k=rng.randrange(LENGTHS)))),
            "number": maybe(rng.randrange(-(2**31), 2**31)),
            "long": maybe(rng.randrange(-(2**63), 2**63)),
        }
        for _ in range(ROWS)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def test_hashes_are_sparks(spark: SparkSession) -> None:
    rows = _rows(random.Random(7))  # noqa: S311 - of made-up rows
    names = SCHEMA.names
    expected = spark.createDataFrame(rows).select(F.xxhash64(*names)).toArrow().column(0)
    hashes = extended(SEED, rows["word"].combine_chunks())
    for name in names[1:]:
        hashes = extended(hashes, rows[name].combine_chunks())
    assert hashes.tolist() == expected.to_pylist()


def test_a_slice_is_hashed_as_what_it_holds() -> None:
    words = pa.array(["a", None, "ccc", "dd", "", "a long word of more than thirty-two bytes"])
    assert extended(SEED, words[2:]).tolist() == extended(SEED, words).tolist()[2:]


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="double is not hashed"):
        extended(SEED, pa.array([1.5]))
