"""Releases by what brokers support, for every line that the catalogue has."""

import pytest

from highwater.clusters.external.release_ranges import (
    at_least,
    named_release,
    release_range,
)
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.releases.cluster_facts import METADATA, ReleaseRange


@pytest.mark.parametrize(
    ("fetch", "level", "says"),
    [
        (3, 0, "from 0.10.1 to before 0.11"),
        (12, 0, "from 2.7 to before 3.1"),
        (17, 0, "3.9.x"),
        (16, 0, "from 3.7 to before 3.9"),
        (16, 19, "3.7.x"),
        (17, 21, "3.9.x"),
        (18, 33, "4.4.x"),
        (18, 34, "newer than 4.4"),
        (18, 28, "4.1.x"),
    ],
)
def test_versions_tell_a_range(fetch: int, level: int, says: str) -> None:
    features = {"metadata.version": level} if level else {}
    assert str(release_range({1: fetch}, features)) == says


def test_every_line_on_kraft_is_recognised() -> None:
    lines = {entry.number[:2] for entry in CATALOGUE.values() if entry.coordination == "kraft"}
    assert lines <= set(METADATA.values())


def test_what_no_release_supports_is_not_recognised() -> None:
    assert release_range({1: 30}, {}) is None


def test_the_protocol_of_a_broker_is_not_newer_than_the_broker() -> None:
    wide = release_range({1: 12}, {})
    assert str(at_least(wide, "2.8-IV1")) == "from 2.8 to before 3.1"
    assert at_least(wide, "0.10.2-IV0") == wide
    assert at_least(None, "2.8") is None


def test_a_person_may_name_any_release() -> None:
    assert named_release("4.0.2") == ReleaseRange(first=(4, 0, 2), below=None, exact=True)
    assert str(named_release("4.0.2")) == "4.0.2"
    with pytest.raises(UsageError, match="'four' is not a release"):
        named_release("four")
