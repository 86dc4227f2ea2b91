"""Waits for the end of a harness, and removes the containers it left: ``-m …cleanup_guard CLAIM``.

Its standard input is a pipe whose other end only the harness holds; it ends when the harness ends,
even by SIGKILL. A harness that closed its cluster has removed the claim by then, and there is
nothing to do.
"""

import sys
import time

from highwater.clusters.containers import ownership
from highwater.clusters.containers.daemon import connected

_QUIET_S = 2.0  # longer than Docker needs for a request that was already sent
_EVERY_S = 0.25


def main(claim: str) -> None:
    """Remove what carries the claim until nothing new has appeared for a moment."""
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
