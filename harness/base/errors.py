"""The errors for users. Each error states the problem and how to correct it.

The command line prints ``message`` and ``hint`` and exits with ``exit_code``. A traceback is a bug.
"""

from typing import ClassVar


class HighwaterError(Exception):
    """An error that a user can correct.

    Args:
        message: the problem in one sentence, with the wrong value.
        hint: a sentence that says how to correct the problem.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class Interruption(BaseException):
    """Ctrl-C or SIGTERM. It is no KeyboardInterrupt, because typer would report that error."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.message = f"interrupted by {name}"


class UsageError(HighwaterError):
    """A command or a call was wrong: an unknown version, an option out of range, and so on."""

    exit_code: ClassVar[int] = 2


class HarnessError(HighwaterError):
    """The harness cannot continue: no Java, a port in use, a broker that crashed."""


class StoreError(HighwaterError):
    """A run directory is missing, is broken or has another schema version."""


class NotThereError(StoreError):
    """The user named a run, a matrix or another object that does not exist."""

    exit_code: ClassVar[int] = 2


class WaitTimeoutError(HarnessError):
    """A condition did not become true in time. The message has the last observation.

    Attributes:
        seen: the last observation.
    """

    seen: object = None


class RenamedWarning(FutureWarning):
    """A command or a test uses an old name. The old name still works."""
