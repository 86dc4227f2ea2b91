"""How many jobs of Spark's a small judgement takes: each costs a tenth of a second and more."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater.checkers.jepsen import judge as jepsen
from highwater.checkers.jepsen.history_file import History
from highwater.checkers.judge import judge
from tests.histories.stories import fork, loss
from tests.unit.checkers.test_conservation import EDN, whole

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def last_job(spark: SparkSession) -> int:
    """The number of the newest job; they are counted from 0."""
    found = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return max((found.apply(nth).jobId() for nth in range(found.size())), default=-1)


@pytest.mark.parametrize(
    ("make", "most"),
    [(whole, 8), pytest.param(loss, 12, marks=pytest.mark.nightly), (fork, 12)],
)
def test_of_a_run(make: object, most: int, tmp_path: Path, spark: SparkSession) -> None:
    assert callable(make)
    run, before = make(tmp_path / "run"), last_job(spark)
    judge([run], spark)
    assert 0 < last_job(spark) - before <= most


def history(operations: int, *, skips: bool) -> str:
    """Three producers and five readers; some of these leave out a record, which nobody reads."""
    told = []
    for number in range(operations):
        key, offset = number % 5, number // 5
        told.append(
            f"{{:type :ok, :f :send, :value [[:send {key} [{offset} {number}]]],"
            f" :process {number % 3}, :time {2 * number}}}"
        )
        if not (skips and number % 97 == 50):
            told.append(
                f"{{:type :ok, :f :poll, :value [[:poll {{{key} [[{offset} {number}]]}}]],"
                f" :process {5 + key}, :time {2 * number + 1}}}"
            )
    return "\n".join(told)


@pytest.mark.parametrize(
    ("text", "verdict", "most"),
    [
        (EDN, "valid", 1),
        (history(2_000, skips=False), "valid", 1),
        (history(2_000, skips=True), "invalid", 20),
    ],
    ids=["two", "valid", "invalid"],
)
def test_of_a_history_of_jepsens(
    text: str, verdict: str, most: int, tmp_path: Path, spark: SparkSession
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(text)
    found = History(path)
    read = found.to_parquet(tmp_path / jepsen.OPERATIONS_FILE)
    before = last_job(spark)
    judged = jepsen.judge(found, read, spark, tmp_path)
    assert judged.verdict == verdict
    assert last_job(spark) - before <= most
