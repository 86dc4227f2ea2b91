"""Runs at a URI: what is mirrored, what Spark reads of them, and what is written back."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from highwater.api import JudgedRun, check
from highwater.checkers import anomaly_files
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.remote_runs import RemoteRun, fetch, send_back
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark import kafka_log
from highwater.checkers.spark.engine import Engine, Rows
from highwater.harness.base.errors import HarnessError, NotThereError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs import manifest
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import UnusedFile
from tests.histories import stories
from tests.support import judged
from tests.support.run_builder import RunBuilder

pytestmark = pytest.mark.spark

ODD = "a run+b 100%20 {1}[x] für"
SEGMENT = "replicas/1/events-0/00000000000000000000.log"


def built(path: Path, *, topic: str = "events", partitions: int = 1) -> Run:
    """A calm run with a manifest; the replicas of a second partition are empty."""
    builder = RunBuilder(path, topic=Topic(name=topic, partitions=partitions))
    builder.leader(1, 0, [1, 2, 3])
    builder.everywhere([(0, 0, "a"), (1, 0, "b")])
    builder.fence(2)
    builder.disk((1, 2, 3), [(2, 0, "fence-0")])
    run = builder.write()
    builder.checkpoint(1, {0: 3})
    rows = {name: len(found) for name, found in builder.rows.items()}
    digest = manifest.record(run, rows)
    run.write_struct("status.json", msgspec.structs.replace(run.status(), manifest=digest))
    return run


def files(path: Path) -> dict[str, bytes]:
    found = (
        one for one in path.rglob("*") if one.is_file() and not one.name.startswith((".", "_"))
    )
    return {one.relative_to(path).as_posix(): one.read_bytes() for one in found}


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found = [row.asDict(recursive=True) for row in frame.collect()]
    return sorted(found, key=lambda row: [str(row[name]) for name in sorted(row)])


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No segment is so short that it is brought here."""
    monkeypatch.setattr("highwater.checkers.remote_runs.SEGMENTS_MAX", 0)


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_all_is_mirrored(scheme: str, spark: SparkSession, tmp_path: Path) -> None:
    run = built(tmp_path / ODD, partitions=2)
    fetched = fetch(spark, f"{scheme}{run.path}/", tmp_path / "mirror")
    assert fetched.name == run.name
    assert files(fetched.path) == files(run.path)
    assert fetched.disks_here
    assert manifest.verify(fetched, fetched.digests) == ()


@pytest.mark.usefixtures("large")
def test_large_segments_are_sparse_files_in_the_mirror(spark: SparkSession, tmp_path: Path) -> None:
    run = built(tmp_path / ODD, partitions=2)
    fetched = fetch(spark, f"file://{run.path}", tmp_path / "mirror")
    expected, found = files(run.path), files(fetched.path)
    assert {name: len(found[name]) for name in found} == {
        name: len(expected[name]) for name in expected
    }
    sparse = {name for name in found if found[name] != expected[name]}
    assert sparse == {SEGMENT.replace("/1/", f"/{broker}/") for broker in (1, 2, 3)}
    assert not any(any(found[name]) for name in sparse)
    assert not fetched.disks_here
    assert manifest.verify(fetched, fetched.digests) == ()


@pytest.mark.parametrize("most", [pytest.param(1 << 30, marks=pytest.mark.nightly), 0])
def test_a_topic_that_spark_hides_is_read(
    most: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater.checkers.remote_runs.SEGMENTS_MAX", most)
    run = built(tmp_path / "run", topic="__events")
    fetched = fetch(spark, run.path.as_uri(), tmp_path / "mirror")
    assert RunFiles.of(fetched, "r0").unread == []
    [there], [here] = check([run.path.as_uri()]), check([run])
    assert there.verdict.reasons == here.verdict.reasons


def test_a_hidden_folder_that_is_not_there_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    run = built(tmp_path / "run", topic="__events")
    shutil.rmtree(run.path / "replicas/1/__events-0")
    fetched = fetch(spark, run.path.as_uri(), tmp_path / "mirror")
    (unread,) = RunFiles.of(fetched, "r0").unread
    assert (unread.path, unread.why) == (SEGMENT.replace("events", "__events"), "is missing")


def test_a_file_of_several_pieces_is_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater.checkers.spark.binary_files._PIECE", 1000)
    monkeypatch.setattr("highwater.checkers.remote_runs._BATCH_BYTES", 1500)
    run = built(tmp_path / "run")
    text = "".join(map(str, range(2000)))
    (run.path / "logs").mkdir()
    for name in ("logs/clients.log", "logs/other.log"):
        (run.path / name).write_text(text)
    fetched = fetch(spark, run.path.as_uri(), tmp_path / "mirror")
    assert files(fetched.logs) == {"clients.log": text.encode(), "other.log": text.encode()}
    case = RunFiles.of(fetched, "r0")
    tables = Tables.load([fetched], spark)
    assert case.unread == [
        UnusedFile(path="logs/clients.log", why="was not recorded in the manifest")
    ]
    assert rows(tables.log) == rows(Tables.load([Run(run.path)], spark).log)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), "its SHA-256 differs"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes instead of"),
        (lambda path: path.write_bytes(b""), "0 bytes instead of"),
        (Path.unlink, "is missing"),
    ],
)
def test_a_segment_that_is_not_what_was_recorded_is_no_evidence(
    spoil: Callable[[Path], object], why: str, spark: SparkSession, tmp_path: Path
) -> None:
    run = built(tmp_path / "run")
    spoil(run.path / SEGMENT)
    fetched = fetch(spark, run.path.as_uri(), tmp_path / "mirror")
    (unread,) = RunFiles.of(fetched, "r0").unread
    assert (unread.path, why in unread.why) == (SEGMENT, True)


def test_tables_and_segments_of_paths_and_uris_are_read_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    here = [built(tmp_path / name / ODD) for name in ("one", "two")]
    there = [
        fetch(spark, f"file://{run.path}", tmp_path / "mirrors" / str(number))
        for number, run in enumerate(here)
    ]
    runs = [*here, *there, there[0]]
    cases = [RunFiles.of(run, f"r{number}") for number, run in enumerate(runs)]
    tables = Tables(Engine(spark), tmp_path, cases)
    for name, frame in (("history/ops", tables.ops), ("events/partitions", tables.partitions)):
        expected = len(here[0].table(name))
        counted = frame.groupBy("run").count().collect()
        assert sorted(map(tuple, counted)) == [(case.key, expected) for case in cases]
    assert [one.remote for case in cases for one in case.segments] == [False] * 6 + [True] * 9
    log = kafka_log.read_segments(
        spark,
        [one for case in cases for one in case.segments],
        ["run", "broker", "offset", "value"],
    )
    found = rows(log)
    of = {
        case.key: [{**row, "run": ""} for row in found if row["run"] == case.key] for case in cases
    }
    assert len(of["r0"]) == 9
    assert all(found == of["r0"] for found in of.values())


def test_a_run_that_was_cut_short_is_read_from_its_streams(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = RunBuilder(tmp_path / "run", phase="running")
    builder.everywhere([(0, 0, "a")])
    run = builder.write(sealed=False)
    found = Tables.load([fetch(spark, run.path.as_uri(), tmp_path / "mirror")], spark)
    assert rows(found.ops) == rows(Tables.load([run], spark).ops)
    assert len(rows(found.ops)) == 2


def test_what_is_sent_back_is_fetched_again(spark: SparkSession, tmp_path: Path) -> None:
    run = built(tmp_path / ODD)
    judged.anomalies(run, {"kind": "lost-write", "value": "ü", "copies": []})
    run.write("analysis/verdict.json", b"old")  # a file, which a folder takes the place of
    fetched = fetch(spark, f"file://{run.path}", tmp_path / "mirror")
    fetched.write("analysis/verdict.json", judged.verdict().to_json())
    fetched.write("analysis/model.json", "{\n\r\n\u2028ü}".encode())
    fetched.report.write_text("<html>\nein Bericht ü", encoding="utf-8")
    send_back(spark, fetched)
    again = fetch(spark, f"file://{run.path}", tmp_path / "again")
    texts = ("analysis/verdict.json", "analysis/model.json", "report.html")
    assert [files(again.path)[name] for name in texts] == [
        files(fetched.path)[name] for name in texts
    ]
    assert again.verdict() == judged.verdict()
    assert pq.read_table(again.analysis / "anomalies.parquet").equals(
        pq.read_table(fetched.analysis / "anomalies.parquet")
    )
    send_back(spark, again)  # over folders
    assert (run.analysis / "verdict.json").is_dir()
    run.write("analysis/verdict.json", judged.verdict().to_json())  # as a judgement here does
    assert run.verdict() == judged.verdict()


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("file:///none/there", "Path does not exist: file:/none/there"),
        ("nosuch://bucket/run", 'No FileSystem for scheme "nosuch"'),
        ("s3a://bucket/run", "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        ("://run", "Expected scheme name at index 0: "),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(
    uri: str, why: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(HarnessError) as told:
        fetch(spark, uri, tmp_path)
    assert told.value.message.startswith(f"{uri} cannot be read: {why}")
    assert "\n" not in told.value.message
    assert "--spark-conf" in told.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_plan_is_no_run(spark: SparkSession, tmp_path: Path) -> None:
    built(tmp_path / "store" / "run")
    with pytest.raises(NotThereError, match="store is not a run directory"):
        fetch(spark, (tmp_path / "store").as_uri(), tmp_path / "mirror")


def test_a_file_that_is_too_long_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater.checkers.remote_runs.MIRRORED_MAX", 10)
    run = built(tmp_path / "run")
    with pytest.raises(HarnessError, match="bytes, but Spark can read files of at most 10 bytes"):
        fetch(spark, run.path.as_uri(), tmp_path / "mirror")
    assert not (tmp_path / "mirror").exists()


def test_where_nothing_can_be_written_is_told(spark: SparkSession, tmp_path: Path) -> None:
    run = built(tmp_path / "run")
    fetched = fetch(spark, run.path.as_uri(), tmp_path / "mirror")
    fetched.write("analysis/verdict.json", judged.verdict().to_json())
    blocked = RemoteRun(fetched.path, f"file:{run.path}/plan.json", {})
    with pytest.raises(HarnessError, match=r"plan\.json cannot be written: ") as told:
        send_back(spark, blocked)
    assert "\n" not in told.value.message


@dataclass(frozen=True)
class Twins:
    """A judged run at a path, and a copy of it that was made before."""

    here: Run
    copy: Path
    answer: JudgedRun


@pytest.fixture(scope="module")
def twins(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    home = tmp_path_factory.mktemp("twins")
    here = stories.fork(home / "here" / ODD)
    copy = shutil.copytree(here.path, home / "copy")
    (answer,) = check([here], spark=SparkOptions(session=spark))
    assert answer.verdict.counts
    return Twins(here, copy, answer)


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1 << 30])
def test_a_run_at_a_uri_is_judged_like_one_at_a_path(
    most: int, twins: Twins, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater.checkers.remote_runs.SEGMENTS_MAX", most)
    there = shutil.copytree(twins.copy, tmp_path / "there" / ODD)
    (found,) = check([f"file://{there}"], spark=SparkOptions(session=spark))
    assert found.verdict == twins.answer.verdict
    assert found.page == f"file:{there}/report.html"
    assert not found.run.path.exists()
    again = fetch(spark, f"file://{there}", tmp_path / "mirror")
    assert again.verdict() == twins.answer.verdict
    assert pq.read_table(again.anomalies).equals(pq.read_table(twins.here.anomalies))
    assert (found.model == twins.answer.model) is (most > 0)
    assert (again.report.read_bytes() == twins.here.report.read_bytes()) is (most > 0)


@pytest.mark.slow
def test_anomalies_too_many_to_be_brought_here_are_written_to_the_uri(
    twins: Twins, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather = anomaly_files.gather

    def many(engine: Engine, finds: Iterable[anomaly_files.Finds]) -> Rows:
        rows = gather(engine, finds)
        engine.here = 0
        return engine.frame(rows.frame(), SCHEMA, len(rows))

    monkeypatch.setattr(anomaly_files, "gather", many)
    there = shutil.copytree(twins.copy, tmp_path / "there" / ODD)
    (found,) = check([f"file://{there}"], spark=SparkOptions(session=spark))
    assert found.verdict == twins.answer.verdict
    again = fetch(spark, f"file://{there}", tmp_path / "mirror")
    found_there, found_here = (pq.read_table(run.anomalies) for run in (again, twins.here))
    assert found_there.to_pylist() == found_here.to_pylist()
    assert found.model is not None
    assert "too large to be copied to this machine" in found.model.to_json().decode()
