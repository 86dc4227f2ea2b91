"""A broker's own clock: its file, and what is read off it about the broker's log lines."""

import subprocess
import time
from pathlib import Path

import pytest

from highwater.clusters.nodes import broker_clock
from highwater.clusters.nodes.broker_clock import (
    ClockJournal,
    clock_of,
    command,
    shift,
    shift_children,
)
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.faults.clock_notes import ahead_ns, clock_note
from highwater.runtime.broker_log_parser import log_lines

SECOND = 1_000_000_000
START_NS = 1_795_237_200 * SECOND  # 2026-11-21T05:00:00Z
DAY_S = 86_400


def journal(log: Path, *spans: tuple[int, float]) -> ClockJournal:
    """One of offsets from so many seconds after the start on."""
    lines = [f"# {START_NS + at_s * SECOND} {offset_s:+.3f}" for at_s, offset_s in spans]
    clock_of(log).write_text("\n".join([f"{spans[-1][1]:+.3f}", *lines, ""]), "ascii")
    return ClockJournal(log)


def test_a_node_begins_with_the_time_of_the_machine_and_keeps_its_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_clock, "wheel_folder", lambda _: Path("/wheel"))
    monkeypatch.setattr(broker_clock, "why_not", lambda: "")
    log = tmp_path / "broker-1.log"
    with pytest.raises(HarnessError, match="broker-1 has the clock of this machine"):
        shift(log, 5)
    words = command(["/java", "Kafka"], log)
    assert words[-2:] == ["/java", "Kafka"]
    assert f"FAKETIME_TIMESTAMP_FILE={clock_of(log)}" in words
    assert clock_of(log).read_text("ascii").startswith("+0.000\n# ")
    begun = time.monotonic()
    shift(log, -3600)
    assert time.monotonic() - begun > broker_clock.READ_EVERY_S
    command(["/java", "Kafka"], log)
    first, *changes = clock_of(log).read_text("ascii").splitlines()
    assert first == "-3600.000"
    assert [change.split()[-1] for change in changes] == ["+0.000", "-3600.000"]


@pytest.mark.skipif(bool(broker_clock.why_not()), reason=broker_clock.why_not())
def test_child_processes_share_a_clock_that_moves(tmp_path: Path) -> None:
    log, tick = tmp_path / "clients.log", "while read -r _; do date +%s; done"
    with pytest.raises(HarnessError, match="no client process takes its time"):
        shift_children(log, -DAY_S)
    words = command(["/bin/sh", "-c", tick], log)
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True, bufsize=1) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write("\n")
        assert child.stdout.readline()  # env has become the shell
        for offset_s in (0, -DAY_S, 0):
            shift_children(log, offset_s)
            child.stdin.write("\n")
            assert abs(int(child.stdout.readline()) - time.time() - offset_s) < DAY_S / 2
        child.stdin.close()


def test_no_clock_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(HarnessError, match="needs libfaketime"):
        command(["/java"], tmp_path / "broker-1.log")


@pytest.mark.parametrize("offset_s", [DAY_S, -DAY_S, 5])
def test_a_line_gets_the_time_of_the_machine(tmp_path: Path, offset_s: int) -> None:
    clock = journal(tmp_path / "broker-1.log", (0, 0), (100, offset_s), (200, 0))
    shown_s = [50, 100, 101 + offset_s, 199 + offset_s, 210, 300]
    assert [clock.ahead_ns(START_NS + at_s * SECOND) // SECOND for at_s in shown_s] == [
        0, 0, offset_s, offset_s, 0, 0,
    ]  # fmt: skip


def test_without_a_clock_file_a_line_has_the_time_of_the_machine(tmp_path: Path) -> None:
    assert ClockJournal(tmp_path / "broker-1.log").ahead_ns(START_NS) == 0


def test_a_line_of_a_moved_clock_has_a_note(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    journal(log, (0, 0), (10, DAY_S), (20, 0))
    log.write_text(
        "2026-11-21T05:00:01.000Z INFO Created log for partition events-0 in /d\n"
        "2026-11-22T05:00:15.000Z INFO Created log for partition events-0 in /d\n"
        "2026-11-21T05:00:25.000Z INFO Created log for partition events-0 in /d\n"
    )
    rows = [*log_lines(tmp_path, "events", started_at_ns=START_NS)]
    assert [int(str(row["time_ns"])) // SECOND for row in rows] == [1, 15, 25]
    assert [ahead_ns(str(row["line"])) // SECOND for row in rows] == [0, DAY_S, 0]
    assert clock_note(0) == ""
