"""What the doctor calls missing is what no run goes without."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from highwater.cli.doctor import Diagnosis


def examined(cache: Path, *words: str) -> str:
    """What the command prints where nothing was downloaded yet."""
    command = [sys.executable, "-m", "highwater", "doctor", *words]
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "COLUMNS": "300"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env).stdout


@pytest.mark.slow
def test_what_was_not_downloaded_yet_is_not_missing(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = json.loads(examined(tmp_path, "--json"))
    (jars,) = (one for one in found if one["name"] == "Kafka jars")
    assert jars["ok"]
    assert jars["optional"]
    assert jars["found"].startswith("not downloaded yet: 0.9.0.1, ")
    assert "at its first run" in jars["hint"]


def test_only_what_a_run_needs_is_called_missing() -> None:
    lacking = Diagnosis(name="Java", ok=False, value="none")
    extra = Diagnosis(name="Docker", ok=False, value="does not answer", optional=True)
    there = Diagnosis(name="Python", ok=True, value="3.11")
    assert [one.state for one in (lacking, extra, there)] == ["MISSING", "optional", "ok"]


@pytest.mark.slow
def test_the_table_says_so(tmp_path: Path) -> None:
    for line in examined(tmp_path).splitlines():
        if "Kafka jars" in line:
            assert " ok " in line
            assert "MISSING" not in line
            break
    else:
        raise AssertionError("the table has no line about jars")
