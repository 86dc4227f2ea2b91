"""A child process, such as a JVM, and its guard. A method returns after it has taken effect."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from highwater.clusters.core.interfaces import BrokerState
from highwater.harness.base.errors import HarnessError, WaitTimeoutError

_GUARD = Path(__file__).with_name("process_guard.py")
_WORDS = {False: "child", True: "group"}
_TAKES_EFFECT_S = 10.0


class ChildProcess:
    """One child process that ends when the harness ends, even after ``kill -9``.

    The child's parent is a guard (``clusters.local.process_guard``). Any thread may call the
    methods.

    Args:
        command: absolute path of the program and its arguments.
        log: file to which standard output and standard error are appended.
        grouped: whether the child leads a process group. The group gets the child's signals and
            ends with the child.

    Attributes:
        pid: process id of the child; 0 before the child is started.
        guard_pid: process id of the guard.
        state: the child's state in the guard's last report.
    """

    state: BrokerState = "running"
    status: int | None = None
    pid = 0

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        directory: Path,
        environment: Mapping[str, str],
        grouped: bool = False,
    ) -> None:
        self.name = name
        self._changed = threading.Condition()
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), _WORDS[grouped], str(log), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=directory,
                env=dict(environment),
                start_new_session=True,  # so that a terminal's Ctrl-C does not reach the guard
            )
        self.guard_pid = self._guard.pid
        threading.Thread(target=self._listen, name=f"guard-{name}", daemon=True).start()

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self.state == "down" else (self.pid, self.guard_pid)

    def pause(self) -> None:
        """Send SIGSTOP, and return when every thread of the child has stopped."""
        self._do("STOP", lambda: self.state != "running", "stop after SIGSTOP")

    def resume(self) -> None:
        """Send SIGCONT, and return when the child runs."""
        self._do("CONT", lambda: self.state != "paused", "continue after SIGCONT")

    def kill(self) -> None:
        """Send SIGKILL, and return when the child has exited.

        Do nothing if the child has already exited.
        """
        self._do("KILL", lambda: self.state == "down", "exit after SIGKILL")

    def terminate(self, *, limit_s: float) -> bool:
        try:
            self._do("TERM", lambda: self.state == "down", "exit after SIGTERM", limit_s)
        except WaitTimeoutError:
            return False
        return True

    def wait(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.state == "down", timeout_s)

    def limit(self, *, cpus: float | None, spare_mb: int | None) -> None:
        raise HarnessError(
            f"{self.name} is not in a container: the limits ({cpus}, {spare_mb}) are not possible",
            hint="Use --cluster docker.",
        )

    def release(self) -> None:
        """Close the guard's input, so that the guard kills the child. Never wait or raise."""
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):  # the guard has ended before it read a verb
            self._guard.stdin.close()

    def _do(
        self, verb: str, done: Callable[[], bool], effect: str, limit_s: float = _TAKES_EFFECT_S
    ) -> None:
        with self._changed:
            if done():
                return
            self._say(verb)
            if not self._changed.wait_for(done, limit_s):
                raise WaitTimeoutError(
                    f"{self.name} (pid {self.pid}) did not {effect} within {limit_s:g} s",
                    hint="Check the machine: its memory may be full, or its disk may not respond.",
                )

    def _say(self, verb: str) -> None:
        pipe = self._guard.stdin
        assert pipe is not None
        with contextlib.suppress(OSError, ValueError):  # the guard has ended, or ends now
            pipe.write(f"{verb}\n".encode())
            pipe.flush()

    def _listen(self) -> None:
        pipe = self._guard.stdout
        assert pipe is not None
        with pipe:
            for line in pipe:
                event, _, detail = line.decode().strip().partition(" ")
                with self._changed:
                    self._apply(event, detail)
                    self._changed.notify_all()
        self._guard.wait()
        with self._changed:
            self.state = "down"
            self._changed.notify_all()

    def _apply(self, event: str, detail: str) -> None:
        if event == "started":
            self.pid = int(detail)
        elif event == "stopped":
            self.state = "paused"
        elif event == "continued":
            self.state = "running"
        else:
            self.status = int(detail)
