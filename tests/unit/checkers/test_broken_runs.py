"""Runs with missing, broken or cut-short files are judged as far as they go, and never valid."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from highwater.checkers import judge as judging
from highwater.checkers.anomalies.client_checkers import records
from highwater.checkers.catalogue import CHECKERS
from highwater.checkers.core.anomaly import anomalies
from highwater.checkers.core.checker import Checker
from highwater.checkers.judge import judge
from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    LEADER_EPOCH,
    LOG_START,
    RECOVERY_POINT,
)
from highwater.checkers.run_files import RunFiles, stage
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.plan import External, Topic
from highwater.harness.runs.store import MORE_LOG_DIRS, Run
from highwater.harness.runs.verdict import Verdict
from highwater.reports.pages.run import page
from tests.histories.controllers import zookeeper
from tests.histories.stories import fork, loss
from tests.support.run_builder import RunBuilder, listed

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def without(*names: str) -> Callable[[Path], Run]:
    """The story of divergence with some files gone."""

    def build(path: Path) -> Run:
        run = fork(path)
        for name in names:
            (run.path / name).unlink()
        return run

    return build


def _garbage(path: Path) -> Run:
    run = fork(path)
    (run.path / "history/ops.parquet").write_bytes(b"PAR1 is all there is of this")
    return run


def _rotten_page(path: Path) -> Run:
    """The footer is sound; the data before it is not."""
    run = fork(path)
    ops = run.path / "history/ops.parquet"
    data = ops.read_bytes()
    ops.write_bytes(data[:4] + b"\xff" * 300 + data[304:])
    return run


def _wrong_columns(path: Path) -> Run:
    run = fork(path)
    (run.path / "history/ops.parquet").write_bytes(
        (run.path / "events/faults.parquet").read_bytes()
    )
    return run


def _without_replicas(path: Path) -> Run:
    run = fork(path)
    run.replicas.rename(run.path / "elsewhere")
    return run


def _without_a_replica(path: Path) -> Run:
    run = fork(path)
    (run.replicas / "2").rename(run.path / "elsewhere")
    return run


def _other_schema(path: Path) -> Run:
    run = fork(path)
    plan = run.path / "plan.json"
    plan.write_text(plan.read_text().replace('"schema": 1', '"schema": 99'))
    return run


def _cut_short(path: Path) -> Run:
    """Killed while it ran: streams, the last batch of the operations torn."""
    run = RunBuilder(path, phase="running", quiesced=False)
    run.everywhere([(0, 0, "m0"), (1, 0, "m1")])
    built = run.write(sealed=False)
    stream = built.path / "history/ops.arrows"
    whole = stream.read_bytes()
    run.path = path.with_name("donor")
    run.send("m2", 2)
    run.write(sealed=False)
    donor = (run.path / "history/ops.arrows").read_bytes()
    # What the two have in common is the schema; a second batch begins and is never finished.
    stream.write_bytes(whole[:-8] + donor[600:900])
    return built


def _cut_with_two_log_dirs(path: Path) -> Run:
    """Killed while brokers had two log directories; the forked partition is in the second one."""
    topic = Topic(partitions=2)
    run = RunBuilder(path, topic=topic, phase="running", quiesced=False)
    run.everywhere([(0, 0, "m0")])
    run.everywhere([(0, 0, "n0")], partition=1)
    run.disk([1], [(1, 1, "n1")], partition=1)
    run.disk([2, 3], [(1, 0, "n2")], partition=1)
    built = run.write(sealed=False)
    for broker in (1, 2, 3):
        first, second = built.replicas / str(broker), built.path / MORE_LOG_DIRS / f"{broker}/2"
        second.mkdir(parents=True)
        (first / "events-1").rename(second / "events-1")
        for folder, name in ((first, "events 0 1"), (second, "events 1 2")):
            (folder / HIGH_WATERMARK).write_text(f"0\n1\n{name}\n", encoding="ascii")
    return built


def _with_problems(path: Path) -> Run:
    run = RunBuilder(path)
    run.everywhere([(0, 0, "m0")])
    run.status = type(run.status)(
        phase="frozen", quiesced=True, problems=("the HW-lag window was missed",)
    )
    run.fence(1)
    return run.write()


def _foreign_topic(path: Path) -> Run:
    run = RunBuilder(path, topic=Topic(name="a-b.c_d", partitions=2))
    run.everywhere([(0, 0, "m0")], partition=1)
    run.fence(0)
    run.fence(1, partition=1)
    return run.write()


def _copyless(path: Path) -> Run:
    """On a cluster of somebody's, who has no command to copy disks."""
    run = RunBuilder(path)
    run.everywhere([(0, 0, "m0")])
    run.leader(1, 0, [1, 2, 3])
    run.fence(1)
    written = run.write()
    shutil.rmtree(written.replicas)
    target = External(inventory="x", cluster_id="y", brokers=(1, 2, 3), commands=("kill", "start"))
    plan = msgspec.structs.replace(written.plan(), driver="external", external=target)
    written.write("plan.json", plan.to_json())
    return written


def _without_the_middle(path: Path) -> Run:
    """All replicas have what the final read returned, in three segments; one copy lacks one."""
    run = RunBuilder(path)
    run.everywhere([(0, 0, "m0"), (1, 0, "m1")])
    run.leader(1, 0, [1, 2, 3])
    run.disk([1, 2, 3], [(2, 0, "fence-0")])
    run.fence(2)
    written = run.write()
    for replica in written.replicas.glob("*/events-0"):
        data = (replica / f"{0:020d}.log").read_bytes()
        size = len(data) // 3
        for base in range(3):
            (replica / f"{base:020d}.log").write_bytes(data[base * size : (base + 1) * size])
    (written.replicas / "2" / "events-0" / f"{1:020d}.log").unlink()
    return written


CASES: dict[str, tuple[Callable[[Path], Run], str, set[str]]] = {
    "no-ops": (without("history/ops.parquet"), "history/ops.parquet is missing", {"divergence"}),
    "no-events": (
        without(*(f"events/{name}.parquet" for name in ("partitions", "replicas", "faults"))),
        "events/faults.parquet is missing",
        {"divergence", "lost-write"},
    ),
    "garbage": (_garbage, "history/ops.parquet cannot be read", {"divergence"}),
    "wrong-columns": (_wrong_columns, "has no usable column process", {"divergence"}),
    "no-replicas": (_without_replicas, "replicas/ is missing", {"lost-write"}),
    "no-replica-2": (_without_a_replica, "2 of the 3 replicas", {"divergence", "lost-write"}),
    "no-middle": (
        _without_the_middle,
        f"replicas/2/events-0 lacks a segment between {0:020d}.log and {2:020d}.log: no segment",
        set(),
    ),
    "no-status": (without("status.json"), "has no status.json", set()),
    "no-plan": (without("plan.json"), "has no plan.json", set()),
    "other-schema": (_other_schema, "store schema 99", set()),
    "cut-short": (_cut_short, "ended early, in its phase running", set()),
    "cut-log-dirs": (_cut_with_two_log_dirs, "ended early, in its phase running", {"divergence"}),
    "problems": (_with_problems, "The HW-lag window was missed.", set()),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Every broken run, and sound ones."""
    folder = tmp_path_factory.mktemp("broken")
    builders = {name: build for name, (build, _, _) in CASES.items()}
    builders |= {"sound": loss, "foreign topic: 100% odd = name": _foreign_topic}
    builders |= {"copyless": _copyless, "zookeeper": zookeeper}
    return {name: build(folder / name) for name, build in builders.items()}


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, runs: dict[str, Run]) -> dict[str, Verdict]:
    """All of them, judged together."""
    return dict(zip(runs, judge([*runs.values()], spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_broken_run_is_unknown_and_says_why(name: str, verdicts: dict[str, Verdict]) -> None:
    _, reason, kinds = CASES[name]
    verdict = verdicts[name]
    assert verdict.verdict == "unknown"
    assert any(reason in text for text in verdict.reasons), verdict.reasons
    assert {anomaly.kind for anomaly in verdict.anomalies} >= kinds
    assert "Traceback" not in "".join(verdict.reasons)


def test_an_incomplete_replica_is_accused_of_nothing(verdicts: dict[str, Verdict]) -> None:
    """In what other ways a copy may be incomplete: tests/property/test_incomplete_runs.py."""
    assert verdicts["no-middle"].anomalies == ()
    assert "kept all 2 acknowledged records" in verdicts["no-middle"].headline


def test_a_gap_is_the_brokers_own_where_a_list_says_that_all_files_are_there(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    run = Run(shutil.copytree(runs["no-middle"].path, tmp_path / "run"))
    for compared in (["1", "3"], ["1", "2", "3"]):
        case = RunFiles.of(run, "r0")
        stage(case, run.path)
        assert [folder.parent.name for folder in case.replicas] == compared
        listed(run)


def test_cut_short_run_is_judged_to_its_last_whole_batch(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["cut-short"]
    assert verdict.ledger.sent == 2
    assert any("up to their last complete batch" in reason for reason in verdict.reasons)


def test_a_cut_run_is_judged_in_all_log_directories(
    verdicts: dict[str, Verdict], runs: dict[str, Run]
) -> None:
    verdict, run = verdicts["cut-log-dirs"], runs["cut-log-dirs"]
    assert not [reason for reason in verdict.reasons if "not compared" in reason]
    [fork] = [anomaly for anomaly in verdict.anomalies if anomaly.kind == "divergence"]
    assert (fork.partition, fork.offset) == (1, 1)
    assert (run.path / MORE_LOG_DIRS / "1/2/events-1").is_dir()  # the run is left as it was
    assert not (run.replicas / "1" / "events-1").exists()


def test_broken_runs_do_not_spoil_a_sound_one(verdicts: dict[str, Verdict]) -> None:
    assert verdicts["sound"].verdict == "invalid"
    assert verdicts["sound"].counts["lost-write"] == 1


def test_where_no_disk_could_be_copied_clients_alone_are_asked(
    verdicts: dict[str, Verdict],
) -> None:
    verdict = verdicts["copyless"]
    says = "No disk was compared: the inventory has no command to copy one."
    assert (verdict.verdict, verdict.reasons, verdict.ledger.read) == ("valid", (says,), 1)
    held = {name for name, outcome in verdict.checkers.items() if outcome == "held"}
    unread = {name for name, says in verdict.checkers.items() if says.startswith("not judged: ")}
    disks = {"divergence", "coordinator-divergence", "corrupt", "missing"}
    others = {"metadata-divergence", "lost-decision", "remote-divergence", "undelivered"}
    others |= {"torn-transaction", "processed-twice", "unprocessed"}
    others |= {"two-owners", "lost-commit", "stale-commit", "given-again"}
    others |= {"coordinator-contradiction", "foreign-offset"}
    others |= {"two-holders", "acknowledged-again", "over-delivered", "never-given"}
    others |= {"resurrected-value", "stale-replica"}
    others |= {"lost-input", "half-input", "doubled-input", "unreached-input", "strange-output"}
    others |= {"repeated-input", "overtaken-input", "lost-output", "doubled-output"}
    others |= {"aborted-input", "unfinished-transaction", "vanished", "wrong-lookup"}
    assert unread == disks | others | {"repeated-sequence"}
    assert {"lost-write", "unseen", "shared-epoch"} <= held
    assert verdict.checkers["corrupt"] == "not judged: no disk was copied"


def test_what_a_whole_run_does_not_have_is_not_judged_and_its_page_says_so(
    verdicts: dict[str, Verdict], runs: dict[str, Run]
) -> None:
    verdict = verdicts["zookeeper"]
    says = "not judged: no metadata log of a KRaft controller was copied"
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    assert verdict.checkers["metadata-divergence"] == says
    assert verdict.checkers["lost-decision"] == "held"
    assert f'<span class="result crashed">? {says}</span>' in page(runs["zookeeper"])


def test_odd_names_of_runs_and_topics_do_no_harm(verdicts: dict[str, Verdict]) -> None:
    assert verdicts["foreign topic: 100% odd = name"].verdict == "valid"


def test_rotten_data_crash_their_own_checkers_only(spark: SparkSession, tmp_path: Path) -> None:
    runs = [_rotten_page(tmp_path / "rotten"), loss(tmp_path / "sound")]
    rotten, sound = judge(runs, spark)
    assert rotten.verdict == "unknown"
    assert rotten.checkers["lost-write"].startswith("crashed: ")
    assert rotten.checkers["divergence"] == "found 1"
    assert any("the run has no ledger" in reason for reason in rotten.reasons)
    assert sound.verdict == "invalid"
    assert sound.checkers["lost-write"] == "found 1"


@pytest.mark.timeout(120)
def test_a_fifo_among_the_replicas_keeps_no_judge_waiting(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In place of a segment, and of each file that brokers write beside it."""
    run = RunBuilder(tmp_path / "run")
    run.everywhere([(0, 0, "m0")])
    run.fence(1)
    built = run.write()
    (log,) = (built.replicas / "2").glob("events-0/*.log")
    log.unlink()
    beside = [built.replicas / "1" / name for name in (HIGH_WATERMARK, RECOVERY_POINT, LOG_START)]
    for path in (log, *beside, built.replicas / "1/events-0" / LEADER_EPOCH):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    (verdict,) = judge([built], spark)
    assert verdict.verdict != "valid"
    assert "it is a FIFO, not a file" in str(verdict)


def _explode(_: Tables) -> DataFrame:
    raise RuntimeError("the checker's own fault")


def _explode_later(tables: Tables) -> DataFrame:
    return anomalies(
        tables.operations, "duplicate", value=F.raise_error(F.lit("in the middle")).cast("string")
    )


def test_crashed_checkers_are_named_and_the_others_still_judge(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {"unseen": _explode, "duplicate": _explode_later}
    apart = [Checker(bad.get(kind.name, records.find), (kind,)) for kind in records.kinds]
    others = [one for one in CHECKERS if one is not records]
    monkeypatch.setattr(judging, "all_checkers", lambda: (*apart, *others))
    run = RunBuilder(tmp_path / "run")
    run.everywhere([(0, 0, "m0")])
    run.send("m1", 1)
    run.read("m0", 2)
    run.disk([1], [(1, 0, "m1")])
    run.fence(3)
    (verdict,) = judge([run.write()], spark)
    assert verdict.verdict == "unknown"
    assert verdict.checkers["unseen"] == "crashed: the checker's own fault"
    assert "in the middle" in verdict.checkers["duplicate"]
    assert verdict.checkers["lost-write"] == "found 1"
    assert verdict.checkers["divergence"] == "held"
