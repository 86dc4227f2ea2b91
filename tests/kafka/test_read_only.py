"""A topic to which its owner's producers write is read during faults, and nothing is written.

What the brokers hold afterwards is counted: the owner's own records, and not a byte more.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from highwater.clusters.external.journal import journal_folder, read
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.store import Run
from tests.kafka.others_producers import writing
from tests.kafka.own_cluster import (
    API,
    COMMANDS,
    POWER_CUT,
    USED,
    OwnCluster,
    differences,
    own_cluster,
)
from tests.support.commands import finish, start

QUICK: Final = {"log.retention.check.interval.ms": "500", "auto.create.topics.enable": "false"}
CUT: Final = {"kill": POWER_CUT["kill"].replace("highwater-*-*", f"{USED}-*")}

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=[MODERN, "3.9.2"])
def own(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnCluster]:
    directory = tmp_path_factory.mktemp("own") / "cluster"
    with own_cluster(request.param, directory, group=True, settings=QUICK) as made:
        yield made


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def perform(
    own: OwnCluster, store: Path, words: str, commands: Mapping[str, str] = COMMANDS
) -> tuple[int, dict[str, Any]]:
    """Type what a user would; return the exit code and the JSON."""
    own.await_in_sync()
    where = ("--inventory", own.inventory(commands), "--confirm", own.code, "--store", store)
    code, out, err = finish(start(*words.split(), "--read-only", USED, *where, "--json"))
    assert out, err
    return code, json.loads(out)


def ends(facts: dict[str, Any]) -> int:
    """Take the ends of the owner's topic out of the facts, and return their sum."""
    return sum(part.pop("end") for part in facts["topics"][USED]["partitions"])


def contents(run: Run) -> list[Path]:
    """Return the files of a run that contain a piece of a record."""
    files = [path for path in run.path.rglob("*") if path.is_file()]
    return [path for path in files if b'"order"' in path.read_bytes()]


@pytest.mark.parametrize(
    "words", ["run --nemesis kill,pause --for 20s --seed 2", "rolling --for 10s"]
)
def test_records_of_others_stay_and_nothing_is_written(
    own: OwnCluster, tmp_path: Path, words: str
) -> None:
    before = own.facts()
    with writing(own.bootstrap, USED) as [owner]:
        code, judged = perform(own, tmp_path, words)
    after = own.facts()
    assert (code, judged["verdict"]) == (0, "valid"), judged["reasons"]
    assert judged["received"] == judged["read"] > 500
    assert judged["sent"] is judged["acknowledged"] is None
    assert owner.counts["failed"] == 0
    assert ends(after) - ends(before) == owner.counts["written"]
    assert differences(before, after) == []
    run = Run(tmp_path / "latest")
    assert contents(run) == []
    assert not run.replicas.exists() or not any(run.replicas.iterdir())
    assert read(journal_folder(own.cluster_id)) is None


def test_what_a_power_failure_took_is_gone(own: OwnCluster, tmp_path: Path) -> None:
    settings: dict[str, str | int | bool] = {"enable.idempotence": False, "retries": 0}
    with writing(own.bootstrap, USED, **settings):
        faults = "run --nemesis kill@all --budget kill=3 --for 6s"
        code, judged = perform(own, tmp_path, faults, CUT)
    own.await_in_sync()
    assert (code, judged["verdict"]) == (1, "invalid"), judged["reasons"]
    assert judged["lost"] > 0
    assert {found["kind"] for found in judged["anomalies"]} == {"vanished"}
    first = judged["anomalies"][0]
    assert f"at offset {first['offset']} of {USED}-" in first["sentence"]
    assert "is gone" in first["sentence"]
    page = (tmp_path / "latest/report.html").read_text(encoding="utf-8")
    for word in ("acknowledged", "were sent"):
        assert word not in page


def test_what_expired_is_not_judged(own: OwnCluster, tmp_path: Path) -> None:
    set_topic(own, {"retention.ms": "4000", "segment.ms": "1000"})
    try:
        with writing(own.bootstrap, USED):
            code, judged = perform(own, tmp_path, "run --nemesis pause --for 25s")
    finally:
        set_topic(own, {"retention.ms": "86400000", "segment.ms": "604800000"})
    assert (code, judged["verdict"]) == (0, "valid"), judged["reasons"]
    assert judged["lost"] == judged["unseen"] == 0
    assert judged["replaced"] > 100
    assert judged["read"] > 0
    assert any("not judged: retention" in reason for reason in judged["reasons"])


def test_only_committed_records_of_others_are_judged(own: OwnCluster, tmp_path: Path) -> None:
    before = own.facts()
    faults = "run --nemesis kill --for 20s --consumers 2"
    faults += " --isolation read_committed,read_uncommitted"
    with writing(own.bootstrap, USED, "owner-1") as [plain, owner]:
        await_condition(
            partial(owner.counts.__getitem__, "aborted"), bool, what="an abort", limit_s=60
        )
        code, judged = perform(own, tmp_path, faults)
    assert (code, judged["verdict"]) == (0, "valid"), judged["reasons"]
    assert owner.counts["aborted"] > 0
    assert 100 < judged["received"] <= plain.counts["written"] + owner.counts["committed"]
    table = Run(tmp_path / "latest").table("history/ops").select(["value", "isolation", "kind"])
    names: dict[str, set[str]] = {"read_committed": set(), "read_uncommitted": set()}
    for row in table.to_pylist():
        if row["kind"] == "read":
            names[row["isolation"]].add(row["value"])
    assert len(names["read_uncommitted"] - names["read_committed"]) > 0
    after = own.facts()
    assert differences(before["groups"], after["groups"]) == []


def set_topic(own: OwnCluster, settings: Mapping[str, str]) -> None:
    """Change settings of the owner's topic, as the owner does."""
    entries = [
        API.ConfigEntry(name, value, incremental_operation=API.AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = API.ConfigResource(API.ConfigResource.Type.TOPIC, USED, incremental_configs=entries)
    for future in own.admin.incremental_alter_configs([resource]).values():
        future.result(30)
