"""The page of a finding: its numbers are those of searches and replays."""

from pathlib import Path

import pytest

from highwater.campaigns.model_schedules import Source, Tally, check_finding
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.checkers.model.search.result import SearchAnswer
from highwater.cli.options.model_finding import TriedRule, text, write_finding
from highwater.harness.base.errors import UsageError

FILES = Path(__file__).parents[4] / "docs" / "counterexamples"
MISSED = Source.load(FILES / "missed-decisions-3.9.2-zk.json")


def answered(*, holds: bool | None, states: int) -> SearchAnswer[Counterexample]:
    content = check_finding(MISSED)
    return SearchAnswer(
        kafka=content.kafka,
        scope=content.scope,
        switched={"elected_again_is_new": True},
        invariant=content.invariant,
        says=content.says,
        holds=holds,
        reason=None if holds is not None else "time",
        states=states,
        transitions=1,
        depth=1,
        seconds=1.0,
        compile_seconds=0.0,
        rate=1.0,
        peak_bytes=0,
        collision=0.0,
        counterexample=None if holds is not False else content,
    )


def test_a_page_has_the_steps_the_runs_and_the_rules_that_mend() -> None:
    tallies = [Tally(counterexample="m", kafka="3.9.2-zk", runs=10, reproduced=9, kept=0)]
    tried = [
        TriedRule(rule="kraft", answer=answered(holds=False, states=3)),
        TriedRule(rule="elr", answer=None),
        TriedRule(rule="late_fenced", answer=answered(holds=None, states=77)),
        TriedRule(rule="elected_again_is_new", answer=answered(holds=True, states=55_750)),
    ]
    page = text(check_finding(MISSED), tallies, tried)
    assert "# acked-kept on Kafka 3.9.2-zk" in page
    assert "found 17 steps, the fewest possible," in page
    assert "1 controller failover" in page
    assert "the controller dies, and the next one sends the present state" in page
    assert "| 3.9.2-zk | 9 of 10 | 0 of 10 |" in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows[0].startswith("| `elected_again_is_new` | **holds in 55,750 states** |")
    assert any(row.startswith("| `kraft` | 17 steps break it |") for row in rows)
    assert any(row.startswith("| `late_fenced` | not known after 77 states |") for row in rows)
    assert rows[-1].startswith("| `elr` | the same steps break it |")


def test_what_was_not_replayed_is_said_so(tmp_path: Path) -> None:
    page = write_finding(MISSED, [], [], tmp_path / "finding")
    assert "Not replayed." in page.read_text("utf-8")
    assert {path.name for path in page.parent.iterdir()} == {
        "finding.md", "counterexample.json", "counterexample.svg",
    }  # fmt: skip


def test_a_counterexample_of_transactions_has_no_such_page() -> None:
    other = Source.load(FILES / "transactions-late-copy-4.4.0.json")
    with pytest.raises(UsageError, match="no counterexample of the replication model"):
        check_finding(other)
