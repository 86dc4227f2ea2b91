"""Exit codes of the commands, for scripts. 2, wrong usage, is that of the error itself."""

from typing import Final

OK: Final = 0
BROKEN: Final = 1
"""A promise was broken, or something is not explained."""
UNKNOWN: Final = 3
"""It could not be judged."""
FAILED: Final = 4
"""The harness could not go on."""
INTERRUPTED: Final = 130
CLOSED: Final = 141
"""The reader of the output has read enough: a shell's code of a command that SIGPIPE ended."""
