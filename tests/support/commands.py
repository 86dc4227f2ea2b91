"""The command as a process of its own, which a test may watch, interrupt or kill."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def start(
    *words: str | Path,
    program: Sequence[str] = ("-m", "highwater"),
    env: Mapping[str, str] | None = None,
) -> "subprocess.Popen[str]":
    """Start it in a session of its own, so that a signal reaches it alone."""
    return subprocess.Popen(
        [sys.executable, *program, *map(str, words)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Wait for its end, and return its exit code, its output and its errors."""
    out, err = process.communicate(timeout=400)
    assert "Traceback" not in err
    return process.returncode, out, err
