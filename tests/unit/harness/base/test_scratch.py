"""Folders of processes that were killed are removed; those of others that live are not."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from highwater.harness.base import scratch as module
from highwater.harness.base.scratch import scratch

OTHER = (
    "from highwater.harness.base.scratch import scratch\n"
    "print(scratch('other').parent, flush=True)\n"
    "input()\n"
)


@pytest.fixture
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(module, "_roots", [])
    return tmp_path


def test_a_folder_goes_when_its_process_was_killed_and_not_before(
    own_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        assert left.parent == own_temporary
        # In another container it would be a process that does not exist here.
        monkeypatch.setattr("psutil.pid_exists", lambda _: False)
        mine = scratch("mine").parent
        assert left.is_dir()
        other.kill()
    monkeypatch.setattr(module, "_roots", [])
    again = scratch("again").parent
    assert not left.exists()
    assert mine.is_dir()  # this process still locks it
    assert again != mine
