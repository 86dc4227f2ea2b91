"""Waits for the end of a harness, and mends what it left: ``-m clusters.external.guard FOLDER FD``.

Its standard input is a pipe whose other end only the harness holds, and descriptor FD one that the
commands which hurt hold, too: after the end of the harness those are waited for, so that nothing is
hurt after it was healed. It has inherited the lock of the journal, which ends with it.
"""

import os
import select
import sys
from pathlib import Path

from highwater.clusters.external.healing import recover
from highwater.clusters.external.journal import Journal, read
from highwater.harness.base.errors import HighwaterError

LONGEST_S = 60.0
"""A command that goes on for longer after the death of its harness is waited for no more."""


def main(folder: Path, commands: int, lock: int) -> None:
    """Mend; what cannot be mended stays in the journal, and beside it why."""
    sys.stdin.read()
    if read(folder) is None:
        return
    select.select([commands], [], [], LONGEST_S)
    log_path = folder / "guard.log"
    with log_path.open("w", encoding="utf-8", buffering=1) as log:
        try:
            recover(Journal.inherited(folder, lock), lambda line: print(line, file=log))
        except HighwaterError as error:
            print(error, file=log)


if __name__ == "__main__":
    os.chdir("/")
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
