"""What the command about a program prints: with --json one object, whatever else it does."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater import api
from highwater.cli.app import app
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.exit_codes import BROKEN
from highwater.shrinking import shrinker
from highwater.shrinking.shrinker import ShrinkResult, Size
from highwater.shrinking.trials import Goal
from tests.browser.samples import SAMPLES


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> api.JudgedRun:
    """A run that lost something is what each command has performed."""
    run = SAMPLES["loss"]().write(tmp_path)
    judged = api.JudgedRun(run=run, verdict=run.verdict(), report=tmp_path / "none")
    monkeypatch.setattr(api, "perform", lambda *_, **__: [judged])
    return judged


def shrunk(run: Any, **_: object) -> ShrinkResult:  # noqa: ANN401 - a run
    size = Size(faults=1, seconds=2, partitions=1, clients=1, records=9)
    return ShrinkResult(
        plan=run.plan(), goal=Goal(verdict="invalid", kinds=("lost-input",)), ended="smallest",
        before=size, after=size, hits=1, runs=1, attempts=1, ran=1, seconds=1,
    )  # fmt: skip


def test_the_fewest_faults_are_part_of_the_runs_object(
    lost: api.JudgedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinker, "shrink_run", shrunk)
    done = CliRunner().invoke(app, ["app", "--shrink", "--json", "--", "cat"])
    said = json.loads(done.stdout)  # and nothing beside it
    assert (done.exit_code, said["verdict"]) == (BROKEN, "invalid")
    assert said["shrunk"]["ended"] == "smallest"
    assert said["shrunk"]["folder"] == str(lost.run.path / "shrunk")


def test_the_verdicts_are_written_for_ci_too(lost: api.JudgedRun, tmp_path: Path) -> None:
    file = tmp_path / "ci" / "junit.xml"
    done = CliRunner().invoke(app, ["app", "--junit", str(file), "--", "cat"])
    assert done.exit_code == BROKEN
    assert f'name="{lost.run.name}"' in file.read_text("utf-8")


def test_a_search_that_fails_leaves_the_verdict(
    lost: api.JudgedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise HarnessError("no broker starts")

    monkeypatch.setattr(shrinker, "shrink_run", fail)
    done = CliRunner().invoke(app, ["app", "--shrink", "--json", "--", "cat"])
    assert isinstance(done.exception, HarnessError)
    assert json.loads(done.stdout)["shrunk"] is None
    assert lost.run.name
