"""The status of a run, for readers of its directory and for the terminal."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Self

import msgspec

from highwater.harness.base.errors import HarnessError, HighwaterError, Interruption
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import Phase, Run, RunStatus
from highwater.runtime.workload import Counts

FULL_DISK_BYTES: Final = 1 << 20

Progress = Callable[[str], None]
"""Told what begins now, in a few words; the last word is ``frozen``."""


class ProgressLine:
    """Records what the nemesis does, and has a line about how the run goes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last = ""

    def fault(self, name: str, phase: str, says: str, broker: int | None = None) -> None:
        """Record one row of ``events/faults``."""
        self._last = says
        self._recorder.fault(name, phase, says, broker)

    def line(self, counts: Counts) -> str:
        """Return how many records went where so far, and what happened last."""
        numbers = f"{counts.ok} of {counts.sent} acknowledged, {counts.read} read"
        return f"{numbers}; {self._last}" if self._last else numbers


class StatusKeeper:
    """Keeps ``status.json`` true at every moment, and tells the progress."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self._run = run
        self._progress = progress
        self._status = RunStatus(phase="booting")
        self._started = time.monotonic()

    def phase(self, phase: Phase) -> None:
        """Begin a phase."""
        self._write(msgspec.structs.replace(self._status, phase=phase))
        self._progress(phase)

    def frozen(self, manifest: str) -> None:
        """Note that the run is whole, with the digest of its manifest."""
        done = msgspec.structs.replace(self._status, phase="frozen", manifest=manifest)
        self._write(done)
        self._progress("frozen")

    def quiesced(self) -> None:
        """Every replica is back in the ISR."""
        self._write(msgspec.structs.replace(self._status, quiesced=True))

    def add(self, problems: Sequence[str]) -> None:
        """Something could not be done; the run goes on, and its verdict will be unknown."""
        if problems:
            both = (*self._status.problems, *problems)
            self._write(msgspec.structs.replace(self._status, problems=both))

    def explain(self, causes: Sequence[str]) -> None:
        """Add what may be behind the problems, if there are any; alone it is no problem."""
        if self._status.problems:
            self.add(causes)

    @contextlib.contextmanager
    def problems(self, *kinds: type[HighwaterError]) -> Iterator[None]:
        """Turn errors of these kinds into problems."""
        try:
            yield
        except kinds as error:
            self.add([error.message])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Write down why a run ended early, if the disk still takes it."""
        if error is None:
            return
        self._blame_full_disk(error)
        words = type(error).__name__
        if isinstance(error, HighwaterError | Interruption):
            words = error.message
        with contextlib.suppress(OSError):
            self.add([f"the run was cut short while {self._status.phase}: {words}"])
        if isinstance(error, HarnessError):
            error.hint = "\n".join(filter(None, [error.hint, f"The run so far: {self._run.path}"]))

    def _blame_full_disk(self, error: BaseException) -> None:
        """Say so when the disk is full: whatever died first may have died of that."""
        if isinstance(error, HarnessError) and (
            shutil.disk_usage(self._run.path).free < FULL_DISK_BYTES
        ):
            error.message = f"no space left on the disk of {self._run.path}: {error.message}"
            error.hint = "Free room or choose another folder with --store."

    def _write(self, status: RunStatus) -> None:
        seconds = round(time.monotonic() - self._started, 3)
        self._status = msgspec.structs.replace(status, seconds=seconds)
        self._run.write_struct("status.json", self._status)
