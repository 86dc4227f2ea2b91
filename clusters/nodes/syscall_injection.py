"""Disk faults: strace delays a running process's system calls, or makes them fail.

strace attaches to the process (``-p``) when the fault begins, and detaches when the fault ends. The
detach also ends every delay. This needs Linux, and the privilege to trace a process: root, or
``kernel.yama.ptrace_scope`` 0. A process can have only one tracer. So this fault is not possible
for a broker whose flushes are traced (``flush_trace``). While strace is attached, each system call
of the process is slower.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from highwater.clusters.core.system_calls import CallRule
from highwater.clusters.nodes.flush_trace import STRACE
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import NotYetError, await_condition

_SCOPE: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
_ATTACHED: Final = " attached"
_INJECTED: Final = "(INJECTED)"
_DELAYED: Final = "(DELAYED)"
_LIMIT_S: Final = 20.0


def why_not() -> str:
    """Return why this machine cannot trace processes; empty if it can."""
    if shutil.which(STRACE) is None:
        return "needs strace, on Linux"
    allowed = not _SCOPE.exists() or _SCOPE.read_text("ascii").strip() == "0" or not os.geteuid()
    return "" if allowed else "needs kernel.yama.ptrace_scope 0, or root"


@contextlib.contextmanager
def injected(pid: int, rule: CallRule, log: Path) -> Iterator[Callable[[], int]]:
    """Apply a rule to a process during the block; yield a function that counts changed calls.

    Args:
        log: the process's log. strace's output is in the same directory.

    Raises:
        HarnessError: strace cannot attach to the process; the message has the reason.
    """
    program = shutil.which(STRACE)
    if reason := why_not():
        raise HarnessError(f"a disk fault {reason}", hint="Leave the fault out.")
    assert program is not None
    trace, messages = log.with_suffix(".calls"), log.with_suffix(".calls-says")
    paths = [word for file in rule.files for word in ("-P", str(file))]
    words = ["-f", "-p", str(pid), "-e", f"trace={rule.calls}", "-o", str(trace)]
    trace.unlink(missing_ok=True)
    with messages.open("wb") as output:
        process = subprocess.Popen(
            [program, *words, *paths, "-e", f"inject={rule.calls}:{rule.action}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        await_condition(
            lambda: _attached(process, messages), what=f"strace to trace {pid}", limit_s=_LIMIT_S
        )
        yield lambda: _count(trace)
    finally:
        process.terminate()
        try:
            process.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _attached(process: "subprocess.Popen[bytes]", messages: Path) -> str:
    text = messages.read_text("utf-8", "replace")
    if process.poll() is not None and _ATTACHED not in text:
        raise HarnessError(f"strace cannot trace the broker: {text.strip()}")
    if _ATTACHED not in text:
        raise NotYetError(text or "nothing")
    return text


def _count(trace: Path) -> int:
    text = trace.read_text("utf-8", "replace") if trace.exists() else ""
    return text.count(_INJECTED) + text.count(_DELAYED)
