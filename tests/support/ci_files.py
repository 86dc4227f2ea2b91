"""The shell lines of files for CI, run by hand under the names that CI sets."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
INPUTS: Final = ("KAFKA", "STORY", "NEMESIS", "APP", "OPTIONS")


def document(name: str) -> Any:  # noqa: ANN401 - YAML has no types
    return msgspec.yaml.decode((ROOT / name).read_text("utf-8"))


def step(steps: list[dict[str, str]], name: str) -> str:
    (lines,) = (step["run"] for step in steps if step.get("name") == name)
    return lines


def bash(lines: str, place: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run lines as GitHub does, with a ``highwater`` of this Python."""
    command = place / "highwater" / "bin" / "highwater"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m highwater "$@"\n')
    command.chmod(0o755)
    names = {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "RUNNER_TEMP": str(place),
        "STORE": str(place / "store"),
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        **dict.fromkeys(INPUTS, ""),
    }
    return subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines],
        cwd=ROOT, env=os.environ | names | env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def action(name: str) -> str:
    return step(document("action.yml")["runs"]["steps"], name)
