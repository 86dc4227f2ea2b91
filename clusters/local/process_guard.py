"""A guard: a process between the harness and one child. It kills the child when the harness ends.

Run as ``python -I -S process_guard.py child|group LOG COMMAND...``; imports only the standard
library. The guard starts COMMAND as its child, and appends the child's standard output and standard
error to LOG. The child's standard input is empty. The guard reads verbs from its own standard input
(``KILL TERM STOP CONT``, one a line), and sends the signal to the child. The guard reports the
child's events on its standard output (``started PID``, ``stopped``, ``continued``, ``exited
STATUS``). When the harness ends, even by SIGKILL, the guard's input ends, and the guard kills the
child at once.

With ``group`` the child leads a process group, and every signal goes to the group. The guard also
stops and continues processes that the child has started outside of the group. When the child has
exited, the guard kills the remaining processes. To find them on Linux, the guard becomes the parent
of every descendant that loses its parent.

Only a parent can reap a child. Until the guard has done so, no other process gets the child's
process id. So a signal never goes to another process.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys

VERBS = {
    b"KILL": signal.SIGKILL,
    b"TERM": signal.SIGTERM,
    b"STOP": signal.SIGSTOP,
    b"CONT": signal.SIGCONT,
}
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
EXIT_NOT_STARTED = 127


def report(text: str) -> None:
    """Write a line to the harness, if the harness still reads."""
    # If it does not read, the guard's input ends next, and the guard kills the child.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{text}\n".encode())


def start(log: str, command: list[str], *, grouped: bool) -> int:
    """Start the command as a child; return its id. If the guard dies, Linux kills the child."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    executed, executing = os.pipe()  # execv closes the write end
    silence, _ = os.pipe()  # only this guard keeps the write end open
    guard = os.getpid()
    pid = os.fork()
    if not pid:
        if grouped:
            os.setpgid(0, 0)
        become(command, silence, output, guard)
    os.close(silence)
    os.close(output)
    os.close(executing)
    os.read(executed, 1)
    os.close(executed)
    return pid


def become(command: list[str], silence: int, output: int, guard: int) -> None:
    """Replace this forked process by the command, with ``silence`` as input. Never return."""
    try:
        signal.set_wakeup_fd(-1)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(EXIT_NOT_STARTED)
        os.dup2(silence, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execv(command[0], command)  # noqa: S606 - no shell is what we want
    except OSError as error:
        os.write(output, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(EXIT_NOT_STARTED)


def reap(pid: int) -> bool:
    """Report every change of the child's state. Return whether the child has ended."""
    while True:
        changed, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if not changed:
            return False
        if changed != pid:
            continue  # this is a descendant that lost its parent
        if os.WIFSTOPPED(status):
            report("stopped")
        elif os.WIFCONTINUED(status):
            report("continued")
        else:
            report(f"exited {os.waitstatus_to_exitcode(status)}")
            return True


def watch(pid: int, wakeup: int, *, grouped: bool) -> None:
    """Execute verbs and report changes until the child has ended."""
    signal_child = signal_family if grouped else os.kill
    pending = b""
    while not reap(pid):
        ready, _, _ = select.select([0, wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
        if 0 in ready:
            chunk = os.read(0, 4096)
            if not chunk:
                signal_child(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                signal_child(pid, VERBS[line])


def signal_family(pid: int, number: int) -> None:
    """Send a signal to a group. SIGSTOP and SIGCONT also go to descendants outside of the group."""
    os.killpg(pid, number)
    if number in {signal.SIGSTOP, signal.SIGCONT}:
        signal_outsiders(os.getpid(), pid, number)


def signal_outsiders(parent: int, group: int, number: int) -> None:
    """Send a signal to descendants outside of a group, parents first."""
    for child in children(parent):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(child) != group:
                os.kill(child, number)
        signal_outsiders(child, group, number)


def children(pid: int) -> list[int]:
    """Return the ids of a process's children; an empty list without /proc."""
    ids = []
    for entry in os.scandir("/proc") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError):  # the process has ended
            if entry.name.isdecimal() and parent_of(entry.path) == pid:
                ids.append(int(entry.name))
    return ids


def parent_of(process: str) -> int:
    """Return the parent's id of a process such as ``/proc/17`` (proc_pid_stat(5))."""
    with open(f"{process}/stat", "rb") as stat:  # noqa: PTH123 - pathlib takes long to import
        return int(stat.read().rpartition(b")")[2].split()[1])


def kill_rest() -> None:
    """Kill and reap the remaining descendants of the child."""
    while True:
        for other in children(os.getpid()):
            os.kill(other, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main() -> None:
    """Guard one child until the child or the harness ends."""
    wakeup, alarm = os.pipe()
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    grouped = sys.argv[1] == "group"
    if grouped and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid = start(sys.argv[2], sys.argv[3:], grouped=grouped)

    def end(*_: object) -> None:
        os.kill(pid, signal.SIGKILL)

    for request in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(request, end)
    report(f"started {pid}")
    watch(pid, wakeup, grouped=grouped)
    if grouped:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # no process is left
            os.killpg(pid, signal.SIGKILL)
        kill_rest()


if __name__ == "__main__":
    main()
