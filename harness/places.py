"""Where things are kept that are dear to make and can be made again."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """``$XDG_CACHE_HOME/highwater``, or ``~/.cache/highwater``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "highwater"
