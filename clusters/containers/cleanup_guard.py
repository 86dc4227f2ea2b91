"""Wait until a harness ends, and remove its remaining containers: ``-m …cleanup_guard CLAIM``.

CLAIM is the value of the containers' label (``clusters.containers.ownership``). The guard's
standard input is a pipe from the harness. The pipe ends when the harness ends, even by SIGKILL. A
harness that has closed its cluster has removed the claim's file. Then the guard does nothing.
"""

import sys
import time

from highwater.clusters.containers import ownership
from highwater.clusters.containers.daemon import connected

_QUIET_S = 2.0  # Docker completes a request that was already sent in less time
_EVERY_S = 0.25


def main(claim: str) -> None:
    """Remove containers and networks with the claim's label, until no more appear for 2 seconds."""
    sys.stdin.read()
    if not ownership.is_open(claim):
        return
    with connected() as client:
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < _QUIET_S:
            if ownership.remove(client, claim):
                quiet_since = time.monotonic()
            time.sleep(_EVERY_S)
    ownership.forget(claim)


if __name__ == "__main__":
    main(sys.argv[1])
