"""Whose folders a container has: rootless and remote daemons, by what Docker says of itself."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.clusters.containers.daemon import _require_here, user
from highwater.clusters.containers.driver import _group
from highwater.harness.base.errors import HarnessError


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["name=seccomp,profile=builtin", "name=cgroupns"], f"{os.getuid()}:{os.getgid()}"),
        (["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"], "0:0"),
        (None, f"{os.getuid()}:{os.getgid()}"),
    ],
)
def test_without_roots_rights_our_user_is_root_there(
    options: list[str] | None, expected: str
) -> None:
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


def test_a_network_that_is_too_small_is_refused() -> None:
    assert _group("172.18.0.0/16") == "172.18.0"
    assert _group("192.168.7.0/24") == "192.168.7"
    with pytest.raises(HarnessError, match="too small"):
        _group("192.168.7.16/28")
