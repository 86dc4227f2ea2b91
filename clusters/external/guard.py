"""Waits for the end of a harness, and heals what it left: ``-m …external.guard FOLDER FD LOCK``.

Its standard input is a pipe whose other end only the harness holds. The commands which damage keep
descriptor FD open: after the end of the harness the guard waits for them, so that nothing is
damaged after it was healed. It has inherited the lock of the journal, descriptor LOCK.
"""

import os
import select
import sys
from pathlib import Path

from highwater.clusters.external.healing import recover
from highwater.clusters.external.journal import Journal, read

LONGEST_S = 60.0
"""Limit of the wait for commands that go on after the end of their harness."""


def main(folder: Path, commands: int, lock: int) -> None:
    """Heal; what cannot be healed stays in the journal, and guard.log beside it says why."""
    sys.stdin.read()
    if read(folder) is None:
        return
    ended = select.poll()  # which, unlike select(), takes descriptors of any number
    ended.register(commands, select.POLLIN)
    ended.poll(LONGEST_S * 1000)
    log_path = folder / "guard.log"
    with log_path.open("w", encoding="utf-8", buffering=1) as log:
        try:
            recover(Journal.inherited(folder, lock), lambda line: print(line, file=log))
        except Exception as error:  # noqa: BLE001 - its last words, whatever they are
            print(f"{type(error).__name__}: {error}", file=log)


if __name__ == "__main__":
    os.chdir("/")
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
