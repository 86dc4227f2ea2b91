"""A signal is told about at once, and comes when what it would interrupt is done."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.harness.base import interruptions
from highwater.harness.base.errors import Interruption
from highwater.harness.base.exit_codes import INTERRUPTED
from tests.support.commands import run_python


@pytest.fixture
def interrupting() -> Iterator[None]:
    def raises(number: int, _: object) -> None:
        raise Interruption(interruptions.SIGNALS[number])

    before = {number: signal.signal(number, raises) for number in interruptions.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("interrupting")
def test_signals_of_a_block_come_once_at_its_end_and_are_told_about_at_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    steps = ["broker 1 is healed"]

    def left() -> str:
        return steps[0] if steps else ""

    done = []

    @interruptions.hold_signals()
    def work() -> None:
        with interruptions.hold_signals():
            signal.raise_signal(signal.SIGTERM)
            done.append("inner")
        signal.raise_signal(signal.SIGINT)
        done.append("outer")
        steps.clear()

    interruptions.announce(left)
    with pytest.raises(Interruption, match="SIGTERM"):
        work()
    interruptions.withdraw(left)
    interruptions.withdraw(left)
    assert done == ["inner", "outer"]
    told = "highwater: {}: before the end, broker 1 is healed\n"
    said = capfd.readouterr().err.splitlines(keepends=True)
    assert {told.format("SIGTERM"), told.format("Ctrl-C")} == set(said)
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler


@pytest.mark.usefixtures("interrupting")
def test_children_do_not_ignore_what_is_held() -> None:
    line = "import signal; print(signal.getsignal(signal.SIGTERM).name)"
    with interruptions.hold_signals():
        words = [sys.executable, "-c", line]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == "SIG_DFL\n"


_HEALS: str = """
import signal, sys
from highwater import __main__ as main
from highwater.cli import app as commands
from highwater.harness.base import interruptions

def run():
    interruptions.announce(lambda: "broker 1 is healed")
    signal.raise_signal(signal.SIGINT)

commands.app = run
main.main()
"""


def test_the_command_says_at_once_what_is_healed_before_it_ends(tmp_path: Path) -> None:
    code, _, err = run_python(_HEALS, cwd=tmp_path)
    assert code == INTERRUPTED
    assert err.splitlines() == [
        "highwater: Ctrl-C: before the end, broker 1 is healed",
        "highwater: interrupted by Ctrl-C",
    ]
