"""The command that lists what each release does: every switch, and who has it."""

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from highwater import console
from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, rules_of
from highwater.cli.app import app
from highwater.cli.model_rules import ORDER, alike, differing, ranges, says, source
from highwater.harness.releases.catalogue import CATALOGUE


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["model", "rules", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


def test_the_model_knows_every_release_of_the_catalogue() -> None:
    assert set(ORDER) == set(RELEASES) == set(CATALOGUE)


def test_json_has_every_switch_of_every_release() -> None:
    found = json.loads(run("--json"))
    assert [one["rule"] for one in found] == list(SWITCHES)
    for one in found:
        assert one["says"].endswith(".")
        assert one["source"]
        for name, on in one["releases"].items():
            assert on is getattr(rules_of(name), one["rule"])
        assert list(one["releases"]) == list(ORDER)


def test_of_some_releases_each_is_a_column() -> None:
    found = json.loads(run("--kafka", "2.0.0,2.0.1", "--json"))
    differ = {one["rule"] for one in found if len(set(one["releases"].values())) > 1}
    assert {"epoch_on_election", "cut_on_missed_epoch", "join_from_epoch_start"} <= differ


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    found = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=found, width=240))
    return found


def test_of_several_releases_what_tells_them_apart_is_printed(printed: io.StringIO) -> None:
    run("--kafka", "2.0.0,2.0.1")
    apart = differing({name: rules_of(name) for name in ("2.0.0", "2.0.1")})
    assert 0 < len(apart) < len(SWITCHES)
    for switch in SWITCHES:
        assert (switch in printed.getvalue()) == (switch in apart)
    rest = len(SWITCHES) - len(apart)
    assert f"have {rest} other rules in common: --all also lists these." in printed.getvalue()
    run("--kafka", "2.0.0,2.0.1", "--all")
    assert all(switch in printed.getvalue() for switch in SWITCHES)


def test_of_releases_that_are_alike_nothing_is_listed(printed: io.StringIO) -> None:
    alikes = next(group for group in alike() if len(group) > 1)
    run("--kafka", ",".join(alikes))
    says = f"The releases have all {len(SWITCHES)} rules in common: --all also lists these.\n"
    assert printed.getvalue() == says


def test_ranges_are_short_and_lose_nothing() -> None:
    order = ("a", "b", "c", "d", "e")
    assert ranges("abcde", order) == "a to e"
    assert ranges("abd", order) == "a to b, d"
    assert ranges("ace", order) == "a, c, e"
    assert ranges("", order) == "none"


def test_releases_alike_have_the_same_rules_and_all_are_there() -> None:
    groups = alike()
    assert sorted(name for group in groups for name in group) == sorted(ORDER)
    for group in groups:
        assert len({rules_of(name) for name in group}) == 1
    assert len({rules_of(group[0]) for group in groups}) == len(groups)


def test_the_table_names_rule_sentence_and_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=printed, width=240))
    run()
    assert "releases that have it" in printed.getvalue()
    for switch in SWITCHES:
        assert switch in printed.getvalue()
    printed.truncate(0)
    run("--kafka", "4.3.1")
    for switch in SWITCHES:
        assert says(switch)[:40] in printed.getvalue()
        assert source(switch)[:20] in printed.getvalue()


def test_an_unknown_release_is_refused_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["model", "rules", "--kafka", "2.0.9"])
    assert "2.0.9" in str(done.exception)
