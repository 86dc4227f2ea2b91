"""The command as a person runs it: what it prints, its exit codes, and that nothing outlives it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.store import Store
from tests.support.commands import finish, perform, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def await_phase(store: Path, phase: str, process: "subprocess.Popen[str]") -> None:
    def look() -> str:
        if process.poll() is not None:
            raise AssertionError(f"it ended early: {process.communicate()}")
        status: dict[str, Any] = json.loads((store / "latest" / "status.json").read_text())
        return str(status["phase"])

    await_condition(
        look,
        lambda seen: seen == phase,
        what=f"the run to be {phase}",
        limit_s=120,
        passing=(FileNotFoundError,),
    )


def words_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def await_family(process: "subprocess.Popen[str]", *, brokers: int) -> list[psutil.Process]:
    """Every process below one, as soon as so many brokers and Spark are among them."""

    def look() -> list[psutil.Process]:
        if process.poll() is not None:
            raise AssertionError(f"it ended early: {process.communicate()}")
        found: list[psutil.Process] = psutil.Process(process.pid).children(recursive=True)
        return found

    return await_condition(
        look,
        lambda found: (
            sum("kafka.Kafka" in words_of(one) for one in found) >= brokers
            and any("pyspark" in words_of(one) for one in found)
        ),
        what=f"{brokers} brokers and Spark to run",
        limit_s=120,
        passing=(psutil.NoSuchProcess,),
    )


def await_gone(processes: Sequence[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert alive == []


@pytest.mark.parametrize(
    ("how", "phase"),
    [
        (signal.SIGINT, "booting"),
        pytest.param(signal.SIGTERM, "running", marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, "booting", marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, "running", marks=pytest.mark.nightly),
        pytest.param(signal.SIGTERM, "booting", marks=pytest.mark.nightly),
    ],
)
def test_nothing_outlives_the_harness(how: signal.Signals, phase: str, tmp_path: Path) -> None:
    words = ("run", "--kafka", "0.10.2.2", "--nemesis", "pause", "--for", "60s", "--acks", "1")
    process = start(*words, "--store", tmp_path)
    await_phase(tmp_path, phase, process)
    family = await_family(process, brokers=3)
    os.kill(process.pid, how)
    code, _, err = finish(process)
    await_gone(family)
    if how == signal.SIGKILL:
        assert code == -signal.SIGKILL
    else:
        assert code == 130
        assert "interrupted" in err


def test_a_killed_run_leaves_no_process_and_is_judged_unknown(tmp_path: Path) -> None:
    words = ("run", "--kafka", "0.10.2.2", "--nemesis", "pause", "--for", "60s")
    process = start(*words, "--store", tmp_path)
    await_phase(tmp_path, "running", process)
    ops = tmp_path / "latest" / "history" / "ops.arrows"
    await_condition(
        lambda: ops.stat().st_size,
        lambda size: size > 20_000,
        what="some operations to be flushed",
        limit_s=60,
        passing=(FileNotFoundError,),
    )
    family = await_family(process, brokers=3)
    os.kill(process.pid, signal.SIGKILL)
    killed, _, _ = finish(process)
    assert killed == -signal.SIGKILL
    await_gone(family)
    code, out = perform("check", tmp_path / "latest", "--json", "--store", tmp_path)
    assert code == 3
    judged = json.loads(out)
    assert judged["verdict"] == "unknown"
    assert any("ended early" in reason for reason in judged["reasons"])
    assert judged["sent"] > 0
    assert judged["sent"] == judged["acknowledged"] + judged["failed"] + judged["unknown"]
    assert Path(judged["report"]).is_file()


@pytest.mark.nightly  # `make test` has a random run on a cluster of others
def test_a_seeded_random_run_ends_by_itself_and_accounts_for_every_record(tmp_path: Path) -> None:
    words = ("run", "--kafka", MODERN, "--acks", "1", "--nemesis", "kill,pause", "--seed", "7")
    code, out, _ = finish(start(*words, "--for", "10s", "--json", "--store", tmp_path))
    judged = json.loads(out)
    assert judged["sent"] == judged["acknowledged"] + judged["failed"] + judged["unknown"]
    assert judged["acknowledged"] == judged["read"] + judged["lost"] + judged["unseen"]
    assert judged["acknowledged"] > 1000
    assert judged["unseen"] == 0
    assert code == {"valid": 0, "invalid": 1}[judged["verdict"]]
    again, out = perform("check", judged["run"], "--json", "--store", tmp_path)
    assert again == code
    assert json.loads(out) == judged


@pytest.mark.nightly
def test_the_shortest_schedule_strikes_and_the_run_says_with_what(tmp_path: Path) -> None:
    words = ("run", "--kafka", MODERN, "--nemesis", "pause", "--for", "1.5s", "--json")
    code, out, _ = finish(start(*words, "--store", tmp_path))
    judged = json.loads(out)
    steps = json.loads((tmp_path / "latest" / "steps.json").read_bytes())
    assert [one["fault"] for one in steps["taken"]][:1] == ["pause"]
    assert judged["happened"].startswith("pause ")
    assert (code, judged["verdict"]) == (0, "valid")


@pytest.mark.nightly
def test_a_hold_that_never_matches_is_unknown_and_one_without_an_end_is_released(
    tmp_path: Path,
) -> None:
    never, endless = "EndTxn client:*>*", "Produce client:producer-0>* n=5"
    words = ["run", "--kafka", MODERN, "--wire-clients", "--for", "6s", "--json"]
    for message in (never, endless):
        words += ["--message", f"hold {message} at=1s"]
    code, out, _ = finish(start(*words, "--store", tmp_path))
    judged = json.loads(out)
    assert (code, judged["verdict"]) == (3, "unknown")
    assert any(f"the relay saw no {never}" in reason for reason in judged["reasons"])
    assert not any(endless in reason for reason in judged["reasons"])
    [run] = [Store(tmp_path).open(name) for name in Store(tmp_path).names()]
    events = [row for row in run.table("events/messages").to_pylist() if row["message"]]
    assert [row["event"] for row in events][:3] == ["caught", "released", "sent"]
    assert {row["api"] for row in events} == {"Produce"}
    assert judged["lost"] == judged["unseen"] == 0


@pytest.mark.nightly  # by day without brokers: test_operation_buffers.py
@pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux",
    reason="mounting a small tmpfs needs Linux and root",
)
def test_a_full_disk_ends_the_run_with_a_clear_error(tmp_path: Path) -> None:
    subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=3m", "none", str(tmp_path)], check=True
    )
    try:
        words = ("run", "--kafka", "0.10.2.2", "--nemesis", "none", "--for", "60s")
        process = start(*words, "--rate", "5000", "--record-bytes", "1000", "--store", tmp_path)
        code, _, err = finish(process)
        assert code == 4
        assert "space" in err
    finally:
        subprocess.run(["/bin/umount", "-l", str(tmp_path)], check=True)
