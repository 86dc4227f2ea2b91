"""What a trace of system calls says: a file renamed before its flush is at risk."""

from pathlib import Path

import pytest

from highwater.clusters.core.addresses import Address
from highwater.clusters.nodes.flush_trace import command, trace_of, unflushed
from highwater.clusters.nodes.site import NodePlan
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.catalogue import release

NOWHERE = Address(host="127.0.0.1", port=1)
FILE = "/logs/events-0/leader-epoch-checkpoint"
FLUSH = f"7 100.5 fsync(12<{FILE}.tmp>) = 0"
RENAME = f'7 101.5 rename("{FILE}.tmp", "{FILE}") = 0'


@pytest.mark.parametrize(
    ("lines", "files"),
    [
        ([RENAME], {FILE: 101.5}),
        ([FLUSH, RENAME], {}),
        ([FLUSH, RENAME, RENAME.replace("101", "102")], {FILE: 102.5}),
        ([RENAME, FLUSH, RENAME], {}),
        ([RENAME, f"7 103.0 fdatasync(3<{FILE}>) = 0"], {}),
        (["7 99.0 fsync(9</logs/other.tmp>) = 0", RENAME], {FILE: 101.5}),
        ([FLUSH.replace(") = 0", " <unfinished ...>"), RENAME], {}),
        ([RENAME.replace(") = 0", " <unfinished ...>")], {FILE: 101.5}),
        (['7 1.0 rename("/logs/0.log", "/logs/0.log.deleted") = 0', "+++ exited +++"], {}),
        ([f'7 1.0 renameat2(AT_FDCWD, "{FILE}.tmp", AT_FDCWD, "{FILE}", 0) = 0'], {FILE: 1.0}),
    ],
)
def test_a_file_is_at_risk_from_its_rename_to_its_flush(
    tmp_path: Path, lines: list[str], files: dict[str, float]
) -> None:
    trace = trace_of(tmp_path / "broker-1.log")
    trace.write_text("\n".join(lines))
    assert unflushed(trace) == {Path(name): at for name, at in files.items()}


def test_letters_beyond_ascii_are_octal_in_a_trace(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "broker-1.log")
    name = r"/logs/j\303\274r\"gen\\n"
    rename = f'7 1.0 rename("{name}.tmp", "{name}") = 0\n'
    trace.write_text(rename)
    assert unflushed(trace) == {Path('/logs/jür"gen\\n'): 1.0}
    trace.write_text(rf"7 0.5 fsync(12<{name}.tmp>) = 0" + "\n" + rename)
    assert not unflushed(trace)


def test_every_rename_call_may_be_one_that_this_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no ``rename`` on ARM, and strace refuses a call that it does not know."""
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/strace")
    plan = NodePlan(
        name="broker-1",
        release=release("4.4.0"),
        command=["java"],
        public=NOWHERE,
        inside=NOWHERE,
        log=tmp_path / "broker-1.log",
        folders=(),
    )
    [calls] = [word for word in command(plan) if word.startswith("trace=")]
    names = calls.removeprefix("trace=").split(",")
    assert {"?rename", "?renameat", "?renameat2"} <= {*names}


def test_without_a_trace_nothing_is_known(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no trace"):
        unflushed(tmp_path / "broker-1.strace")
