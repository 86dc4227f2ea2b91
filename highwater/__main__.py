"""The entry point of the command ``highwater``, with its signals, errors and exit codes.

The subcommands are in ``highwater.cli.app``. Signal handlers are installed before slow imports, so
that Ctrl-C works at any time. Exit code 1 comes only from a verdict. A closed pipe, a full disk and
a bug in Highwater have other exit codes.
"""

import _thread
import contextlib
import errno
import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, NoReturn

from highwater.harness.base import cleanup, interruptions
from highwater.harness.base.errors import HarnessError, HighwaterError, Interruption, RenamedWarning
from highwater.harness.base.exit_codes import CLOSED, FAILED, INTERRUPTED, OK
from highwater.harness.base.interruptions import SIGNALS

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_REFUSED: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
_RECORDING: Final = frozenset(("demo", "run", "rolling", "matrix", "soak", "replay", "shrink"))
"""Commands that write to the store while they run, so that an interruption loses no data."""


class _ClosedPipe(BaseException):
    """The process that reads standard output has exited; Rich and Click would exit with 1."""


class _Output(io.TextIOWrapper):
    """Standard output that converts OSErrors, after which libraries would exit with code 1."""

    def write(self, text: str) -> int:
        """Write text; a closed pipe ends the command."""
        with _reporting():
            return super().write(text)

    def flush(self) -> None:
        """Flush the buffer; a closed pipe ends the command."""
        with _reporting():
            super().flush()


@contextlib.contextmanager
def _reporting() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ClosedPipe from error
    except OSError as error:
        raise HarnessError(f"standard output cannot be written: {error.strerror}") from error


_AGAIN_S: Final = 0.01
_came: list[int] = []
"""The signals received so far. They are stored because a bare ``except`` in a library may hide the
exception of the signal handler."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    _came.append(number)
    interruptions.tell(number)
    while frame is not None:
        if frame.f_code is _interrupt_again.__code__:
            _raise_later(number)
            return
        frame = frame.f_back
    raise Interruption(SIGNALS[number])


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat an interruption that Python ignored, because it was raised in a callback."""
    if isinstance(unraisable.exc_value, Interruption):
        _raise_later(_came[-1])
    else:
        sys.__unraisablehook__(unraisable)


def _raise_later(number: int) -> None:
    """Interrupt the main thread after a moment: Python ignores exceptions of this hook."""
    threading.Timer(_AGAIN_S, _thread.interrupt_main, (number,)).start()


def main() -> None:
    """Run the command line, without a traceback for a user's mistake; return the exit code."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    sys.unraisablehook = _interrupt_again
    sys.stdout = _Output(sys.stdout.buffer, sys.stdout.encoding, sys.stdout.errors)
    warnings.showwarning = _note
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("highwater: %(message)s"))
    logging.getLogger("highwater.external").addHandler(handler)
    try:
        code = _command()
    except HighwaterError as error:
        code = _complain(error)
    except OSError as error:
        code = _complain(_of_disk(error))
    except _ClosedPipe:
        code = CLOSED
    except Interruption as interruption:
        _end_at_once(interruption)
    _ignore_signals()  # the last steps are short, and must not be interrupted
    try:
        sys.stdout.flush()
    except (HighwaterError, _ClosedPipe):
        sys.stdout = (
            io.StringIO()
        )  # no process reads the rest of the output, and flushing would fail again
    sys.exit(code)


def _command() -> int:
    code: object = OK
    try:
        from highwater.cli.app import app  # noqa: PLC0415 - after the signals are taken

        app()
    except SystemExit as end:
        code = end.code
    except (HighwaterError, OSError, Interruption, _ClosedPipe):
        raise
    except Exception as error:  # noqa: BLE001 - a bug in Highwater is no verdict
        _explain_import(error)
        traceback.print_exc()
        code = FAILED
    if _came:
        raise Interruption(SIGNALS[_came[0]])
    sys.stdout.flush()
    return code if isinstance(code, int) else OK if code is None else FAILED


def _explain_import(error: Exception) -> None:
    """Raise a UsageError if an extra is missing, or another package has replaced Highwater."""
    from highwater.installation import explained  # noqa: PLC0415 - needed here only

    if isinstance(error, ImportError) and (mistake := explained(error)):
        raise mistake from error


def _end_at_once(interruption: Interruption) -> NoReturn:
    """Exit without waiting for threads that execute runs; guard processes stop their brokers."""
    _ignore_signals()
    recording = len(sys.argv) > 1 and sys.argv[1] in _RECORDING
    hint = "Everything recorded so far is in the store." if recording else ""
    _complain(HarnessError(interruption.message, hint=hint))
    cleanup.run()
    os._exit(INTERRUPTED)


_show_warning = warnings.showwarning


def _note(message: Warning | str, category: type[Warning], *place: Any, **to: Any) -> None:  # noqa: ANN401 - passed on
    """Print a warning about a renamed option value in one line; print other warnings as usual."""
    if issubclass(category, RenamedWarning):
        sys.stderr.write(f"highwater: {message}\n")
    else:
        _show_warning(message, category, *place, **to)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _complain(error: HighwaterError) -> int:
    """Print an error and its hint on standard error; return the exit code."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"highwater: {error}\n")
        sys.stderr.flush()
    return error.exit_code


def _of_disk(error: OSError) -> HarnessError:
    """Convert an OSError to a HarnessError, with a hint for a full disk or a missing permission."""
    hints = {
        _FULL: "Free disk space, or choose another folder with --store. Flushed data is not lost.",
        _REFUSED: "Choose another folder, or change its permissions.",
    }
    hint = next((hint for numbers, hint in hints.items() if error.errno in numbers), None)
    where = f" at {error.filename}" if error.filename else ""
    if hint is None:
        traceback.print_exception(error)
        hint = "This is a bug of Highwater."
    return HarnessError(f"{os.strerror(error.errno or 0)}{where}", hint=hint)


if __name__ == "__main__":
    main()
