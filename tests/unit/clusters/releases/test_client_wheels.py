"""Wheels of client libraries in the user's cache."""

from pathlib import Path

import pytest

from highwater.clusters.releases import client_wheels
from highwater.clusters.releases.client_wheels import wheel_folder
from highwater.harness.base.errors import HarnessError

PACKAGE = "confluent-kafka==2.10.0"


def test_a_release_is_installed_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(client_wheels, "_PIP", ("sh", "-c", 'touch "$0/$1"'))
    folder = wheel_folder(PACKAGE)
    assert [path.name for path in folder.iterdir()] == [PACKAGE]
    monkeypatch.setattr(client_wheels, "_PIP", ("false",))
    assert wheel_folder(PACKAGE) == folder


def test_what_pip_refuses_is_told_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(client_wheels, "_PIP", ("sh", "-c", "echo ERROR: none >&2; exit 1"))
    with pytest.raises(
        HarnessError, match=f"pip cannot install {PACKAGE}. Its last line is: ERROR: none"
    ):
        wheel_folder(PACKAGE)
    assert not any(path.is_dir() for path in (tmp_path / "highwater" / "clients").iterdir())
