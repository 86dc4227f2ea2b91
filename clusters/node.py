"""One node of a local cluster: a JVM that can be started again on what it left behind."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from clusters.addresses import Address, require_free
from clusters.jvm import environment
from clusters.last_words import last_words
from clusters.process import Process, ProcessState
from harness.errors import HarnessError, WaitTimeoutError
from harness.waiting import await_condition

START_LIMIT_S = 90.0  # of a 4.x broker on a loaded machine with two cores
STOP_LIMIT_S = 45.0


class Node:
    """A JVM with a name, an address and a log.

    Args:
        name: for messages, such as ``broker 2``.
        address: where it will listen.
        command: how to start it.
        log: appended to across restarts.
        directory: to run in.
    """

    def __init__(
        self, name: str, address: Address, command: Sequence[str], *, log: Path, directory: Path
    ) -> None:
        self.name = name
        self.address = address
        self.log = log
        self._command = command
        self._directory = directory
        self._process: Process | None = None
        self._log_start = 0

    @property
    def state(self) -> ProcessState:
        """``down`` before the first start."""
        return self._process.state if self._process else "down"

    @property
    def status(self) -> int | None:
        """Exit status of the last life, negative for a signal."""
        return self._process.status if self._process else None

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the JVM and of its warden, while they run."""
        process = self._process
        return (process.pid, process.warden_pid) if process and process.state != "down" else ()

    def launch(self) -> None:
        """Start the process and do not wait for its port.

        Raises:
            HarnessError: the port is taken.
        """
        require_free(self.address, self.name)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = Process(
            self.name,
            self._command,
            log=self.log,
            directory=self._directory,
            environment=environment(),
        )

    def listens(self) -> bool:
        """Whether its port answers.

        Raises:
            HarnessError: it died instead; the message has its last words.
        """
        self.require_alive()
        with socket.socket() as trial:
            trial.settimeout(1.0)
            return trial.connect_ex((self.address.host, self.address.port)) == 0

    def require_alive(self) -> None:
        """Raise HarnessError with its last words if it has died by itself."""
        if self._process is None or self._process.state != "down":
            return
        status = self._process.status
        raise HarnessError(
            f"{self.name} died (exit status {status}): {self._last_words()}",
            hint=f"Its whole log is {self.log}.",
        )

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait while it starts; its death ends the wait with its last words."""

        def alive_and_true() -> bool:
            self.require_alive()
            return condition()

        try:
            await_condition(
                alive_and_true,
                bool,
                what=f"{self.name} at {self.address} {what}",
                limit_s=START_LIMIT_S,
                every_s=0.02,
            )
        except WaitTimeoutError as error:
            raise WaitTimeoutError(
                f"{error.message}; it last said: {self._last_words()}",
                hint=f"Its whole log is {self.log}.",
            ) from error

    def _last_words(self) -> str:
        return last_words(self.log, since=self._log_start)

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        process = self._process
        if process is None:
            return
        if process.state == "paused":
            raise HarnessError(f"{self.name} is paused and cannot stop", hint="Resume it first.")
        if not process.terminate(limit_s=STOP_LIMIT_S):
            raise WaitTimeoutError(
                f"{self.name} did not shut down within {STOP_LIMIT_S:g} s",
                hint=f"Its log is {self.log}.",
            )

    def kill(self) -> None:
        """SIGKILL, whatever its state."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        if self._process is None or self._process.state == "down":
            raise HarnessError(f"{self.name} is down and cannot be paused")
        self._process.pause()

    def resume(self) -> None:
        """SIGCONT; nothing to do for one that is down, so that healing may follow a kill."""
        if self._process is not None:
            self._process.resume()

    def release(self) -> None:
        """Let its warden kill it; does not wait."""
        if self._process is not None:
            self._process.release()

    def gone(self, timeout_s: float) -> bool:
        """Whether it has ended by then."""
        return self._process is None or self._process.wait(timeout_s)
