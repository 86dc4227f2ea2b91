"""Run the client libraries under faults of clients, for the tables of docs/clients.md.

    python -m tools.client_matrix FOLDER
    python -m tools.clients_page FOLDER/store/clients

The tool runs each library for which the machine can build a driver, on two releases. Producers are
plain with acks=1, plain with acks=all, idempotent, or transactional. About 80 runs of 60 s are
necessary; a second call makes only the missing runs. Exit code 1: the model cannot explain a run.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from highwater.harness.base.exit_codes import INTERRUPTED
from highwater.harness.campaigns.matrix_cells import MatrixFolder
from highwater.harness.releases.client_choice import LIBRARIES
from tools import client_drivers

KAFKAS: Final = "3.9.2,4.4.0"
MIXES: Final = (
    "lose-answers,delay-requests,kill,move-leader",
    "lose-answers,kill,move-txn-coordinator",
)
NAME: Final = "clients"


def play(folder: Path) -> MatrixFolder:
    """Run the cells of the matrix that have no result yet; return the matrix."""
    store = folder / "store"
    words = ["matrix", "--store", str(store), "--jobs", "2", "--driver-memory", "1g"]
    if (store / NAME).exists():
        words += ["--resume", NAME]
    else:
        names = [name for name in client_drivers.LIBRARIES if not client_drivers.lacks(name)]
        clients = [*LIBRARIES, *(str(client_drivers.build(name, folder)) for name in names)]
        words += ["--name", NAME, "--kafka", KAFKAS, "--client", ",".join(clients)]
        words += ["--acks", "1,all", "--delivery", "plain,idempotent,transactional", "--for", "60s"]
        words += [word for mix in MIXES for word in ("--nemesis", mix)]
    code = _run(sys.executable, "-m", "highwater", *words)
    if code == INTERRUPTED or not (store / NAME / "cells.json").exists():
        sys.exit(code)  # the command has printed the error
    return MatrixFolder.open(Path(NAME), store)


def _run(*words: str) -> int:
    """Run a command, and return its exit code; on Ctrl-C, wait until the command has ended."""
    running = subprocess.Popen(words)
    try:
        return running.wait()
    except KeyboardInterrupt:
        return running.wait()


def main() -> int:
    """Run the matrix; return 1 if a run is unexplained or has no result."""
    matrix = play(Path(sys.argv[1]).absolute())
    rows = matrix.rows()
    whole = len(rows) == len(matrix.matrix().cells)
    return 0 if whole and all(row.model != "unexplained" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
