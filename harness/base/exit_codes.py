"""Exit codes of the commands, for scripts. Code 2 (wrong usage) is defined by ``UsageError``."""

from typing import Final

OK: Final = 0
BROKEN: Final = 1
"""A guarantee was broken, or an anomaly is not explained."""
UNKNOWN: Final = 3
"""The run could not be judged."""
FAILED: Final = 4
"""The harness could not continue."""
INTERRUPTED: Final = 130
CLOSED: Final = 141
"""The process that reads the output has closed it. The shell reports this exit code after SIGPIPE.
"""
