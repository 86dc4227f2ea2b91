"""A trace of the system calls that flush and rename a broker's files.

To replace a small file (a checkpoint, ``meta.properties``, ``partition.metadata``,
``quorum-state``), Kafka writes a new file ``….tmp`` beside it, and renames the new file. If Kafka
has not flushed the new file before, a power failure may leave an empty file
(``CheckpointFile.write(entries, sync)``, KAFKA-15046 and KAFKA-16541). Releases differ in their
flushes, so the harness observes the system calls with strace. ARM has no ``rename``: the ``?``
before a call in ``_CALLS`` lets strace ignore a call that the machine does not have.
"""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.clusters.nodes.site import NodePlan
from highwater.harness.base.errors import HarnessError

STRACE: Final = "strace"
_SUFFIX: Final = ".strace"
_TEMPORARY: Final = ".tmp"
_CALLS: Final = "fsync,fdatasync,?rename,?renameat,?renameat2"
_LINE: Final = re.compile(r"\d+ +(?P<at>[\d.]+) (?P<call>[a-z0-9]+)\((?P<arguments>.*)")
_FILE: Final = re.compile(r"\d+<(?P<path>[^>]*)>")
_QUOTED: Final = re.compile(r'"((?:\\.|[^"\\])*)"')
_ESCAPED: Final = re.compile(rb"\\([0-7]{1,3}|.)")
_CONTROLS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"f": b"\f", b"v": b"\v"}


def command(plan: NodePlan) -> Sequence[str]:
    """Return a node's command: for a broker, strace with the broker's command.

    strace is not the JVM's parent process (``-D``), so signals reach the JVM. strace stops the JVM
    only at the traced calls (``--seccomp-bpf``), so the JVM's speed does not change.

    Raises:
        HarnessError: strace is not installed.
    """
    if not plan.name.startswith("broker"):
        return plan.command
    program = shutil.which(STRACE)
    if sys.platform != "linux" or program is None:
        raise HarnessError(
            "brokers' flushes cannot be traced: strace is not installed",
            hint="Install strace (Linux only), or leave --trace-flushes out.",
        )
    options = ["-D", "-f", "-qqq", "--seccomp-bpf", "-y", "-ttt", "-A", "-e", "signal=none"]
    file = str(trace_of(plan.log))
    return [program, *options, "-e", f"trace={_CALLS}", "-o", file, *plan.command]


def trace_of(log: Path) -> Path:
    """Return the path of a node's trace file, beside its log."""
    return log.with_suffix(_SUFFIX)


def unflushed(trace: Path) -> dict[Path, float]:
    """Return path -> time, in seconds since 1970, of files that were replaced without a flush.

    A file is not in the result if the broker flushed it later, or replaced it by a flushed file. A
    system call that was interrupted counts as complete.

    Raises:
        HarnessError: the trace does not exist.
    """
    try:
        text = trace.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HarnessError(
            f"there is no trace {trace} of the broker's flushes: {error.strerror}",
            hint="Add --trace-flushes.",
        ) from error
    flushed: set[str] = set()
    written: dict[Path, float] = {}
    for line in map(_LINE.match, text.splitlines()):
        if line is None:
            continue
        if line["call"].startswith("rename"):
            source, target = map(_decoded, _QUOTED.findall(line["arguments"])[:2])
            if source == f"{target}{_TEMPORARY}":
                written.pop(Path(target), None)
                if source not in flushed:
                    written[Path(target)] = float(line["at"])
                flushed.discard(source)
        elif file := _FILE.match(line["arguments"]):
            path = _decoded(file["path"])
            flushed.add(path)
            written.pop(Path(path), None)
    return written


def _decoded(text: str) -> str:
    """Decode a path that strace printed: bytes beyond ASCII are octal escapes, as in C."""

    def byte(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 255]) if code.isdigit() else _CONTROLS.get(code, code)

    return os.fsdecode(_ESCAPED.sub(byte, os.fsencode(text)))
