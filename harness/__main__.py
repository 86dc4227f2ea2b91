"""The command's way in and out: signals, errors, exit codes. What it can do is in ``harness.cli``.

Signals are taken before anything slow is imported, so that Ctrl-C is answered at any moment.
"""

import errno
import os
import signal
import sys
from typing import Final, NoReturn

from harness.errors import HarnessError, HighwaterError
from harness.exits import INTERRUPTED

_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


class _Interrupted(BaseException):
    """Ctrl-C or SIGTERM. Not a KeyboardInterrupt, which typer would take for its own to report."""


def _interrupt(*_: object) -> NoReturn:
    raise _Interrupted


def main() -> None:
    """Run the command line: no traceback for a person's mistake, and a code for scripts."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        from harness.cli import app  # noqa: PLC0415 - after the signals are taken

        app()
    except HighwaterError as error:
        _complain(error)
        sys.exit(error.exit_code)
    except OSError as error:
        _complain(_disk_or_raise(error))
        sys.exit(HarnessError.exit_code)
    except _Interrupted:
        hint = "What was recorded so far is in the store."
        _complain(HarnessError("interrupted", hint=hint))
        os._exit(INTERRUPTED)  # threads of other runs may still boot brokers; the wardens end those


def _complain(error: HighwaterError) -> None:
    """Say what was wrong and what to do, on standard error."""
    sys.stderr.write(f"highwater: {error}\n")
    sys.stderr.flush()


def _disk_or_raise(error: OSError) -> HarnessError:
    """A full disk is a person's business; any other OSError is a bug and shows its traceback."""
    if error.errno not in _DISK:
        raise error
    where = f" at {error.filename}" if error.filename else ""
    return HarnessError(
        f"{os.strerror(error.errno)}{where}",
        hint="Free room or choose another folder with --store; what was flushed is still there.",
    )


if __name__ == "__main__":
    main()
