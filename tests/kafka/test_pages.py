"""Pages that a person follows step by step: what they show works, in that order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.store import Store

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.nightly
def test_the_code_of_the_python_page_runs(tmp_path: Path) -> None:
    page = (DOCS / "python.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    ending = "\nassert run.verdict.ledger.acknowledged > 0, run.verdict\nassert len(log) > 0\n"
    (tmp_path / "page.py").write_text(code + ending)
    command = [sys.executable, "page.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"valid Kafka {MODERN} kept all ")
    assert " acknowledged, 0 lost\n" in done.stdout


@pytest.mark.nightly
def test_the_tutorial_loses_a_record_and_keeps_it(tmp_path: Path) -> None:
    """All of its commands but the set-up and the last, random one; globs are a shell's."""
    page = (DOCS / "tutorial.md").read_text("utf-8")
    lines = re.findall(r"^    (highwater [^\n]*)$", page, re.MULTILINE)
    codes = []
    for line in lines[:-1]:
        words = [
            str(path.relative_to(tmp_path))
            for word in shlex.split(line)[1:]
            for path in (tmp_path.glob(word) if "*" in word else [tmp_path / word])
        ]
        command = [sys.executable, "-m", "highwater", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        codes.append(done.returncode)
        assert "Traceback" not in done.stderr
    assert codes[1:] == [1, 0, 0, 0]
    headlines = [
        Store(tmp_path / "store").open(name).verdict().headline
        for name in Store(tmp_path / "store").names()
    ]
    assert all(re.sub(" +", " ", headline) in page for headline in headlines)
