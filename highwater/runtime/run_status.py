"""The progress and the problems of a run.

They are in ``status.json`` in the run directory, and on the terminal.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Self

from msgspec.structs import replace

from highwater.harness.base.errors import HarnessError, HighwaterError, Interruption
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import Phase, Run, RunStatus, StandingEnd
from highwater.nemesis.context import ScheduleNotFollowedError
from highwater.runtime.workload import Counts

FULL_DISK_BYTES: Final = 1 << 20

Progress = Callable[[str], None]
"""A callback that is called with a short text about each new step; the last text is ``frozen``."""


class ProgressLine:
    """Records faults, and formats a line about the run's progress."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last = ""

    def fault(
        self, name: str, phase: str, says: str, broker: int | None = None, **fields: object
    ) -> None:
        """Record one row of ``events/faults``."""
        self._last = says
        self._recorder.fault(name, phase, says, broker, **fields)

    def line(self, counts: Counts) -> str:
        """Return a line with the numbers of acknowledged and read records, and the last fault."""
        numbers = f"{counts.ok} of {counts.sent} acknowledged, " if counts.sent else ""
        numbers += f"{counts.read} read"
        return f"{numbers}; {self._last}" if self._last else numbers


class StatusKeeper:
    """Writes a run's ``status.json``, and reports the run's progress."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self._run = run
        self._progress = progress
        self._status = RunStatus(phase="booting")
        self._started = time.monotonic()

    def phase(self, phase: Phase, **facts: object) -> None:
        """Begin a new phase; ``facts`` are more fields of the status."""
        self._write(phase=phase, **facts)
        self._progress(phase)

    def quiesced(self) -> None:
        """Record that every replica is back in the ISR."""
        self._write(quiesced=True)

    def add(self, problems: Sequence[str]) -> None:
        """Add problems. The run continues, and its verdict will be ``unknown``."""
        before = self._status.problems
        if new := tuple(problem for problem in problems if problem not in before):
            self._write(problems=before + new)

    def standing(self, ends: Sequence[StandingEnd]) -> None:
        """Record the partitions in which an open transaction stopped the final read (LSO)."""
        if ends:
            self._write(standing=tuple(ends))

    def clock_step(self, step_s: float) -> None:
        """Record that the machine's wall clock was moved during the run."""
        self._write(clock_step_s=step_s)

    def explain(self, causes: Sequence[str]) -> None:
        """If the run has problems, add possible causes; without a problem do nothing."""
        if self._status.problems:
            self.add(causes)

    @contextlib.contextmanager
    def problems(self, *kinds: type[HighwaterError]) -> Iterator[None]:
        """Catch errors of the classes ``kinds`` in the ``with`` block; add them as problems."""
        try:
            yield
        except kinds as error:
            if isinstance(error, ScheduleNotFollowedError):
                self._status = replace(self._status, missed=error.missed)
            self.add([error.message])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Record why a run ended early, if the disk has enough space."""
        if error is None:
            return
        self._blame_full_disk(error)
        words = type(error).__name__
        if isinstance(error, HighwaterError | Interruption):
            words = error.message
        with contextlib.suppress(OSError):
            self.add([f"the run ended early while {self._status.phase}: {words}"])
        if isinstance(error, HarnessError):
            error.hint = "\n".join(filter(None, [error.hint, f"The run so far: {self._run.path}"]))

    def _blame_full_disk(self, error: BaseException) -> None:
        if isinstance(error, HarnessError) and (
            shutil.disk_usage(self._run.path).free < FULL_DISK_BYTES
        ):
            error.message = f"no space left on the disk of {self._run.path}: {error.message}"
            error.hint = "Free disk space, or choose another folder with --store."

    def _write(self, **changes: object) -> None:
        seconds = round(time.monotonic() - self._started, 3)
        self._status = replace(self._status, seconds=seconds, **changes)
        self._run.write_struct("status.json", self._status)
