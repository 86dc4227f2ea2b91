"""One node of a cluster: a JVM that can be restarted with its old data."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from highwater.clusters.core.interfaces import BrokerState
from highwater.clusters.nodes.site import NodePlan, NodeProcess, Site
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, await_condition

_T = TypeVar("_T")

START_LIMIT_S = 90.0  # enough for a 4.x broker on a busy machine with two cores
STOP_LIMIT_S = 45.0

_TAIL_BYTES = 64 * 1024
_LINES = 4
_WORTH_SAYING = re.compile(
    r"\b(ERROR|FATAL)\b|Exception\b|Error\b|No space left|already in use|^Caused by"
)
# A line of a stack trace, and a log line without a message.
_EMPTY = re.compile(r"^\s+at |^\s*\.\.\. \d+ more|^\S+ [A-Z]+\s+\([\w.$]+\)$")


class Node:
    """A JVM with a name, an address and a log.

    Attributes:
        released: whether ``release`` was called. The healing of a fault may still follow.
    """

    def __init__(self, plan: NodePlan, site: Site) -> None:
        self.name = plan.title
        self.address = plan.public
        self.log = plan.log
        self._plan = plan
        self._site = site
        self._process: NodeProcess | None = None
        self._log_start = 0
        self.released = False

    @property
    def state(self) -> BrokerState:
        """State of the JVM. It is ``down`` before the first start."""
        return self._process.state if self._process else "down"

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the node's processes on this machine, while they run."""
        return self._process.pids if self._process else ()

    def replace_plan(self, plan: NodePlan) -> None:
        """Use another plan from the next start on. The other plan has the same addresses."""
        self._plan = plan

    def launch(self) -> None:
        """Start the JVM, without waiting for its port."""
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = self._site.begin(self._plan)

    def require_listening(self) -> None:
        """Raise NotYetError if the port is closed, or HarnessError if the node has exited."""
        self.require_alive()
        if not self._site.answers(self.address):
            raise NotYetError("no process listens on its port")

    def require_alive(self) -> None:
        """Raise HarnessError with the last lines of the node's log if the node has exited."""
        if self._process is None or self._process.state != "down":
            return
        status = self._process.status
        raise HarnessError(
            f"{self.name} exited (status {status}): {self._failure_lines()}",
            hint=f"Read its complete log: {self.log}",
        )

    def wait_for(
        self, look: Callable[[], _T], what: str, until: Callable[[_T], bool] | None = None
    ) -> None:
        """Call ``look`` repeatedly until its result satisfies ``until``, while the node starts.

        If the node exits, raise an error with the last lines of its log.
        """

        def look_alive() -> _T:
            self.require_alive()
            return look()

        try:
            await_condition(
                look_alive,
                until,
                what=f"{self.name} at {self.address} {what}",
                limit_s=START_LIMIT_S,
                every_s=0.02,
            )
        except WaitTimeoutError as error:
            raise WaitTimeoutError(
                f"{error.message}; its last log lines: {self._failure_lines()}",
                hint=f"Read its complete log: {self.log}",
            ) from error

    def _failure_lines(self) -> str:
        return failure_lines(self.log, since=self._log_start)

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        if process.state == "paused":
            raise HarnessError(f"{self.name} is paused and cannot stop", hint="Resume it first.")
        if not process.terminate(limit_s=STOP_LIMIT_S):
            raise WaitTimeoutError(
                f"{self.name} did not shut down within {STOP_LIMIT_S:g} s",
                hint=f"Read its log: {self.log}",
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        if self._process is None or self._process.state == "down":
            raise HarnessError(f"{self.name} is down and cannot be paused")
        self._process.pause()

    def resume(self) -> None:
        """Send SIGCONT. Do nothing if the node is down, because a fault may have killed it."""
        if self._process is not None:
            self._process.resume()

    def limit_container(self, *, cpus: float | None, spare_mb: int | None) -> None:
        if self._process is None:
            raise HarnessError(f"{self.name} has no limits, because it was never started")
        self._process.limit(cpus=cpus, spare_mb=spare_mb)

    def release(self) -> None:
        self.released = True
        if self._process is not None:
            self._process.release()

    def wait_until_down(self, timeout_s: float) -> bool:
        return self._process is None or self._process.wait(timeout_s)


def failure_lines(log: Path, *, since: int = 0) -> str:
    """Return the last few error lines of a log. Without error lines, return the last line.

    Args:
        since: byte position at which the log of the process's last start begins.
    """
    try:
        with log.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(since, end - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return f"(the log {log} cannot be read: {error.strerror})"
    messages = [line.strip() for line in lines if line.strip() and not _EMPTY.match(line)]
    errors = [line for line in messages if _WORTH_SAYING.search(line)]
    return "\n".join((errors or messages[-1:])[-_LINES:]) or "(the log is empty)"
