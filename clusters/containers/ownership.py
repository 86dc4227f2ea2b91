"""Ownership of containers: find and remove the containers of a harness that has ended.

All containers and networks that the docker driver creates have the labels ``highwater`` and
``highwater.claim``. The second label's value is the claim: a unique name for each cluster. A file
in the cache has the same name. The harness holds a lock on this file. When the harness ends in any
way, the system releases the lock. So if another process can lock the file, it may remove all
containers and networks with this label. A claim without a file on this machine is ignored: it may
belong to a harness of another machine with the same daemon.

In addition, a guard process waits for the harness to end, and then removes the remaining containers
at once (``clusters.containers.cleanup_guard``). If the guard is killed, too, the next run removes
them.
"""

import contextlib
import fcntl
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from highwater.clusters.containers.daemon import Client, connected
from highwater.harness.base.user_dirs import cache_directory

LABEL = "highwater"
CLAIM_LABEL = "highwater.claim"
_REMOVALS_AT_ONCE = 8
_GUARD_ENDS_S = 2.0


class Claim:
    """The label of one cluster's resources in Docker, and its locked file (see the module)."""

    def __init__(self) -> None:
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}"
        folder = _folder()
        unlocked = folder / f".{self.name}"
        self._file = unlocked.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        unlocked.rename(folder / self.name)  # under this name, the file is always locked
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "highwater.clusters.containers.cleanup_guard", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[3],
            start_new_session=True,  # so that a terminal's Ctrl-C does not reach the guard
        )

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the cluster's containers and networks."""
        return {LABEL: "1", CLAIM_LABEL: self.name}

    def close(self) -> None:
        """Release the claim. The guard removes the containers and networks with its label."""
        self._file.close()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the guard continues
            self._guard.wait(_GUARD_ENDS_S)


def remove(client: Client, claim: str) -> int:
    """Remove the containers and networks with a claim's label; return their number.

    Other processes may remove them at the same time.
    """
    from docker.errors import APIError  # noqa: PLC0415 - see clusters.containers.daemon

    def remove_container(resource: Any) -> None:  # noqa: ANN401 - docker ships no types
        with contextlib.suppress(APIError):  # another process removes it
            client.api.remove_container(resource["Id"], v=True, force=True)

    by_label = {"label": f"{CLAIM_LABEL}={claim}"}
    containers = client.api.containers(all=True, filters=by_label)
    with ThreadPoolExecutor(_REMOVALS_AT_ONCE, thread_name_prefix="remove") as pool:
        list(pool.map(remove_container, containers))
    networks = client.api.networks(filters=by_label)
    for network in networks:
        with contextlib.suppress(APIError):
            client.api.remove_network(network["Id"])
    return len(containers) + len(networks)


def forget(claim: str) -> None:
    """Remove the claim's file. Call this when no container or network has its label."""
    (_folder() / claim).unlink(missing_ok=True)


def is_open(claim: str) -> bool:
    """Return whether the claim's file exists. If not, the claim has no containers or networks."""
    return (_folder() / claim).exists()


def sweep() -> int:
    """Remove the containers and networks of this machine's ended harnesses; return the count."""
    count = 0
    for claim in _dead():
        with connected() as client:
            count += remove(client, claim)
        forget(claim)
    return count


def _dead() -> Iterator[str]:
    for path in _folder().glob("[!.]*"):
        # An OSError means that the file is locked, or that another run has removed it.
        with contextlib.suppress(OSError), path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path.name


def _folder() -> Path:
    folder = cache_directory() / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
