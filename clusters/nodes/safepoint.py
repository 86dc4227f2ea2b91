"""Holds a JVM at a safepoint, as a long garbage collection does.

HotSpot writes a heap dump at a safepoint. Here it writes the dump to a FIFO, and waits because the
FIFO is full. Meanwhile no Java thread runs: a thread in a system call stops when it returns to
Java, so threads stop one by one. SIGSTOP in contrast stops all threads at once, also in a system
call.

The request for the dump is the command ``GC.heap_dump`` of ``jcmd``, by HotSpot's attach protocol
(``attachListener_linux.cpp`` of JDK 17): the JVM opens a socket in /tmp if it gets SIGQUIT while a
file ``.attach_pid`` exists.
"""

import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition

_LIMIT_S: Final = 30.0


@contextlib.contextmanager
def long_safepoint(pid: int) -> Iterator[None]:
    """Hold a JVM of JDK 17 or later at a safepoint during the ``with`` block.

    If this process ends, the FIFO has no reader any more, and the JVM continues.

    Raises:
        HarnessError: the JVM is not accessible, or has not begun the dump in time.
    """
    with contextlib.ExitStack() as stack:
        try:
            _hold(pid, stack)
        except OSError as error:
            raise HarnessError(
                f"the JVM of process {pid} cannot be held: {error.strerror}",
                hint="Run Highwater as the user of this process, or as root.",
            ) from error
        yield


def _hold(pid: int, stack: contextlib.ExitStack) -> None:
    """Let the JVM begin a heap dump, until ``stack`` closes the FIFO."""
    temporary, inner = _namespace(Path("/proc") / str(pid))
    fifo = temporary / f".highwater-{inner}.hprof"
    os.mkfifo(fifo)
    stack.callback(fifo.unlink, missing_ok=True)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    stack.callback(os.close, reader)
    connection = stack.enter_context(_attached(pid, temporary, inner))
    command = f"GC.heap_dump -all -overwrite /tmp/{fifo.name}"
    connection.sendall(f"1\0jcmd\0{command}\0\0\0".encode())
    await_condition(
        lambda: select.select([reader], [], [], 0)[0],
        what=f"process {pid} to write the first bytes of a heap dump",
        limit_s=_LIMIT_S,
    )
    fifo.unlink()  # now, so that a harness that is killed leaves no file behind


def _namespace(process: Path) -> tuple[Path, int]:
    """Return the folder /tmp of a process, and its id, as the process itself sees them."""
    lines = (process / "status").read_text("ascii").splitlines()
    [ids] = [line.split() for line in lines if line.startswith("NSpid:")]
    return process / "root" / "tmp", int(ids[-1])


@contextlib.contextmanager
def _attached(pid: int, temporary: Path, inner: int) -> Iterator[socket.socket]:
    """Connect to the JVM's socket for commands, and remove its file; the JVM can open another."""
    address, trigger = temporary / f".java_pid{inner}", temporary / f".attach_pid{inner}"
    with contextlib.ExitStack() as stack:
        if not address.exists():
            stack.callback(trigger.unlink, missing_ok=True)
            trigger.touch()
            os.kill(pid, signal.SIGQUIT)
            await_condition(
                address.stat,
                what=f"the JVM of process {pid} to open a socket for commands",
                limit_s=_LIMIT_S,
                passing=(FileNotFoundError,),
            )
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.connect(str(address))
        address.unlink()
        yield connection
