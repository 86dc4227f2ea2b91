"""Exit codes of the commands, for scripts. ``UsageError`` defines code 2 (wrong usage)."""

from typing import Final

OK: Final = 0
BROKEN: Final = 1
"""The run broke a guarantee, or has an anomaly that nothing explains."""
UNKNOWN: Final = 3
"""The run could not be judged."""
FAILED: Final = 4
"""The harness could not continue."""
INTERRUPTED: Final = 130
CLOSED: Final = 141
"""The process that read the output closed it. The shell reports this exit code after SIGPIPE."""
