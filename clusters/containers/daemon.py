"""Connect to the Docker daemon, and convert Docker's errors to errors with a hint.

The packages docker and testcontainers are imported only at the first connection, because a run on
local processes does not need them.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from highwater.harness.base.errors import HarnessError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
Client = Any  # docker.DockerClient, which ships no types
_IN_A_CONTAINER = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Files that Docker and Podman put into their containers."""
_INSTALL = (
    "Install and start Docker (Debian: apt-get install docker.io iptables; otherwise Docker "
    "Desktop or Docker Engine), or run on local processes: --cluster local."
)


@contextlib.contextmanager
def connected() -> Iterator[Client]:
    """Connect to the daemon that DOCKER_HOST or Docker's own configuration names; yield a client.

    Raises:
        HarnessError: no daemon responds, or Docker reports an error during the ``with`` block.
    """
    place = os.environ.get("DOCKER_HOST", "at its default address")
    with errors(f"does not respond ({place})"):
        from testcontainers.core.docker_client import DockerClient  # noqa: PLC0415 - see above

        client = DockerClient().client
        with contextlib.closing(client):
            client.ping()
            _require_here(client.api.base_url)
            _require_same_machine(client)
            yield client


def user(client: Client) -> str:
    """Return this user's ``uid:gid`` as containers see it.

    A daemon without root rights maps its own user to root (``name=rootless`` in docker info).
    """
    if "name=rootless" in client.info().get("SecurityOptions", ()):
        return "0:0"
    return f"{os.getuid()}:{os.getgid()}"


def _require_here(url: str) -> None:
    """Raise a HarnessError if the daemon is on another machine, whose folders it would mount."""
    place = urlsplit(url)
    if place.scheme == "http+docker" and place.hostname != "ssh":
        return
    if place.hostname not in _LOOPBACK:
        raise HarnessError(
            f"Docker's daemon is on another machine ({url})",
            hint="Its containers cannot use this machine's folders and addresses."
            " Unset DOCKER_HOST, or run on local processes: --cluster local.",
        )


def _require_same_machine(client: Client) -> None:
    inside = any(marker.exists() for marker in _IN_A_CONTAINER)
    if inside and client.info().get("Name") != socket.gethostname():
        raise HarnessError(
            "Docker's daemon runs outside of this container",
            hint="Its containers cannot use this container's folders and addresses."
            " Run Highwater outside, or on local processes: --cluster local.",
        )


@contextlib.contextmanager
def errors(doing: str) -> Iterator[None]:
    """Convert errors of Docker and its library to a HarnessError: ``Docker <doing>: <reason>``."""
    from docker.errors import APIError, BuildError, DockerException  # noqa: PLC0415 - see above
    from requests.exceptions import RequestException  # noqa: PLC0415 - for the same reason

    try:
        yield
    except (APIError, BuildError) as error:
        explanation = str(getattr(error, "explanation", None) or getattr(error, "msg", "") or error)
        full = "no space left on device" in explanation.lower()
        raise HarnessError(
            f"Docker {doing}: {explanation}",
            hint="Free space on the disk with Docker's data. docker info names the folder; "
            "docker system prune removes unused data."
            if full
            else "",
        ) from error
    except (DockerException, RequestException) as error:
        raise HarnessError(f"Docker {doing}: {_reason(error)}", hint=_INSTALL) from error


def _reason(error: BaseException) -> str:
    """Return the operating system's error text in the exception or its causes, or the exception."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in errno.errorcode and cause.strerror:
            place = f" ({cause.filename})" if cause.filename else ""
            return f"{cause.strerror}{place}"
        inner = [arg for arg in cause.args if isinstance(arg, BaseException)]
        cause = inner[0] if inner else cause.__cause__ or cause.__context__
    return str(error)
