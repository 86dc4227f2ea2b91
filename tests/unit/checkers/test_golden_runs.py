"""Tiny hand-written runs (tests/histories) and the verdicts that a person wrote beside them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from highwater.checkers.spark import engine
from highwater.console import COLOURS
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import Verdict
from tests.histories.golden import GOLDEN, Golden

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """Every golden run, judged together in one pass."""
    folder = tmp_path_factory.mktemp("golden")
    runs = [golden.build(folder / golden.name) for golden in GOLDEN]
    found = judge(runs, spark)
    return {golden.name: verdict for golden, verdict in zip(GOLDEN, found, strict=True)}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_verdict_is_as_written(golden: Golden, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[golden.name]
    found = {
        (anomaly.kind, anomaly.partition, anomaly.offset, anomaly.value)
        for anomaly in verdict.anomalies
    }
    assert found == set(golden.anomalies)
    assert {anomaly.kind for anomaly in verdict.anomalies if anomaly.breaks} == golden.breaking
    assert verdict.verdict == golden.verdict, verdict.reasons
    for words in golden.says:
        assert any(words in text for text in (*verdict.reasons, verdict.headline)), words
    assert sum(verdict.counts.values()) == len(golden.anomalies)
    assert not verdict.ledger.errors()


def test_a_record_that_is_gone_is_described_by_what_readers_saw(
    verdicts: dict[str, Verdict],
) -> None:
    (gone,) = verdicts["others-topic-replaced"].anomalies
    assert gone.sentence == (
        "Let R be b, read by consumer-0 at offset 6 of orders-0. However, x was read later at R's"
        " offset. The final reader passed R's offset and did not receive R: R is gone."
    )
    assert {witness.what for witness in gone.witnesses} == {"read", "kill", "healed", "passed"}
    assert not any("acknowledged" in witness.says for witness in gone.witnesses)


@pytest.mark.parametrize(
    ("golden", "says"),
    [
        ("restless-below-hw", "This offset is below the HW of every replica that holds it"),
        (
            "quiesced-above-hw",
            "This offset is not below the HW that broker 1 (3) had last checkpointed.",
        ),
    ],
)
def test_a_divergence_says_whether_it_was_committed(
    golden: str, says: str, verdicts: dict[str, Verdict]
) -> None:
    (fork,) = verdicts[golden].anomalies
    assert says in fork.sentence


@pytest.mark.nightly  # tests of single kernels run them by Spark's tasks each day
def test_it_is_all_one_who_runs_the_kernels(
    spark: SparkSession,
    verdicts: dict[str, Verdict],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "HERE_ROWS", 40)
    runs = [golden.build(tmp_path / golden.name) for golden in GOLDEN]
    for golden, found in zip(GOLDEN, judge(runs, spark), strict=True):
        assert found.anomalies == verdicts[golden.name].anomalies
        assert found.ledger == verdicts[golden.name].ledger


def test_verdict_is_saved_as_it_was_returned(verdicts: dict[str, Verdict], tmp_path: Path) -> None:
    golden = next(golden for golden in GOLDEN if golden.name == "story-of-loss")
    verdict = verdicts[golden.name]
    run = Run(tmp_path / "saved")
    run.write("analysis/verdict.json", verdict.to_json())
    assert run.verdict() == verdict


def test_a_loss_without_a_promise_has_its_own_word(verdicts: dict[str, Verdict]) -> None:
    words = {
        name: verdicts[name].word for name in ("calm", "story-of-loss", "acks-1-after-a-fault")
    }
    assert words == {
        "calm": "valid",
        "story-of-loss": "invalid",
        "acks-1-after-a-fault": "valid, with losses",
    }
    summary = verdicts["acks-1-after-a-fault"].summary(None)
    assert (summary["verdict"], summary["word"]) == ("valid", "valid, with losses")
    lossy = [verdict for verdict in verdicts.values() if verdict.word == "valid, with losses"]
    assert all("promise" in verdict.headline for verdict in lossy)
    assert set(COLOURS) == {*(verdict.word for verdict in verdicts.values()), "unknown"}
    assert COLOURS["valid, with losses"] != COLOURS["valid"]
