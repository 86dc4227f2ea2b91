"""A run on brokers in pods of a real Kubernetes, which ``HIGHWATER_KUBERNETES`` names.

It is CONTEXT/NAMESPACE/CLUSTER in the kubeconfig of ``KUBECONFIG``; its brokers may be killed.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.clusters.external.journal import folders_to_heal
from highwater.harness.base.waiting import await_condition

TARGET = os.environ.get("HIGHWATER_KUBERNETES", "")
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not TARGET, reason="HIGHWATER_KUBERNETES names no cluster"),
]


def highwater(*words: str, store: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "highwater", *words, "--kubernetes", TARGET],
        env={**os.environ, "XDG_STATE_HOME": str(store / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.fixture
def code(tmp_path: Path) -> str:
    status, out, err = ended(highwater("doctor", "--json", store=tmp_path))
    assert status == 0, err
    words = next(line["found"] for line in json.loads(out) if line["name"] == "cluster").split()
    return str(words[words.index("--confirm") + 1])


def test_pods_are_killed_paused_and_restarted(tmp_path: Path, code: str) -> None:
    words = ("--nemesis", "kill,pause,restart", "--for", "40s", "--json", "--confirm", code)
    running = highwater("run", *words, "--store", str(tmp_path / "store"), store=tmp_path)
    status, out, err = ended(running)
    assert (status, json.loads(out)["verdict"]) == (0, "valid"), err
    assert len([*tmp_path.glob("store/latest/replicas/*/highwater-*-0/*.log")]) == 3


def test_an_interrupted_run_heals_its_pods(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = ("--nemesis", "pause", "--for", "60s", "--json", "--confirm", code)
    running = highwater("run", *words, "--store", str(tmp_path / "store"), store=tmp_path)
    journals = tmp_path / "state" / "highwater" / "clusters"
    await_condition(
        lambda: [path for path in journals.glob("*/open.json") if '"resume"' in path.read_text()],
        lambda paused: len(paused) == 1,
        what="a broker to be paused",
        limit_s=120,
    )
    running.send_signal(signal.SIGINT)
    assert ended(running)[0] == 130
    [inventory] = tmp_path.glob("state/highwater/kubernetes/*/inventory.toml")
    assert folders_to_heal(inventory) == []
    assert ended(highwater("heal", "--json", store=tmp_path))[:1] == (0,)
