"""What a fault took from a log, and what its broker wrote there afterwards."""

from pathlib import Path

import pytest

from tests.support import logdirs
from tests.support.explained import TRANSACTIONS, finding, transactional
from tests.support.run_builder import RunBuilder


def cut_and_led(run: RunBuilder, *, broker: int, said: str, epoch: int = 1) -> None:
    """A fault takes records from a broker's log; broker 2 leads then."""
    run.tick(100)
    run.fault("bit-flip", broker, f"one bit is flipped on broker {broker}{said}")
    run.tick(100)
    run.fault("bit-flip", broker, f"broker {broker} is healed", phase="heal")
    run.tick(100)
    run.leader(2, epoch, [2])


@pytest.mark.parametrize("kind", ["lost-write", "G1a"])
@pytest.mark.parametrize(
    ("broker", "said", "marker_epoch", "word"),
    [
        (2, "; cut there, events-0 lost 1 up to 3", 1, "explained"),
        (3, "; cut there, events-0 lost 1 up to 3", 1, "unexplained"),
        (2, "", 1, "unexplained"),
        (2, "; cut there, events-0 lost 1 up to 3", 0, "unexplained"),
    ],
)
def test_the_marker_of_a_later_transaction_decides_where_its_own_was_cut(
    tmp_path: Path, kind: str, broker: int, said: str, marker_epoch: int, word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0", workload=TRANSACTIONS)
    run.leader(1, 0, [1, 2, 3])
    lost = kind == "lost-write"
    run.send("m2", 0, outcome="ok" if lost else "fail", process="writer")
    cut_and_led(run, broker=broker, said=said)
    marker = logdirs.marker(1, producer=7, commit=not lost, epoch=marker_epoch)
    run.disks = {(each, 0): [transactional(0, "m2"), marker] for each in (1, 2, 3)}
    found = finding(run, kind, offset=0, value="m2")
    assert found.verdict == word
    if word == "explained":
        assert {"bit-flip", "cut-marker"} <= {link.rule for link in found.because}


@pytest.mark.parametrize(
    ("said", "record_epoch", "word"),
    [
        ("; cut there, events-0 lost 1 up to 3", 1, "explained"),
        ("; cut there, events-0 lost 2 up to 3", 1, "unexplained"),
        ("; cut there, events-0 lost 1 up to 3", 0, "unexplained"),
    ],
)
@pytest.mark.parametrize("kind", ["poll-skip", "int-poll-skip"])
def test_a_client_cannot_meet_what_was_written_later(
    tmp_path: Path, kind: str, said: str, record_epoch: int, word: str
) -> None:
    run = RunBuilder(tmp_path / "run", kafka="4.4.0")
    run.leader(1, 0, [1, 2, 3])
    for offset, value in ((0, "m0"), (2, "m2")):
        run.send(value, offset)
        run.read(value, offset, process="consumer-0", phase="run")
    steps = [row for row in run.rows["history/ops"] if row["kind"] == "read"]
    cut_and_led(run, broker=2, said=said)
    run.send("m5", 1)
    run.disk((1, 2, 3), [(0, 0, "m0"), (1, record_epoch, "m5"), (2, 1, "m6")])
    copy = {"broker": None, "partition": 0, "offset": 1, "leader_epoch": None, "value": "m5"}
    names = ("process", "op", "kind", "outcome", "invoke_ns", "complete_ns", "partition")
    found = finding(
        run,
        kind,
        offset=1,
        value="m5",
        copies=[{**copy, "note": "skipped"}],
        steps=[{name: row.get(name, 0) for name in (*names, "offset", "value")} for row in steps],
    )
    assert found.verdict == word
