"""What the model says of a scripted run: as predicted, not reproduced, or not explained."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from highwater.checkers.explain.reconcile import as_random, as_scripted
from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.checkers.model.report_types import FORMAT, PartitionOutcome, Reconciliation
from highwater.checkers.model.schedules.script import ScriptSettings, play
from highwater.harness.base.errors import StoreError
from highwater.harness.runs.store import Run
from highwater.nemesis.stories.registry import STORIES
from highwater.reports.model_text import rule_word, sentence
from highwater.runtime.prediction_check import reconcile
from tests.support.judged import anomalies, verdict
from tests.support.run_builder import RunBuilder

M0123 = [(0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2"), (3, 0, "m3")]
KEPT = PartitionOutcome(logs=dict.fromkeys("ABC", ("m0", "m1", "m2", "m3")))


def kept(path: Path, change: Callable[[RunBuilder], None] = lambda _: None) -> Run:
    """A run of the story ``loss`` in which nothing was lost, unless something is changed in it."""
    run = RunBuilder(path, kafka="4.3.1")
    run.plan = msgspec.structs.replace(run.plan, story="loss")
    run.leader(1, 0, [1, 2, 3])
    run.everywhere(M0123)
    run.fence(4)
    run.disk([1, 2, 3], [(4, 0, "fence-0")])
    change(run)
    built = run.write()
    anomalies(built)
    return built


def test_what_was_predicted_record_by_record_is_as_predicted(tmp_path: Path) -> None:
    answer = as_scripted(kept(tmp_path / "run"), verdict(), KEPT)
    assert (answer.status, answer.differences, answer.absent) == ("as-predicted", (), ())
    assert answer.predicted is not None
    assert answer.predicted.logs == answer.observed.logs
    assert Reconciliation.from_json(answer.to_json()) == answer


def test_the_judge_asks_the_model_itself(tmp_path: Path) -> None:
    run = kept(tmp_path / "run")
    assert reconcile(run, verdict()).status == "as-predicted"
    saved = Reconciliation.from_json((run.analysis / "model.json").read_bytes())
    assert (saved.kind, saved.kafka, saved.format) == ("scripted", "4.3.1", FORMAT)


def test_rules_by_an_old_protocol_are_called_that(tmp_path: Path) -> None:
    def half_done(run: RunBuilder) -> None:
        settings = {"kafka": "0.10.2.2", "to": ("0.11.0.3",), "protocol": "0.10.2"}
        run.plan = msgspec.structs.replace(run.plan, **settings)

    run = kept(tmp_path / "run", half_done)
    answer = reconcile(run, verdict(kafka="0.11.0.3"))
    assert (answer.kafka, answer.protocol, answer.written) == ("0.11.0.3", "0.10.2", "")
    assert sentence(answer).startswith(
        "By the rules of Kafka 0.11.0.3 speaking protocol 0.10.2, m3 is lost and nothing forks."
    )
    assert rule_word("epochs", answer) == "epochs: off"
    both = msgspec.structs.replace(answer, written="0.9.0")
    assert both.software == "Kafka 0.11.0.3 speaking protocol 0.10.2 and writing format 0.9.0"
    own = msgspec.structs.replace(answer, protocol="")
    assert own.software == "Kafka 0.11.0.3"
    assert rule_word("epochs", own) == "epochs"


def test_an_answer_of_before_protocols_were_named_is_read(tmp_path: Path) -> None:
    answer = as_random(kept(tmp_path / "run"), verdict())
    fields = msgspec.json.decode(answer.to_json())
    older = {name: fields[name] for name in fields if name not in ("protocol", "written")}
    assert Reconciliation.from_json(msgspec.json.encode(older)) == answer


def test_what_was_predicted_and_is_not_there_was_not_reproduced(tmp_path: Path) -> None:
    old = play(STORIES["divergence"].script, ScriptSettings(rules=rules_of("0.10.2.2")))
    answer = as_scripted(kept(tmp_path / "run"), verdict(), old)
    assert answer.status == "not-reproduced"
    assert answer.absent == (
        "The model predicted the loss of m3, but it was not lost.",
        "The model predicted different records at offset 3, but the replicas agree there.",
    )
    assert {(one.offset, one.predicted, one.observed) for one in answer.differences} == {
        (3, "m4", "m3")
    }


def test_other_logs_with_nothing_lost_are_unexplained(tmp_path: Path) -> None:
    predicted = PartitionOutcome(logs=dict.fromkeys("ABC", ("m0", "m1", "m2", "m3", "m4")))
    answer = as_scripted(kept(tmp_path / "run"), verdict(), predicted)
    assert answer.status == "unexplained"
    assert {(one.offset, one.predicted, one.observed) for one in answer.differences} == {
        (4, "m4", None)
    }


def test_a_loss_that_the_model_does_not_know_is_unexplained(tmp_path: Path) -> None:
    run = kept(tmp_path / "run")
    (run.analysis / "anomalies.parquet").unlink()
    run.analysis.rmdir()
    row = {"kind": "lost-write", "topic": "events", "partition": 0, "offset": 2, "value": "m2"}
    anomalies(run, row)
    answer = as_scripted(run, verdict("invalid"), KEPT)
    assert answer.status == "unexplained"
    (finding,) = answer.findings
    assert (
        finding.because[-1].says
        == "The model, which executes the same script, does not predict this."
    )
    assert any("holds the record" in link.says for link in finding.because)


def test_a_missed_schedule_was_not_reproduced(tmp_path: Path) -> None:
    def miss(run: RunBuilder) -> None:
        problems = ("the window was missed",)
        run.status = msgspec.structs.replace(run.status, problems=problems)

    answer = as_scripted(kept(tmp_path / "run", miss), verdict("unknown"), KEPT)
    assert (answer.status, answer.reasons) == ("not-reproduced", ("the window was missed",))


def test_what_nobody_could_judge_is_not_known(tmp_path: Path) -> None:
    run = kept(tmp_path / "run")
    assert as_random(run, verdict("unknown")).status == "unknown"
    assert as_random(run, verdict("unknown")).reasons == ("The reader came late.",)


@pytest.mark.parametrize("table", ["history/ops", "events/replicas", "events/log_lines"])
def test_without_its_tables_nothing_of_a_run_is_known(tmp_path: Path, table: str) -> None:
    run = kept(tmp_path / "run")
    run.parquet(table).write_bytes(b"torn")
    answer = as_random(run, verdict())
    assert answer.status == "unknown"
    assert any(table in reason for reason in answer.reasons)


def test_a_release_that_the_model_does_not_know_is_no_error(tmp_path: Path) -> None:
    def rename(run: RunBuilder) -> None:
        run.plan = msgspec.structs.replace(run.plan, kafka="9.9.9")

    answer = reconcile(kept(tmp_path / "run", rename), verdict(kafka="9.9.9"))
    assert (answer.status, answer.kind) == ("unknown", "random")
    assert "9.9.9" in answer.reasons[0]


def test_another_format_is_refused() -> None:
    text = b'{"format": 99, "run": "r", "kafka": "k", "kind": "random", "status": "unknown",'
    with pytest.raises(StoreError, match="format 99"):
        Reconciliation.from_json(text + b' "observed": {}}')
    with pytest.raises(StoreError, match="cannot be decoded"):
        Reconciliation.from_json(b"{")
