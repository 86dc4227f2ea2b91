"""Waits for a harness to end, and heals the damage left: ``-m …external.guard FOLDER FD LOCK``.

The guard's standard input is a pipe whose other end only the harness holds. Commands of faults keep
descriptor FD open. After the harness has ended, the guard waits for these commands, so that no
fault comes after the healing. The guard has inherited descriptor LOCK, the journal's lock.
"""

import os
import select
import sys
from pathlib import Path

from highwater.clusters.external.healing import recover
from highwater.clusters.external.journal import Journal, read

LONGEST_S = 60.0
"""Limit of the wait for commands that still run after their harness has ended."""


def main(folder: Path, commands: int, lock: int) -> None:
    """Heal the damage. Damage that stays is in the journal, and guard.log has the reason."""
    sys.stdin.read()
    if read(folder) is None:
        return
    ended = select.poll()  # unlike select(), poll() takes descriptors of any number
    ended.register(commands, select.POLLIN)
    ended.poll(LONGEST_S * 1000)
    log_path = folder / "guard.log"
    with log_path.open("w", encoding="utf-8", buffering=1) as log:
        try:
            recover(Journal.inherited(folder, lock), lambda line: print(line, file=log))
        except Exception as error:  # noqa: BLE001 - the log must have any error
            print(f"{type(error).__name__}: {error}", file=log)


if __name__ == "__main__":
    os.chdir("/")
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
