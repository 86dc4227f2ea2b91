"""The lines of a JVM's log that explain why it died."""

import re
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_LINES = 4
_WORTH_SAYING = re.compile(
    r"\b(ERROR|FATAL)\b|Exception\b|Error\b|No space left|already in use|^Caused by"
)
# A stack trace's frames, and a log line without a message.
_EMPTY = re.compile(r"^\s+at |^\s*\.\.\. \d+ more|^\S+ [A-Z]+\s+\([\w.$]+\)$")


def failure_lines(log: Path, *, since: int = 0) -> str:
    """Return the last few error lines of a log, or its last line if there are none.

    Args:
        log: log of the process.
        since: byte at which the log of this start of the process begins.
    """
    try:
        with log.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(since, end - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return f"(its log {log} cannot be read: {error.strerror})"
    messages = [line.strip() for line in lines if line.strip() and not _EMPTY.match(line)]
    errors = [line for line in messages if _WORTH_SAYING.search(line)]
    return "\n".join((errors or messages[-1:])[-_LINES:]) or "(it said nothing)"
