"""The training run of Spark's class archive: ``-m …archive_training FLAG ...``.

It is a process of its own, because a process can have only one JVM of Spark's.
"""

import os
import sys
import threading

from highwater.checkers.spark import classic
from highwater.checkers.spark.session import SETTINGS
from highwater.checkers.warmup import warm_up
from highwater.harness.base.spark_options import SparkOptions


def main(sharing: list[str]) -> None:
    """Judge once in a JVM with these flags, and let it exit: then it writes the archive."""
    threading.Thread(target=_end_with_who_asked, name="asked", daemon=True).start()
    options = SparkOptions(driver_memory="1g")
    started = classic.start(options, SETTINGS, sharing=tuple(sharing))
    warm_up(started)
    classic.end_in_order(started)


def _end_with_who_asked() -> None:
    """Close standard input when the parent process ends."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
