import json
import re
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from rich.console import Console

from highwater import console
from highwater.clusters.releases.jars import digests, lock_file, locked_jars
from highwater.harness.base.errors import UsageError
from highwater.harness.clients import client_config as clients
from highwater.harness.releases.catalogue import (
    CATALOGUE,
    MODERN,
    SAMPLE,
    Release,
    Truncation,
    release,
)

every_release = pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))


def test_an_unknown_release_names_the_nearest_and_all() -> None:
    with pytest.raises(UsageError, match=r"Kafka '0\.10\.2' is not in the catalogue") as caught:
        release("0.10.2")
    assert "Did you mean 0.10.2.2" in caught.value.hint
    for name in CATALOGUE:
        assert name in caught.value.hint


@pytest.mark.parametrize(
    ("line", "patches"),
    [("2.8", "2.8.0 or 2.8.2"), ("3.9", "3.9.0 or 3.9.2 or 3.9.2-zk"), ("1.1", "1.1.1")],
)
def test_a_line_is_near_to_its_patch_releases(line: str, patches: str) -> None:
    with pytest.raises(UsageError) as caught:
        release(line)
    assert caught.value.hint.startswith(f"Did you mean {patches}? There are: 0.9.0.1, ")


@pytest.mark.parametrize(
    ("name", "neighbours"),
    [
        ("3.6.1", "3.6.2"),
        ("3.5.1", "3.4.1 or 3.6.2"),
        ("3.9.1", "3.9.0 or 3.9.2 or 3.9.2-zk"),
        ("2.6.0", "2.4.1 or 2.8.0"),
        ("9.9.9", list(CATALOGUE)[-1]),
        ("0.8.2.1", "0.9.0.1"),
        ("3.9.2-zoo", "3.9.2 or 3.9.2-zk"),
        ("0.10.2.1", "0.10.2.2"),
    ],
)
def test_a_release_is_near_to_its_neighbours_by_number(name: str, neighbours: str) -> None:
    with pytest.raises(UsageError) as caught:
        release(name)
    assert caught.value.hint.startswith(f"Did you mean {neighbours}? There are: 0.9.0.1, ")


def test_nonsense_is_near_to_nothing() -> None:
    with pytest.raises(UsageError) as caught:
        release("xyzzy")
    assert "Did you mean" not in caught.value.hint


def test_the_rule_changed_with_kip_101() -> None:
    assert release("0.10.2.2").truncation is Truncation.HIGH_WATERMARK
    assert release("0.11.0.3").truncation is Truncation.LEADER_EPOCH
    assert release("4.3.1").truncation is Truncation.ON_FETCH
    assert [release(name).idempotence for name in ("0.10.2.2", "0.11.0.3")] == [False, True]


def test_releases_compare_by_number_and_not_by_name() -> None:
    assert release("0.10.2.2").number < release("0.11.0.3").number < release("4.3.1").number
    assert list(CATALOGUE) == sorted(CATALOGUE, key=lambda name: CATALOGUE[name].number)


def test_every_rule_is_explained_in_one_sentence() -> None:
    for rule in Truncation:
        assert re.fullmatch(r"[A-Z][^.]*\.", rule.explanation)


def test_the_sample_has_one_release_of_each_generation() -> None:
    def generation(entry: Release) -> tuple[str, str, int]:
        return entry.coordination, entry.truncation, entry.magic

    sampled = [generation(release(name)) for name in SAMPLE]
    assert len(set(sampled)) == len(sampled)
    assert set(sampled) == {generation(entry) for entry in CATALOGUE.values()}


def test_the_modern_release_has_all_that_is_new_and_runs_everywhere() -> None:
    newest = list(CATALOGUE.values())[-1]
    modern = release(MODERN)
    assert SAMPLE[-1] == MODERN
    assert (modern.coordination, modern.truncation) == ("kraft", newest.truncation)
    assert (modern.magic, modern.drivers) == (newest.magic, ("local", "docker"))


def test_one_release_on_both_coordinations_shares_its_jars() -> None:
    kraft, zookeeper = release("3.9.2"), release("3.9.2-zk")
    assert (kraft.coordination, zookeeper.coordination) == ("kraft", "zookeeper")
    assert kraft.version == zookeeper.version
    assert kraft.number == zookeeper.number == (3, 9, 2)
    assert lock_file(kraft) == lock_file(zookeeper)


def test_containers_need_two_listeners() -> None:
    local_only = {name for name, entry in CATALOGUE.items() if "docker" not in entry.drivers}
    assert local_only == {name for name, entry in CATALOGUE.items() if entry.number < (0, 10, 2)}
    assert all("local" in entry.drivers for entry in CATALOGUE.values())


@every_release
def test_the_probe_asks_in_versions_that_the_release_knows(entry: Release) -> None:
    wire, number = entry.wire, entry.number
    assert (wire.fetch_as == -2) == (number < (2, 4))
    assert (wire.list_offsets == 0) == (number < (0, 10, 1))
    assert (wire.create_topics is None) == (number < (0, 10, 1))
    assert wire.fetch <= 1 or number >= (0, 10)
    assert wire.metadata >= 7 or entry.coordination == "zookeeper"
    # 4.0 dropped CreateTopics v0 and v1, Fetch v0 to v3 and ListOffsets v0 (KIP-896).
    assert number < (4,) or (wire.create_topics or 0) >= 2


@every_release
def test_what_is_printed_is_short_and_what_is_stored_is_whole(entry: Release) -> None:
    told = json.loads(json.dumps(entry.describe()))
    assert told["name"] == entry.name
    assert told["note"] == entry.note
    assert told["explanation"] == entry.truncation.explanation
    assert told["wire"]["fetch"] == entry.wire.fetch
    assert re.fullmatch(r"[A-Z].*\.", entry.note)
    assert set(entry.row()) == set(release("4.3.1").row())


@every_release
def test_a_client_takes_the_settings_that_a_release_asks_for(
    entry: Release, tmp_path: Path
) -> None:
    log = clients.open_log(tmp_path / "clients.log")
    settings = clients.common("127.0.0.1:9", "test", log, quirks=entry.client)
    assert entry.client.items() <= settings.items()
    Producer(settings).flush(0)
    clients.close_log(log)


def test_the_list_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [entry.row() for entry in CATALOGUE.values()]
    table = console.table("Kafka releases", list(rows[0]), [list(row.values()) for row in rows])
    Console(width=100, file=sys.stdout).print(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) == len(CATALOGUE) + 5


@every_release
def test_every_release_has_a_complete_lock(entry: Release) -> None:
    jars = locked_jars(entry)
    group, artifact, version = entry.coordinates[0].split(":")
    assert (jars[0].group, jars[0].artifact, jars[0].version) == (group, artifact, version)
    assert len(digests(entry)) == len(jars)
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    clients = [jar.version for jar in jars if jar.artifact == "kafka-clients"]
    assert clients == [entry.version]


@every_release
def test_a_lock_names_no_host_and_no_path(entry: Release) -> None:
    assert not re.search(r"https?:|//|\.com/|\.org/|/home|/root", lock_file(entry).read_text())
