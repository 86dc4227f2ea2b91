"""The command in a process that a test may watch, interrupt or kill, or in the test's own."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer.testing import CliRunner


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


def perform(*words: str | Path) -> tuple[int, str]:
    """Run it in this process, whose Spark session judges; return its exit code and its output."""
    from highwater.cli.app import app  # noqa: PLC0415 - it imports nearly all there is

    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


def run_python(text: str, *words: str | Path, cwd: Path | None = None) -> tuple[int, str, str]:
    """Run a program of Python in a process of its own; return how it ended and what it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
