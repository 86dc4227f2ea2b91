import re

import pytest

from clusters.distribution import digests, lock_file, locked_jars
from clusters.versions import CATALOGUE, Release, Truncation, release
from harness.errors import UsageError

every_release = pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))


def test_an_unknown_release_names_the_nearest_and_all() -> None:
    with pytest.raises(UsageError, match=r"Kafka '0\.10\.2' is not in the catalogue") as caught:
        release("0.10.2")
    assert "Did you mean 0.10.2.2" in caught.value.hint
    for name in CATALOGUE:
        assert name in caught.value.hint


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


@every_release
def test_every_release_has_a_complete_lock(entry: Release) -> None:
    jars = locked_jars(entry)
    group, artifact, version = entry.coordinates[0].split(":")
    assert (jars[0].group, jars[0].artifact, jars[0].version) == (group, artifact, version)
    assert len(digests(entry)) == len(jars)
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    clients = [jar.version for jar in jars if jar.artifact == "kafka-clients"]
    assert clients == [entry.name]


@every_release
def test_a_lock_names_no_host_and_no_path(entry: Release) -> None:
    assert not re.search(r"https?:|//|\.com/|\.org/|/home|/root", lock_file(entry).read_text())
