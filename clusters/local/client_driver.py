"""The process of a client driver (docs/driver.md), with named pipes for its input and output."""

import contextlib
import os
import select
import shutil
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from highwater.clusters.local.jvm_process import ChildProcess
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.scratch import scratch

_OPEN: Final = 'exec "$@" <"$HIGHWATER_REQUESTS" >"$HIGHWATER_ANSWERS"'
_LOOK_MS: Final = 200
_CHUNK: Final = 65_536


class ClientDriverProcess:
    """A running driver. It ends with this process, even after ``kill -9``.

    Args:
        command: the program and its arguments, relative to the current directory.
        log: file to which the driver's standard error is appended.

    Attributes:
        requests: the driver's standard input.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._folder = scratch("client-driver")
        pipes = {name: self._folder / name for name in ("requests", "answers")}
        for pipe in pipes.values():
            os.mkfifo(pipe, 0o600)
        # Each pipe is opened for both directions: no side waits until the other has opened it.
        self.requests = FileIO(os.open(pipes["requests"], os.O_RDWR), "wb")
        self._answers = FileIO(os.open(pipes["answers"], os.O_RDWR), "rb")
        self._log = log
        self._process = ChildProcess(
            "the client driver",
            ["/bin/sh", "-c", _OPEN, "sh", *command],
            log=log,
            directory=Path.cwd(),
            environment={
                **os.environ,
                **{f"HIGHWATER_{name.upper()}": str(pipe) for name, pipe in pipes.items()},
            },
            grouped=True,
        )

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the driver's standard output until its end. Then close the output."""
        begun = b""
        answers = select.poll()
        answers.register(self._answers, select.POLLIN)
        with self._answers:
            while True:
                ended = self._process.state == "down"
                if answers.poll(0 if ended else _LOOK_MS):
                    *lines, begun = (begun + os.read(self._answers.fileno(), _CHUNK)).split(b"\n")
                    yield from lines
                elif ended:
                    return

    def last_words(self) -> str:
        """Return the last line of the driver's standard error, or an empty text."""
        return last_line(self._log)

    def end_input(self, limit_s: float) -> bool:
        """Close the driver's standard input. Return whether it has exited within the limit."""
        self.requests.close()
        return self._process.wait(limit_s)

    def kill(self) -> None:
        """Kill the driver, as in a crash. Never raises an error. A second call does nothing."""
        with contextlib.suppress(HarnessError):
            self._process.kill()
        self._process.release()
        shutil.rmtree(self._folder, ignore_errors=True)


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank, or an empty text."""
    lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
