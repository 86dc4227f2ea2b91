"""User directories, which keep data from one run to the next."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """``$XDG_CACHE_HOME/highwater``, or ``~/.cache/highwater``: data that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"


def state_directory() -> Path:
    """``$XDG_STATE_HOME/highwater``, or ``~/.local/state/highwater``: permanent data."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "highwater"
