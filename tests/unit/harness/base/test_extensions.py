"""Faults and checkers of other packages: found, in order, and named where they are broken."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.checkers import catalogue
from highwater.checkers.core.anomaly_kinds import Severity
from highwater.checkers.policy import decide, promised
from highwater.harness.base import extensions
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.plan import Plan
from highwater.nemesis.faults.registry import faults


@pytest.fixture(autouse=True)
def loaded_anew() -> Iterator[None]:
    extensions.load.cache_clear()
    yield
    extensions.load.cache_clear()


def package(
    folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch, entries: str | None = None
) -> None:
    """Install a package of one module; unless others are given, its entry point is of a fault."""
    (folder / f"{name}.py").write_text(text)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entries or f"[{extensions.FAULTS}]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(folder)
    extensions.load.cache_clear()


def test_a_fault_of_another_package_stands_behind_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = [*faults()]
    monkeypatch.setattr("highwater.nemesis.faults.registry._registry", {**faults()})
    body = "@fault('yawn')\ndef yawn(cluster, broker):\n    yield ''\n"
    package(
        tmp_path,
        "yawning",
        f"from highwater.nemesis.faults.registry import fault\n{body}",
        monkeypatch,
    )
    assert [*faults()] == [*ours, "yawn"]


def test_a_package_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "torn", "raise RuntimeError('no')", monkeypatch)
    with pytest.raises(HarnessError, match=r"the package torn cannot be loaded for highwater\.f"):
        faults()


CHECKER = """
from highwater.checkers.core.checker import checker
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.promises import always

@checker(Kind({name!r}, guarantee="So it is.", singular="came late", plural="came late",
              severity=Severity.MINOR, promise="service", breaks=always, says=str))
def late(tables): ...
"""


def checker_package(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = f"[{extensions.CHECKERS}]\nmine = lately:late\n"
    package(folder, "lately", CHECKER.format(name=name), monkeypatch, entries)
    monkeypatch.delitem(sys.modules, "lately", raising=False)


def test_a_checker_of_another_package_stands_behind_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker_package(tmp_path, "late", monkeypatch)
    assert catalogue.all_checkers()[:-1] == catalogue.CHECKERS
    assert [*catalogue.all_kinds()] == [*catalogue.our_kinds(), "late"]
    assert catalogue.kind("late").guarantee == "So it is."
    plan = Plan(kafka="4.3.1")
    assert "late" in promised(plan, faults=0).breaking
    _, reasons = decide(promised(plan, faults=0), {"late": 2, "corrupt": 1}, unjudged=())
    assert reasons == ("1 range of a log is corrupt.", "2 came late.")


def test_a_checker_that_is_called_as_one_of_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker_package(tmp_path, "corrupt", monkeypatch)
    with pytest.raises(HarnessError, match="the package lately has a checker for the kind corrupt"):
        catalogue.all_kinds()


def test_an_entry_point_of_no_checker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = f"[{extensions.CHECKERS}]\nmine = plain:late\n"
    package(tmp_path, "plain", "def late(tables): ...", monkeypatch, entries)
    with pytest.raises(HarnessError, match="of the package plain names a function, not a"):
        catalogue.all_checkers()


def test_a_kind_that_nobody_has_is_not_held_against_anybody() -> None:
    unknown = catalogue.kind("late")
    assert (unknown.severity, unknown.singular) == (Severity.UNDECIDED, "anomaly late")
    assert "no installed checker finds this kind" in unknown.promise
