"""What the model says of a run: on its page, on a terminal, in JSON, in the demo's exit code."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from highwater import console
from highwater.api import JudgedRun
from highwater.campaigns.matrix_run import row_of
from highwater.checkers.core.anomaly_kinds import MISTAKE
from highwater.checkers.model.report_types import Reconciliation
from highwater.cli.demo import demo_table, exit_code
from highwater.harness.base.errors import StoreError
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.harness.runs.verdict import Witness
from highwater.reports import model_text
from highwater.reports.pages.run import write
from highwater.reports.text import logged
from tests.browser import predicted
from tests.browser.samples import SAMPLES
from tests.support.html_pages import words

SAID = {
    "as predicted": predicted.as_predicted("r"),
    "unexplained": predicted.unexplained("r"),
    "not reproduced": predicted.not_reproduced("r"),
}


def judged(folder: Path, said: Reconciliation | None, name: str = "loss") -> JudgedRun:
    """A sample run of which the model says this."""
    sample = SAMPLES[name]()
    sample.model = said
    run = sample.write(folder)
    return JudgedRun(run=run, verdict=run.verdict(), report=write(run), model=model_text.read(run))


@pytest.mark.parametrize("word", SAID)
def test_every_place_has_the_models_word(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = judged(tmp_path, SAID[word])
    assert f"What the model says {word}" in words(one.report)
    assert f"The model: {word}" in words(one.report)
    printed = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=printed, width=200))
    console.show_judged([one])
    console.out.print(demo_table([one]))
    assert f"model: {word}. {model_text.sentence(SAID[word])}" in printed.getvalue()
    assert printed.getvalue().count(word) >= 2
    status = SAID[word].status
    assert json.loads(json.dumps(one.summary()))["model"]["status"] == status
    assert row_of(one.run, tmp_path).model == status


def test_an_anomaly_of_each_kind_is_printed_before_more_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = judged(tmp_path, None)
    like = one.verdict.anomalies[0]
    said = [("lost-input", number) for number in range(9)] + [("unfinished-transaction", 0)]
    cure = Witness(who="judge", what=MISTAKE, says="a mistake: mend it", source="events")
    anomalies = [
        replace(like, kind=kind, sentence=f"no. {number}", witnesses=(cure,) * (number == 8))
        for kind, number in said
    ]
    printed = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=printed, width=200))
    verdict = replace(one.verdict, anomalies=tuple(anomalies))
    console.show_judged([dataclasses.replace(one, verdict=verdict)])
    shown = [line.strip() for line in printed.getvalue().splitlines() if ": no. " in line]
    assert shown == [
        "lost-input: no. 0",
        "lost-input: no. 8",  # of another cause
        "unfinished-transaction: no. 0",
        *(f"lost-input: no. {number}" for number in (1, 2)),
    ]
    assert printed.getvalue().count("mistake: a mistake: mend it") == 1


def test_a_run_that_the_model_was_not_asked_about_says_nothing(tmp_path: Path) -> None:
    one = judged(tmp_path, None)
    assert "What the model says" not in words(one.report)
    assert one.summary()["model"] is None
    assert row_of(one.run, tmp_path).model is None


def test_a_broken_answer_is_an_error_but_not_of_the_page(tmp_path: Path) -> None:
    one = judged(tmp_path, SAID["unexplained"])
    (one.run.analysis / "model.json").write_text('{"format": 1')
    with pytest.raises(StoreError, match=r"model\.json cannot be decoded"):
        model_text.read(one.run)
    assert "model.json cannot be decoded" in words(write(one.run))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "name", "code"),
    [
        (predicted.as_predicted("r"), "loss", OK),
        (replace(predicted.as_predicted("r"), status="explained"), "loss", OK),
        (predicted.unexplained("r"), "loss", BROKEN),
        (predicted.not_reproduced("r"), "loss", BROKEN),
        (predicted.as_predicted("r"), "valid", OK),
        (replace(predicted.as_predicted("r"), status="unknown"), "loss", UNKNOWN),
        (None, "loss", UNKNOWN),
        (predicted.as_predicted("r"), "cut-short", UNKNOWN),
    ],
)
def test_the_demo_ends_well_only_when_all_is_as_predicted_and_explained(
    said: Reconciliation | None, name: str, code: int, tmp_path: Path
) -> None:
    assert exit_code([judged(tmp_path, said, name)]) == code
    good = judged(tmp_path / "good", predicted.as_predicted("r"))
    assert exit_code([good, judged(tmp_path / "again", said, name)]) == code


def test_predicted_and_observed_logs_stand_side_by_side_and_differences_show() -> None:
    ours, theirs = model_text.side_by_side(predicted.not_reproduced("r"))
    assert (ours.title, theirs.title) == ("The model's logs", "The brokers' logs")
    assert ours.offsets == theirs.offsets == (0, 1, 2, 3)
    for broker in range(3):
        assert [cell.value for cell in ours.rows[broker][1]] == ["m0", "m1", "m2", None]
        assert [cell.value for cell in theirs.rows[broker][1]] == ["m0", "m1", "m2", "m3"]
        assert [cell.odd for cell in theirs.rows[broker][1]] == [False, False, False, True]
    assert model_text.side_by_side(predicted.unexplained("r")) == ()


def test_of_long_logs_the_end_is_shown() -> None:
    log = tuple(f"m{n}" for n in range(40))
    said = replace(predicted.as_predicted("r"), predicted=predicted.outcome(log, log, log[:-1]))
    ours, _ = model_text.side_by_side(said)
    assert ours.offsets == tuple(range(24, 40))
    assert ours.rows[2][1][-1].value is None


def test_a_chain_names_rule_event_and_replica_and_the_unexplained_come_first(
    tmp_path: Path,
) -> None:
    page = judged(tmp_path, replace(predicted.unexplained("r"), kafka="0.10.2.2")).report
    shown = words(page)
    for link in predicted.CHAIN:
        rule = f"{link.rule}: off" if link.rule == "epochs" else link.rule
        assert f"{link.says} {rule} {(link.time_ns or 0) / 1e9:.3f} s, broker" in shown
        assert str(link.event) in shown
    assert shown.index("cut nothing") < shown.index("whole ISR")
    html = page.read_text("utf-8")
    assert 'class="finding unexplained"' in html
    assert "KIP-101" in html.partition('<span class="rule" title="A new follower asks')[2][:200]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "2026-11-21T11:29:47.554Z INFO [Log partition=events-1, dir=/d] Truncating to 1482",
            "[Log partition=events-1] Truncating to 1482",
        ),
        ("[2026-11-21 05:50:38,355] INFO Truncating log events-0", "Truncating log events-0"),
        ("producer-0: ok after 2.925 s", "producer-0: ok after 2.925 s"),
    ],
)
def test_a_log_line_is_shown_without_clock_and_folder(line: str, shown: str) -> None:
    assert logged(line) == shown


def test_what_is_not_known_is_counted_apart_and_stands_behind_the_unexplained() -> None:
    said = predicted.unexplained("r")
    hidden = replace(said.findings[0], verdict="unknown", count=4)
    partly = replace(said, findings=(*said.findings, hidden))
    assert partly.number_of("unknown") == 4
    assert model_text.sentence(partly).endswith(
        "2 of 7 findings cannot follow from the rules of Kafka 2.8.2."
        " 4 more are not known: too little was observed."
    )
    words = [finding.verdict for finding in model_text.section(partly).findings]
    assert words == ["unexplained", "unknown", "explained"]
    assert model_text.heading(hidden).startswith("not known ")


def test_an_unexplained_chain_is_printed_with_its_reason() -> None:
    lines = model_text.sentences(predicted.unexplained("r").findings[1:])
    assert lines[0] == "unexplained lost-write m7 at events-0, offset 7, 2 times"
    assert lines[1].startswith("  [out-of-thin-air] Broker 2 held m7 at offset 7")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            predicted.as_predicted("r"),
            "By the rules of Kafka 0.10.2.2, m3 is lost and nothing forks.",
        ),
        (predicted.forked("r"), "By the rules of Kafka 0.10.2.2, m3 is lost and offset 3 forks."),
        (predicted.kept("r"), "By the rules of Kafka 4.3.1, nothing is lost and nothing forks."),
        (
            predicted.unexplained("r"),
            "2 of 3 findings cannot follow from the rules of Kafka 2.8.2.",
        ),
        (predicted.not_reproduced("r"), "That did not happen."),
        (replace(predicted.not_reproduced("r"), reasons=("Late.",)), "proves nothing: Late."),
        (replace(predicted.unexplained("r"), status="explained", findings=()), "Nothing happened"),
        (
            replace(predicted.unexplained("r"), status="unknown", reasons=("No events.",)),
            "No events.",
        ),
    ],
)
def test_the_answer_is_one_sentence(said: Reconciliation, sentence: str) -> None:
    assert sentence in model_text.sentence(said)
