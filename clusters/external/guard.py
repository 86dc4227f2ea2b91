"""Wait for a harness to end, and heal its remaining faults: ``-m …external.guard FOLDER FD LOCK``.

The guard's standard input is a pipe from the harness. Commands of faults keep descriptor FD open.
After the harness has ended, the guard waits for these commands, so that no fault begins after the
healing. The guard has inherited descriptor LOCK, the journal's lock.
"""

import os
import select
import sys
from pathlib import Path

from highwater.clusters.external.healing import recover
from highwater.clusters.external.inventory import LONGEST_S
from highwater.clusters.external.journal import Journal, read


def main(folder: Path, commands: int, lock: int) -> None:
    """Heal the faults. Faults that are not healed stay in the journal; guard.log says why."""
    sys.stdin.read()
    if read(folder) is None:
        return
    ended = select.poll()  # select() accepts only descriptors below 1024
    ended.register(commands, select.POLLIN)
    ended.poll(LONGEST_S * 1000)
    log_path = folder / "guard.log"
    with log_path.open("w", encoding="utf-8", buffering=1) as log:
        try:
            recover(Journal.inherited(folder, lock), lambda line: print(line, file=log))
        except Exception as error:  # noqa: BLE001 - every error goes to the log
            print(f"{type(error).__name__}: {error}", file=log)


if __name__ == "__main__":
    os.chdir("/")
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
