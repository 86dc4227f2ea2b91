"""Is a rolling restart safe? Clusters of others over a real ssh, and services that only restart."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from highwater.clusters.external.journal import journal_folder, read
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN
from tests.kafka.secured_cluster import SSHD, Staging, certificate, staging
from tests.support.commands import finish, start

MISSING = not (SSHD and shutil.which("ssh-keygen") and shutil.which("openssl"))
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(MISSING, reason="openssh-server, openssh-client or openssl is missing"),
]
KAFKAS = ("3.9.2", MODERN)


@pytest.fixture(scope="module", params=KAFKAS)
def theirs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Staging]:
    with staging(request.param, tmp_path_factory.mktemp("staging")) as found:
        yield found


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def begin(theirs: Staging, *words: str | Path) -> subprocess.Popen[str]:
    return start(*words, env=theirs.environment)


def where(theirs: Staging, store: Path) -> tuple[str | Path, ...]:
    work = ("--producers", "1", "--rate", "100", "--min-isr", "2", "--store", store)
    return ("--inventory", theirs.inventory(), "--confirm", theirs.code, *work)


def require_whole(theirs: Staging) -> None:
    """Nothing is hurt, and nothing of ours is there."""
    assert set(theirs.cluster.states.values()) == {"running"}
    assert read(journal_folder(theirs.cluster_id)) is None
    await_condition(
        lambda: [*theirs.directory.glob("data-*/highwater-*-[0-9]")],
        lambda left: not left,
        what="our topic's directories to go",
        limit_s=60,
    )


def pids(theirs: Staging) -> list[str]:
    return [(theirs.directory / f"{broker}.pid").read_text() for broker in (1, 2, 3)]


def test_a_rolling_restart_over_ssh_is_judged_and_leaves_nothing(
    theirs: Staging, tmp_path: Path
) -> None:
    before = pids(theirs)
    code, out, err = finish(begin(theirs, "rolling", *where(theirs, tmp_path), "--json"))
    judged = json.loads(out)
    assert (code, judged["verdict"]) == (0, "valid"), (judged, err)
    assert judged["acknowledged"] > 500
    assert all(one != other for one, other in zip(before, pids(theirs), strict=True))
    assert len([*tmp_path.glob("latest/replicas/*/highwater-*-0/*.log")]) == 3
    require_whole(theirs)


def test_a_random_run_over_ssh_is_judged_and_leaves_nothing(
    theirs: Staging, tmp_path: Path
) -> None:
    faults = ("--nemesis", "kill,pause,stop,restart", "--for", "20s", "--seed", "3")
    code, out, err = finish(begin(theirs, "run", *where(theirs, tmp_path), *faults, "--json"))
    judged = json.loads(out)
    assert (code, judged["verdict"]) == (0, "valid"), (judged, err)
    assert judged["acknowledged"] > 200
    require_whole(theirs)


@pytest.mark.parametrize(
    ("words", "hurt"),
    [
        pytest.param(("rolling",), "down", id="rolling"),
        pytest.param(("run", "--nemesis", "pause", "--for", "60s"), "paused", id="pause"),
    ],
)
def test_a_killed_highwater_leaves_what_heal_mends(
    theirs: Staging, tmp_path: Path, words: tuple[str, ...], hurt: str
) -> None:
    process = begin(theirs, *words, *where(theirs, tmp_path))
    await_condition(
        lambda: (process.poll(), theirs.cluster.states),
        lambda seen: hurt in seen[1].values() or seen[0] is not None,
        what=f"a broker to be {hurt}",
        limit_s=120,
    )
    assert process.poll() is None, process.communicate()
    guards = [
        child
        for child in psutil.Process(process.pid).children()
        if "external.guard" in " ".join(child.cmdline())
    ]
    assert guards
    for guard in guards:
        guard.kill()
    os.kill(process.pid, signal.SIGKILL)
    finish(process)
    assert read(journal_folder(theirs.cluster_id)) is not None
    code, out, err = finish(begin(theirs, "heal", "--inventory", theirs.inventory()))
    assert (code, "is healed" in out, "is deleted" in out) == (0, True, True), err
    require_whole(theirs)


def test_who_is_not_let_in_is_told_why(theirs: Staging, tmp_path: Path) -> None:
    other, _ = certificate(tmp_path / "other", ["127.0.0.1"])
    cases = [
        ({"hosts": "b{}.nowhere.invalid"}, 4, "the command to check broker 1", "nowhere.invalid"),
        ({"sasl.password": "wrong"}, 4, "no broker of the cluster responds", "authentication"),
        ({"ssl.ca.location": str(other)}, 4, "no broker of the cluster responds", "certificate"),
        ({"ssl.ca.location": "/none.pem"}, 2, "the certificates of the inventory", "No such file"),
    ]
    for changes, expected, *parts in cases:
        path = theirs.inventory(**changes)
        words = ("--inventory", path, "--confirm", theirs.code, "--store", tmp_path)
        code, _, err = finish(begin(theirs, "rolling", *words))
        told = " ".join(err.split())
        assert (code, all(part in told for part in parts)) == (expected, True), (changes, err)
        require_whole(theirs)
