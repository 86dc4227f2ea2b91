"""What a broker runs, where an upgrade leads, and what each step of it means for its log."""

import pytest

from highwater.clusters.releases.software_level import Level, upgrade_levels
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.releases.release import Truncation

HW, EPOCH, EXACT, FETCH = Truncation


def level(kafka: str, protocol: str = "", written: str = "") -> Level:
    return Level.of(release(kafka), protocol=protocol, format=written)


def steps(kafka: str, *to: str, protocol: str = "", written: str = "") -> list[tuple[str, ...]]:
    start = level(kafka, protocol, written)
    path = upgrade_levels(start, map(release, to), protocol=protocol, format=written)
    return [(one.release.name, one.protocol, one.format) for one in path]


@pytest.mark.parametrize("kafka", CATALOGUE)
def test_a_release_at_its_own_level_cuts_by_its_own_rule(kafka: str) -> None:
    own = level(kafka)
    assert own.truncation == release(kafka).truncation
    assert own.protocol == own.format == release(kafka).protocol


@pytest.mark.parametrize(
    ("kafka", "protocol", "written", "rule"),
    [
        ("0.11.0.3", "0.10.2", "", HW),
        ("0.11.0.3", "0.11.0", "0.10.2", EPOCH),  # the leader is asked, and says it has none
        ("2.0.1", "1.1", "", EPOCH),
        ("2.0.1", "", "0.10.2", EXACT),
        ("2.1.1", "", "0.10.2", HW),  # nobody is asked
        ("2.8.2", "2.6", "", EXACT),
        ("2.8.2", "2.7", "", FETCH),
        ("2.8.2", "", "0.10.2", HW),
        ("3.9.2-zk", "0.10.2", "", HW),
        ("0.10.2.2", "2.8", "", HW),  # a newer one than its own it cannot speak
    ],
)
def test_an_old_protocol_or_format_brings_the_old_rule_back(
    kafka: str, protocol: str, written: str, rule: Truncation
) -> None:
    assert level(kafka, protocol, written).truncation == rule


def test_an_upgrade_raises_jars_then_protocol_then_format() -> None:
    assert steps("0.10.2.2", "0.11.0.3", "1.1.1") == [
        ("0.11.0.3", "0.10.2", "0.10.2"),
        ("0.11.0.3", "0.11.0", "0.10.2"),
        ("0.11.0.3", "0.11.0", "0.11.0"),
        ("1.1.1", "0.11.0", "0.11.0"),
        ("1.1.1", "1.1", "1.1"),  # records are written alike, so in one go
    ]


def test_on_kraft_an_upgrade_raises_jars_then_the_metadata_version() -> None:
    assert steps("3.7.2", "3.9.2", "4.3.1") == [
        ("3.9.2", "3.7", "3.7"),
        ("3.9.2", "3.9", "3.9"),
        ("4.3.1", "3.9", "3.9"),
        ("4.3.1", "4.3", "4.3"),
    ]
    assert steps("3.9.2", "4.3.1", protocol="3.9") == [("4.3.1", "3.9", "3.9")]
    old = level("4.3.1", "3.9")
    assert (old.settings, old.truncation) == ({"metadata.version": "3.9"}, FETCH)
    assert Level.from_settings(old.release, old.settings) == old
    assert str(old) == "Kafka 4.3.1, metadata.version 3.9"


def test_a_cluster_is_started_at_the_level_that_its_settings_ask_for() -> None:
    old = level("2.8.2", "1.1", "0.10.2")
    assert Level.from_settings(old.release, old.settings) == old
    assert Level.from_settings(old.release, {}) == level("2.8.2")


def test_limits_stop_it_on_the_way() -> None:
    between = [("0.11.0.3", "0.10.2", "0.10.2")]
    assert steps("0.10.2.2", "0.11.0.3", protocol="0.10.2") == between
    bumped = [*between, ("0.11.0.3", "0.11.0", "0.10.2")]
    assert steps("0.10.2.2", "0.11.0.3", written="0.10.2") == bumped


def test_what_brokers_are_told() -> None:
    assert level("0.9.0.1").settings == {"inter.broker.protocol.version": "0.9.0"}
    assert level("2.8.2", "1.1").settings == {
        "inter.broker.protocol.version": "1.1",
        "log.message.format.version": "1.1",
    }
    assert str(level("1.1.1", "0.11.0")) == "Kafka 1.1.1, protocol 0.11.0, format 0.11.0"


@pytest.mark.parametrize("word", ["0.11", "2.8.2", "new", "0.10.2-IV0", "11"])
def test_a_version_is_written_as_kafka_does(word: str) -> None:
    with pytest.raises(UsageError, match="is not a version") as caught:
        level("2.8.2", word)
    assert "0.10.2" in caught.value.hint
