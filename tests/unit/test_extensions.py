"""Faults and checkers of other packages: found, in order, and named where they are broken."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from checkers import kinds
from checkers.kinds import Kind, Severity
from harness import extensions
from harness.errors import HarnessError
from nemesis.fault import faults


@pytest.fixture(autouse=True)
def loaded_anew() -> Iterator[None]:
    extensions.load.cache_clear()
    yield
    extensions.load.cache_clear()


def package(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that has a fault, of one module."""
    (folder / f"{name}.py").write_text(text)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{extensions.FAULTS}]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(folder)
    extensions.load.cache_clear()


def test_a_fault_of_another_package_stands_behind_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = [*faults()]
    monkeypatch.setattr("nemesis.fault._registry", {**faults()})
    body = "@fault('yawn')\ndef yawn(cluster, broker):\n    yield ''\n"
    package(tmp_path, "yawning", f"from nemesis.fault import fault\n{body}", monkeypatch)
    assert [*faults()] == [*ours, "yawn"]


def test_a_package_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "torn", "raise RuntimeError('no')", monkeypatch)
    with pytest.raises(HarnessError, match=r"the package torn cannot be loaded for highwater\.f"):
        faults()


def test_a_kind_of_another_package_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "KINDS", {**kinds.KINDS})
    mute = Kind("came late", "came late", Severity.MINOR, "service")
    with pytest.raises(ValueError, match="late has to have breaks and says"):
        kinds.add("late", mute)
    whole = Kind("came late", "came late", Severity.MINOR, "service", lambda _: True, str)
    kinds.add("late", whole)
    assert kinds.kind("late") is whole
    with pytest.raises(ValueError, match="two kinds are called late"):
        kinds.add("late", whole)


def test_a_kind_that_nobody_has_is_not_held_against_anybody() -> None:
    unknown = kinds.kind("late")
    assert (unknown.severity, unknown.one) == (Severity.UNDECIDED, "anomaly late")
    assert "not installed" in unknown.promise
