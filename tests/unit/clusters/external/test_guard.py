"""The guard heals whatever number its descriptors have, and says what kept it from it."""

import fcntl
import io
import os
import resource
from pathlib import Path

import pytest

from highwater.clusters.external import guard
from highwater.clusters.external.journal import ClusterDamage, Journal


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    journal = Journal.locked(
        tmp_path / "c", ClusterDamage(cluster_id="c", inventory="i", addresses={})
    )
    journal.record_topic("highwater-1", tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return journal


def test_a_descriptor_may_have_a_large_number(
    damaged: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this machine allows no such numbers")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    healed: list[Journal] = []
    monkeypatch.setattr(guard, "recover", lambda journal, _: healed.append(journal))
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD, 1500)
    try:
        os.close(writing)
        guard.main(damaged.folder, high, damaged.lock)
    finally:
        os.close(reading)
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(healed) == 1


def test_what_kept_it_from_healing_is_in_its_log(
    damaged: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(guard, "recover", fail)
    reading, writing = os.pipe()
    os.close(writing)
    guard.main(damaged.folder, reading, damaged.lock)
    os.close(reading)
    assert "OSError: no route to host" in (damaged.folder / "guard.log").read_text("utf-8")
