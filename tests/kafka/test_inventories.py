"""The inventory of docs/examples for a service that only restarts a broker, run line by line.

``aws`` is a stand-in (``stand_ins/``), which docs/external.md says; the brokers are real.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.clusters.external.journal import journal_folder, read
from highwater.harness.releases.catalogue import MODERN
from tests.kafka.external_cluster import ASK, Landlord, landlord
from tests.kafka.secured_cluster import EXAMPLES, STAND_INS, as_toml, program

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Landlord]:
    folder = tmp_path_factory.mktemp("theirs")
    with landlord(MODERN, folder) as found:
        shutil.copytree(STAND_INS, folder / "bin")
        agent = f"exec {sys.executable} -S -c '{ASK}' {found.socket} \"$@\"\n"
        program(folder / "bin" / "agent", agent)
        for broker in found.cluster.brokers:
            data = found.cluster.directory / "replicas" / str(broker)
            (folder / f"data-{broker}").symlink_to(data)
        yield found


def inventory(theirs: Landlord, name: str = "msk") -> Path:
    """The example's, with this cluster's address and numbers."""
    example = tomllib.loads((EXAMPLES / f"{name}.toml").read_text("utf-8"))
    example |= {"bootstrap": theirs.cluster.bootstrap, "kafka": MODERN, "client": {}}
    names = {key: str(value) for key, value in next(iter(example["brokers"].values())).items()}
    example["brokers"] = dict.fromkeys(theirs.cluster.brokers, names)
    path = theirs.directory / f"{name}.toml"
    path.write_text(as_toml(example), encoding="utf-8")
    return path


def rolling(
    theirs: Landlord, path: Path, store: Path
) -> "tuple[int, str, subprocess.CompletedProcess[str]]":
    where = ("--inventory", str(path), "--confirm", theirs.code, "--store", str(store))
    words = ("--producers", "1", "--rate", "100", "--min-isr", "2", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "highwater", "rolling", *where, *words],
        env={
            **os.environ,
            "PATH": f"{theirs.directory / 'bin'}:{os.environ['PATH']}",
            "MACHINES": str(theirs.directory),
            "XDG_STATE_HOME": str(store / "state"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert "Traceback" not in done.stderr
    assert theirs.states == {"running"}
    return done.returncode, done.stderr, done


def test_a_service_that_only_restarts_is_restarted_in_order(
    theirs: Landlord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = [theirs.pid(broker).read_text() for broker in theirs.cluster.brokers]
    code, err, done = rolling(theirs, inventory(theirs), tmp_path)
    assert code == 0, err
    judged = json.loads(done.stdout)
    assert (judged["verdict"], judged["acknowledged"] > 500) == ("valid", True)
    after = [theirs.pid(broker).read_text() for broker in theirs.cluster.brokers]
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert not [*tmp_path.glob("latest/replicas/*/highwater-*-0/*.log")]
    assert read(journal_folder(theirs.cluster_id)) is None


def test_a_restart_that_restarts_nothing_is_found_out(
    theirs: Landlord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = theirs.inventory(commands={**dict.fromkeys(theirs.commands, ""), "restart": "true"})
    code, err, _ = rolling(theirs, path, tmp_path)
    told = " ".join(err.split())
    unheeded = "the command to restart broker 1 ended with status 0, but"
    assert (code, unheeded in told) == (4, True), err
    assert read(journal_folder(theirs.cluster_id)) is None
