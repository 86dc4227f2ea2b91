"""Packets are lost in another network, by rules that a later share replaces."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from highwater.clusters.nodes import packet_loss
from highwater.harness.base.errors import HarnessError


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """The id of a process in a network of its own."""
    unshare = shutil.which("unshare")
    if packet_loss.why_not() or unshare is None:
        pytest.skip(packet_loss.why_not() or "no unshare")
    words = [unshare, "-n", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def rules(pid: int) -> list[str]:
    words = ["nsenter", "-t", str(pid), "-n", "iptables", "-S", "INPUT"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_share_is_lost_then_another_then_none(elsewhere: int) -> None:
    for share, count in ((0.25, 1), (0.5, 1), (0.0, 0)):
        packet_loss.lose(elsewhere, share)
        dropping = [rule for rule in rules(elsewhere) if rule.endswith("-j DROP")]
        assert len(dropping) == count
        assert all(f"--probability {share:.2f}" in rule for rule in dropping)


def test_a_process_that_is_gone_is_named_in_an_error(elsewhere: int) -> None:
    del elsewhere
    with pytest.raises(HarnessError, match="packets of a container cannot be dropped"):
        packet_loss.lose(2**22, 0.5)


def test_without_root_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HarnessError, match="needs root"):
        packet_loss.lose(1, 0.5)


def test_without_iptables_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(HarnessError, match="needs nsenter and iptables, on Linux"):
        packet_loss.lose(1, 0.5)
