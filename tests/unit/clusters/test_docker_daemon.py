"""Whose folders a container has: rootless and remote daemons, by what Docker says of itself."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.clusters.containers import daemon
from highwater.clusters.containers.daemon import _require_here, user
from highwater.clusters.containers.driver import _group
from highwater.harness.base.errors import HarnessError


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["name=seccomp,profile=builtin", "name=cgroupns"], "1000:1001"),
        (["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"], "0:0"),
        (None, "1000:1001"),
    ],
)
def test_without_roots_rights_our_user_is_root_there(
    options: list[str] | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1001)
    info: dict[str, Any] = {} if options is None else {"SecurityOptions": options}
    assert user(SimpleNamespace(info=lambda: info)) == expected


@pytest.mark.parametrize("url", ["http+docker://localhost", "http://127.0.0.1:2375"])
def test_a_daemon_on_this_machine_is_used(url: str) -> None:
    _require_here(url)


@pytest.mark.parametrize(
    "url", ["http+docker://ssh", "http://build.example:2375", "https://10.0.0.7:2376"]
)
def test_a_daemon_on_another_machine_is_refused(url: str) -> None:
    with pytest.raises(HarnessError, match="another machine") as refused:
        _require_here(url)
    assert "--cluster local" in refused.value.hint


@pytest.mark.parametrize(
    ("inside", "name", "refused"),
    [
        (True, "host", True),
        (True, "here", False),  # a daemon within the same container, or the network of the host
        (False, "host", False),
    ],
)
def test_the_daemon_of_the_host_is_refused_within_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, inside: bool, name: str, refused: bool
) -> None:
    """It would mount the host's folders, and its ports are on the host's loopback."""
    marker = tmp_path / ".dockerenv"
    monkeypatch.setattr(daemon, "_IN_A_CONTAINER", (marker,))
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    if inside:
        marker.touch()
    client = SimpleNamespace(info=lambda: {"Name": name})
    if not refused:
        daemon._require_same_machine(client)
        return
    with pytest.raises(HarnessError, match="outside of this container") as error:
        daemon._require_same_machine(client)
    assert "--cluster local" in error.value.hint


def test_a_network_that_is_too_small_is_refused() -> None:
    assert _group("172.18.0.0/16") == "172.18.0"
    assert _group("192.168.7.0/24") == "192.168.7"
    with pytest.raises(HarnessError, match="too small"):
        _group("192.168.7.16/28")
