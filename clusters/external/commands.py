"""Runs the commands of an inventory with a time limit; a failure shows the end of their output."""

import os
import signal
import subprocess
import tempfile
from typing import Final

from highwater.clusters.external.inventory import Command
from highwater.harness.base.errors import HarnessError

_TAIL_BYTES: Final = 600
_DIES_S: Final = 5.0


def run(command: Command, *, hold: int | None = None) -> None:
    """Run a command and wait for its end.

    Its output goes to a file and not to a pipe, which a background process might keep open.

    Args:
        hold: a descriptor that the command and its children keep open as long as they live.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command.line],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=() if hold is None else (hold,),
            start_new_session=True,  # a terminal's Ctrl-C does not reach it
        )
        try:
            status: int | None = process.wait(command.limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(_DIES_S)
        if status == 0:
            return
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
        tail = output.read().decode(errors="replace").strip()
    how = f"hung for {command.limit_s:g} s" if status is None else f"ended with status {status}"
    raise HarnessError(
        f"the command to {command.what} {how}: {command.line}\nIt said: {tail or 'nothing'}"
    )
