"""Start, supervise and stop the instances of the program under test.

A supervisor restarts an instance that exits by itself, after a delay that grows with each quick
exit. Each instance is a process group. A guard process kills the group when the harness ends. The
output of an instance is in ``logs/app-<instance>.log``. Of a long log, only the first and the last
part remain.

Arguments and ``--env`` may contain placeholders, such as ``{bootstrap}``. The same values are in
environment variables (``_VARIABLES``). Each instance has its own port.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from highwater.clusters.core.addresses import free_ports
from highwater.clusters.local.jvm_process import ChildProcess
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.waiting import await_condition
from highwater.harness.base.wording import count
from highwater.harness.runs.plan import Plan, ProgramPlan
from highwater.harness.runs.programs.expressions import expression
from highwater.harness.runs.recorder import Recorder
from highwater.nemesis.faults.registry import NothingDoneError
from highwater.runtime.programs.printed_lines import ACKNOWLEDGED, DONE, PrintedLines

LOG_BYTES_MOST: Final = 2 << 20
_QUICK_S: Final = 2.0
"""If an instance exits by itself within this many seconds, it has crashed at its start."""
_CRASHES_MOST: Final = 3
_BACK_OFF_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_STAYS_S: Final = 1.0
_START_LIMIT_S: Final = 120.0
_LOOK_S: Final = 0.1
_TERM_S: Final = 10.0
_LAST_LINES: Final = 3

_VARIABLES: Final = {
    "bootstrap": "KAFKA_BOOTSTRAP_SERVERS",
    "in": "HIGHWATER_IN",
    "out": "HIGHWATER_OUT",
    "group": "HIGHWATER_GROUP",
    "instance": "HIGHWATER_INSTANCE",
    "port": "HIGHWATER_PORT",
}
"""The placeholders, and for each the environment variable with the same value."""

INSTANCE_CLIENT: Final = "app-"
"""The prefix of an instance's client name at the relay; the instance's number follows."""

RecordEvent = Callable[..., None]
NameClient = Callable[[str, int], object]


class ProgramInstance:
    """One instance of the program and its supervisor. Threads can share this object.

    Args:
        command: absolute path of the program, and its arguments.
        log: file to which the instance's output is written.
        printed: reads the output, if the program reports finished work there.
        record: called with each row of the table ``harness.runs.history.INSTANCES``.
        named: called with ``client`` and a process id, so that the relay can identify the
            connections of this process and its children.

    Attributes:
        client: the instance's client name at the relay.
        ends: number of times that the instance has exited by itself.
        stubborn: whether the instance ignored SIGTERM at the end of the run.
    """

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        printed: PrintedLines | None = None,
        record: RecordEvent,
        named: NameClient,
    ) -> None:
        self.number = number
        self.client = f"{INSTANCE_CLIENT}{number}"
        self.ends = self._crashes = 0
        self.stubborn = False
        self._command = command
        self._environment = environment
        self._log = log
        self._printed = printed
        self._record = record
        self._named = named
        self._life = 0
        self._child: ChildProcess | None = None
        self._end = ""
        self._failure: Exception | None = None
        self._begun_s = 0.0
        self._lock = threading.RLock()
        self._may_run = threading.Event()
        self._may_run.set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"app-{number}", daemon=True)

    @property
    def runs(self) -> bool:
        """True if the instance's process runs and is not paused."""
        child = self._child
        return child is not None and child.state == "running" and bool(child.pid)

    @property
    def stays(self) -> bool:
        """True if the instance's process runs, and started at least a second ago."""
        return self.runs and self._ran_s >= _STAYS_S

    @property
    def crashes(self) -> int:
        """The number of consecutive crashes at the start; 0 if the last start succeeded."""
        return 0 if self.runs and self._ran_s >= _QUICK_S else self._crashes

    @property
    def _ran_s(self) -> float:
        return time.monotonic() - self._begun_s

    def kill(self) -> None:
        """Send SIGKILL to the instance's processes; the instance stays down until ``start``.

        Raises:
            NothingDoneError: the instance does not run.
        """
        self._down("killed").kill()

    def terminate(self) -> bool:
        """Send SIGTERM, and SIGKILL after a time limit; the instance stays down until ``start``.

        Returns:
            False if the instance did not exit after SIGTERM.

        Raises:
            NothingDoneError: the instance does not run.
        """
        child = self._down("stopped")
        if child.terminate(limit_s=_TERM_S):
            return True
        self._end = "killed"
        child.kill()
        return False

    def start(self) -> None:
        """Start or restart the instance."""
        self._crashes = 0
        self._may_run.set()
        if self._thread.ident is None:
            self._thread.start()

    def leave(self) -> None:
        """Stop the instance with SIGTERM, if it runs. The instance stays down until ``start``."""
        with self._lock:
            self._may_run.clear()
            self._end = self._end or "stopped"
        self._end_in_order()

    def pause(self) -> None:
        """Send SIGSTOP to the instance's processes.

        Raises:
            NothingDoneError: the instance does not run.
        """
        self._running().pause()
        self._note("paused")

    def resume(self) -> None:
        """Send SIGCONT to the instance's processes, if they are paused."""
        child = self._child
        if child is not None and child.state == "paused":
            child.resume()
            self._note("resumed")

    def close(self) -> None:
        """Stop the instance with SIGTERM, and stop its supervisor."""
        with self._lock:
            self._closing.set()
            self._end = self._end or "closed"
        self._end_in_order()
        if self._child is not None:
            self._child.release()
        if self._thread.ident is not None:
            self._thread.join()

    def _end_in_order(self) -> None:
        child = self._child
        if child is not None:
            self.resume()
            self.stubborn = not child.terminate(limit_s=_TERM_S)
            if self.stubborn:
                child.kill()

    def check(self) -> None:
        """Raise an error if the instance's supervisor has failed.

        Raises:
            HarnessError: the supervisor has failed; the message has the reason.
        """
        if self._failure is not None:
            raise HarnessError(
                f"the supervisor of instance {self.number} of the program has failed: "
                f"{self._failure!r}"
            ) from self._failure

    def last_words(self) -> str:
        """Return the last lines of the instance's output; empty without output."""
        lines = self._log.read_text("utf-8", "replace").splitlines() if self._log.exists() else []
        return "\n".join([line for line in lines if line.strip()][-_LAST_LINES:])

    def _down(self, end: str) -> ChildProcess:
        with self._lock:
            child = self._running()
            self._end = end
            self._may_run.clear()
        return child

    def _running(self) -> ChildProcess:
        child = self._child
        if child is None or not self.runs:
            raise NothingDoneError(f"instance {self.number} of the program does not run")
        return child

    def _guarded(self) -> None:
        try:
            self._supervise()
        except Exception as error:  # noqa: BLE001 - check() raises it for the run
            self._failure = error

    def _supervise(self) -> None:
        while not self._closing.is_set():
            if not self._may_run.wait(_LOOK_S):
                continue
            child = self._begin()
            if child is None:
                continue
            while not child.wait(_LOOK_S):
                self._bound_log()
            self._ended(child)

    def _begin(self) -> ChildProcess | None:
        """Start a process of the instance and return it; None if the instance must stay down."""
        with self._lock:
            if self._closing.is_set() or not self._may_run.is_set():
                return None
            self._life += 1
            self._end = ""
            self._begun_s = time.monotonic()
            self._child = ChildProcess(
                self.client,
                self._command,
                log=self._printed.pipe if self._printed else self._log,
                directory=Path.cwd(),
                environment=self._environment,
                grouped=True,
            )
            self._named(self.client, self._child.guard_pid)
            self._note("started")
            return self._child

    def _ended(self, child: ChildProcess) -> None:
        child.release()
        if self._printed is not None:
            self._printed.cut()
        self._note(self._end or "ended", status=child.status)
        if self._end:
            return
        self.ends += 1
        self._crashes = self._crashes + 1 if self._ran_s < _QUICK_S else 0
        self._closing.wait(_BACK_OFF_S[min(self._crashes, len(_BACK_OFF_S) - 1)])

    def _note(self, event: str, status: int | None = None) -> None:
        self._record(event, instance=self.number, life=self._life, status=status)

    def _bound_log(self) -> None:
        """Remove the middle of a long log to which the program appends."""
        size = self._log.stat().st_size if self._log.exists() else 0
        if size > LOG_BYTES_MOST:
            os.truncate(self._log, LOG_BYTES_MOST // 2)
            with self._log.open("a") as log:
                log.write(f"\n[highwater: {size - LOG_BYTES_MOST // 2} bytes were removed here]\n")


class RunningProgram:
    """All instances of the program under test, as a context manager.

    Args:
        bootstrap: address under which clients reach the brokers.
        logs: the run's folder for the instances' output.
        named: see ``ProgramInstance``.

    Attributes:
        plan: the program's plan.
        spare: an additional instance, which runs only during a fault.
    """

    def __init__(
        self,
        plan: Plan,
        program: ProgramPlan,
        bootstrap: str,
        recorder: Recorder,
        logs: Path,
        *,
        named: NameClient = lambda _name, _pid: None,
    ) -> None:
        self.plan = program
        logs.mkdir(exist_ok=True)
        self._printed = _printed(plan, program, recorder, logs)
        *self.instances, self.spare = (
            ProgramInstance(
                number,
                resolved(program.command, values),
                environment=_environment(program, values),
                log=_log(logs, number),
                printed=self._printed[number] if self._printed else None,
                record=recorder.instance,
                named=named,
            )
            for number, port in enumerate(free_ports(program.instances + 1))
            for values in [_values(plan, program, bootstrap, number, port)]
        )

    @property
    def out(self) -> str:
        """Name of the run's topic that the program writes to; empty if it writes to none."""
        return self.plan.out

    def running(self) -> Sequence[ProgramInstance]:
        """Return the instances that are running."""
        return [instance for instance in (*self.instances, self.spare) if instance.runs]

    def crashed(self, *, stuck: bool) -> list[str]:
        """Return a sentence about each instance that repeatedly crashes at its start.

        Args:
            stuck: whether the program makes no progress. Then the result also includes instances
                that exited by themselves at least once.
        """
        return [
            f"Instance {instance.number} of the program exited by itself "
            f"{count(instance.ends, 'time')}. Its last output: {instance.last_words() or 'none'}"
            for instance in self.instances
            if instance.crashes >= _CRASHES_MOST or (stuck and instance.ends)
        ]

    def printed(self) -> int:
        """Return the number of lines about records that the program's instances have printed."""
        return sum(lines.done for lines in self._printed)

    def notes(self) -> list[str]:
        """Return a sentence about each instance that ignored SIGTERM."""
        return [
            f"instance {instance.number} of the program ignored SIGTERM for {_TERM_S:g} s, and was"
            " killed"
            for instance in (*self.instances, self.spare)
            if instance.stubborn
        ]

    def check(self) -> None:
        """Raise an error if a supervisor of an instance, or a reader of its output, has failed.

        Raises:
            HarnessError: a supervisor or a reader has failed; the message has the reason.
        """
        for instance in (*self.instances, self.spare):
            instance.check()
        for lines in self._printed:
            lines.check()

    def __enter__(self) -> Self:
        for instance in self.instances:
            instance.start()
        try:
            self._await_start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop every instance with SIGTERM; a second call has no effect."""
        threads = [threading.Thread(target=i.close) for i in (*self.instances, self.spare)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for lines in self._printed:
            lines.close()

    def _await_start(self) -> None:
        """Wait until each instance has run for a second.

        Raises:
            UsageError: an instance repeatedly exits at its start.
        """
        await_condition(
            self._staying,
            all,
            what="every instance of the program to run for a second",
            limit_s=_START_LIMIT_S,
            every_s=_LOOK_S,
        )

    def _staying(self) -> list[bool]:
        self.check()
        for instance in self.instances:
            if instance.crashes >= _CRASHES_MOST:
                raise UsageError(
                    f"the program exits at once: {count(instance.crashes, 'start')} in a row",
                    hint=f"Its last output: {instance.last_words() or 'none'}",
                )
        return [instance.stays for instance in self.instances]


def _log(logs: Path, number: int) -> Path:
    return logs / f"app-{number}.log"


def _printed(
    plan: Plan, program: ProgramPlan, recorder: Recorder, logs: Path
) -> tuple[PrintedLines, ...]:
    if program.out and not plan.without_input:
        return ()
    names, word = expression(program.match), DONE if not program.out else ACKNOWLEDGED
    return tuple(
        PrintedLines(number, _log(logs, number), recorder, names, word=word)
        for number in range(program.instances + 1)
    )


def _environment(program: ProgramPlan, values: Mapping[str, str]) -> dict[str, str]:
    variables = dict(word.split("=", 1) for word in _filled(program.env, values))
    return {**os.environ, **{_VARIABLES[name]: values[name] for name in values}, **variables}


def _filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Replace the placeholders in words."""
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return [*words]


def resolved(command: Sequence[str], values: Mapping[str, str] = {}) -> tuple[str, ...]:
    """Return a command with the program's absolute path and without placeholders.

    Raises:
        UsageError: the program does not exist.
    """
    program = shutil.which(command[0]) if command else None
    if program is None:
        raise UsageError(
            f"the program {command[0]!r} does not exist on this machine"
            if command
            else "no command was named",
            hint="Name the program's command after --: highwater app ... -- python service.py",
        )
    return str(Path(program).absolute()), *_filled(command[1:], values)


def _values(
    plan: Plan, program: ProgramPlan, bootstrap: str, instance: int, port: int
) -> dict[str, str]:
    return {
        "bootstrap": bootstrap,
        "in": plan.topic.name,
        "out": program.out,
        "group": plan.group,
        "instance": str(instance),
        "port": str(port),
    }
