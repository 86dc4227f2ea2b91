"""Read the lines by which a program without an output topic reports finished work.

Such a program prints ``HIGHWATER_DONE`` and the name of a finished input. It may also print another
text instead of the name; then the regular expression of ``--match`` finds the name in the text. A
program without an input topic prints ``HIGHWATER_ACKNOWLEDGED`` and a record's name. The program
prints to a named pipe, and waits if Highwater reads too slowly, so no line is lost. If a process is
killed, its incomplete last line is ignored.
"""

import os
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Final

from highwater.harness.base.errors import HarnessError
from highwater.harness.base.scratch import scratch
from highwater.harness.runs.programs.expressions import Expression, ProgramRecord
from highwater.harness.runs.recorder import Recorder

DONE: Final = "HIGHWATER_DONE"
ACKNOWLEDGED: Final = "HIGHWATER_ACKNOWLEDGED"
_CHUNK_BYTES: Final = 1 << 16
_LINE_BYTES_MOST: Final = 1 << 20
_VALUE_LETTERS: Final = 200
_CUT: Final = b"\0a process has ended\0"
_END: Final = b"\0the run has ended\0"
"""The end of lines that the harness itself writes to the pipe."""

_READ_LIMIT_S: Final = 30.0


class PrintedLines:
    """Reads the output of one instance, and records the name in each line that contains ``word``.

    Args:
        word: the first word of a report, such as ``HIGHWATER_DONE``.
        log: file to which the output is copied.
        names: the regular expression that finds an input's name in a text.

    Attributes:
        pipe: the pipe to which the instance's processes write.
        done: number of lines with the word so far.
    """

    def __init__(
        self, number: int, log: Path, recorder: Recorder, names: Expression, *, word: str = DONE
    ) -> None:
        self.done = 0
        self._number = number
        self._kind = "output" if word == DONE else "acknowledged"
        self._line = re.compile(rf"(?:^|\s){word}\s+(\S.*?)\s*$".encode(), re.DOTALL)
        self._log = log
        self._recorder = recorder
        self._names = names
        self._failure: Exception | None = None
        self._closed = False
        self.pipe = scratch(f"app-{number}") / "printed"
        os.mkfifo(self.pipe)
        self._end = os.open(self.pipe, os.O_RDWR)  # so that the pipe stays open after each process
        self._thread = threading.Thread(target=self._read, name=f"printed-{number}", daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """End the current line when a process ends; an incomplete line is ignored."""
        self._write(_CUT)

    def close(self) -> None:
        """Read the remaining output, and record its end; a second call has no effect.

        Raises:
            HarnessError: the lines could not be read or recorded.
        """
        if self._closed:
            return
        self._closed = True
        self._write(_END)
        self._thread.join(_READ_LIMIT_S)
        shutil.rmtree(self.pipe.parent, ignore_errors=True)
        self.check()
        if self._thread.is_alive():
            raise HarnessError(
                f"Highwater did not read the output of instance {self._number} of the program to "
                f"its end within {_READ_LIMIT_S:g} s"
            )
        os.close(self._end)
        if self._kind == "output":
            self._recorder.output({"kind": "end", "partition": self._number, "offset": self.done})

    def check(self) -> None:
        """Raise an error if the reading thread has failed.

        Raises:
            HarnessError: the lines could not be read or recorded.
        """
        if self._failure is not None:
            raise HarnessError(
                f"Highwater cannot read the output of instance {self._number} of the program: "
                f"{self._failure!r}"
            ) from self._failure

    def _write(self, end: bytes) -> None:
        os.write(self._end, end + b"\n")

    def _read(self) -> None:
        """Read until the run ends, even after a failure, so that the program does not block."""
        pending = b""
        while True:
            chunk = os.read(self._end, _CHUNK_BYTES)
            *lines, pending = (pending + chunk).split(b"\n")
            pending = pending[-_LINE_BYTES_MOST:]
            try:
                with self._log.open("ab") as log:
                    log.write(chunk)
                for line in lines:
                    if not line.endswith(_CUT) and (match := self._line.search(line)):
                        self._record(match[1])
            except Exception as error:  # noqa: BLE001 - check() raises it for the run
                self._failure = error
            if any(line.endswith(_END) for line in lines):
                return

    def _record(self, text: bytes) -> None:
        says = text.decode("utf-8", "replace")
        for name in self._names(ProgramRecord(text, key=text)) or (says,):
            self._recorder.output(
                {
                    "kind": self._kind,
                    "partition": self._number,
                    "offset": self.done,
                    "timestamp_ms": time.time_ns() // 1_000_000,
                    "input": name,
                    "value": says[:_VALUE_LETTERS],
                }
            )
        self.done += 1
