"""A node's own wall clock: a preloaded library adds seconds to the time of this machine.

libfaketime reads the offset from the first line of a file, at most once a second. It ignores lines
that begin with ``#``: in these lines, the harness keeps the earlier offsets. The monotonic clock
and the times of files do not change. A JVM reads the wall clock with ``clock_gettime`` of the C
library, so no privilege is necessary. A container mounts the library.

``FAKETIME_FORCE_MONOTONIC_FIX`` must be 0: otherwise a thread's waits with a timeout end at once.
"""

import contextlib
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from highwater.clusters.releases.client_wheels import wheel_folder
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition

READ_EVERY_S: Final = 1
_WHEEL: Final = "libfaketime==3.0.1"
_LIBRARY: Final = "libfaketime/vendor/libfaketime/src/libfaketime.so.1"
_SUFFIX: Final = ".clock"
_SLACK_NS: Final = 250_000_000
"""The greatest time between a thread's read of the clock and the write of its log line."""


def clock_of(log: Path) -> Path:
    """Return the path of a node's clock file, beside its log."""
    return log.with_suffix(_SUFFIX)


def why_not() -> str:
    """Return why a broker cannot have its own clock on this machine; empty if it can."""
    there = sys.platform == "linux" and platform.machine() == "x86_64"
    return "" if there else "needs libfaketime, which exists for Linux on x86-64 only"


def library() -> Path:
    """Return the path of libfaketime. If the library is missing, pip downloads it.

    Raises:
        HarnessError: this machine cannot use the library.
    """
    if reason := why_not():
        raise HarnessError(
            f"clock faults are not possible: a node's own clock {reason}",
            hint="Leave clock faults out.",
        )
    return wheel_folder(_WHEEL) / _LIBRARY


def environment(log: Path) -> dict[str, str]:
    """Return environment variables that preload libfaketime. A restart keeps the offset.

    Raises:
        HarnessError: this machine cannot use the library.
    """
    if not clock_of(log).exists():
        _write(log, 0.0, "")
    return {
        "LD_PRELOAD": str(library()),
        "FAKETIME_TIMESTAMP_FILE": str(clock_of(log)),
        "FAKETIME_CACHE_DURATION": str(READ_EVERY_S - 1),
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
        "NO_FAKE_STAT": "1",
    }


def command(words: Sequence[str], log: Path) -> list[str]:
    """Return a command that starts the node with libfaketime: ``env LD_PRELOAD=… java …``.

    Raises:
        HarnessError: this machine cannot use the library.
    """
    program = shutil.which("env")
    if program is None:
        raise HarnessError("the program env does not exist", hint="Leave clock faults out.")
    return [program, *(f"{name}={value}" for name, value in environment(log).items()), *words]


def shift(log: Path, offset_s: float) -> None:
    """Set the offset of a node's clock in seconds. Return when the clock has this offset.

    Raises:
        HarnessError: the node was started without its own clock.
    """
    file = clock_of(log)
    if not file.exists():
        raise HarnessError(
            f"{log.stem} has the clock of this machine",
            hint="Add a clock fault to the plan before the brokers start.",
        )
    _write(log, offset_s, file.read_text("ascii").partition("\n")[2])
    set_at = time.monotonic()
    await_condition(
        lambda: time.monotonic() - set_at,
        lambda age_s: age_s > READ_EVERY_S,
        what=f"{log.stem} to read its new clock offset",
        limit_s=5.0 * READ_EVERY_S,
    )


def shift_children(log: Path, offset_s: float) -> None:
    """Set the offset of the clock that child processes of this process share.

    Raises:
        HarnessError: no child process has this clock. A statically linked program cannot have it.
    """
    variable = f"FAKETIME_TIMESTAMP_FILE={clock_of(log)}".encode()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError):  # the child has ended
            process = Path("/proc") / str(child.pid)
            preloaded = _LIBRARY.encode() in (process / "maps").read_bytes()
            if preloaded and variable in (process / "environ").read_bytes().split(b"\0"):
                return shift(log, offset_s)
    raise HarnessError(
        "no client process takes its time from the C library",
        hint="Leave clock faults of clients out.",
    )


def _write(log: Path, offset_s: float, journal: str) -> None:
    """Replace a clock file atomically, so that no process reads an incomplete file."""
    file = clock_of(log)
    new = file.with_name(f"{file.name}.new")
    new.write_text(f"{offset_s:+.3f}\n{journal}# {time.time_ns()} {offset_s:+.3f}\n", "ascii")
    new.replace(file)


class ClockJournal:
    """The offsets of a node's clock over time. Without a clock file, the offset is always 0.

    Args:
        log: path of the node's log.
    """

    def __init__(self, log: Path) -> None:
        self._spans = [(0, 0)]
        self._at = 0
        if clock_of(log).exists():
            for line in clock_of(log).read_text("ascii").splitlines():
                if line.startswith("# "):
                    begun, offset = line[2:].split()
                    self._spans.append((int(begun), round(float(offset) * 1e9)))

    def ahead_ns(self, shown_ns: int) -> int:
        """Return the offset, in ns, when the node's clock showed ``shown_ns`` (ns since 1970).

        Call this in order of time. For ``READ_EVERY_S`` after a change, the result may be the
        offset before the change or after it.
        """
        for number in range(self._at, len(self._spans)):
            begun_ns, offset_ns = self._spans[number]
            real_ns = shown_ns - offset_ns
            end_ns = self._spans[number + 1][0] if number + 1 < len(self._spans) else real_ns
            late_ns = READ_EVERY_S * 1_000_000_000 + _SLACK_NS
            if begun_ns - _SLACK_NS <= real_ns <= end_ns + late_ns:
                self._at = number
                return offset_ns
        return self._spans[self._at][1]
