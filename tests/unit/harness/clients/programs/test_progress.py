"""A program has come to its end when positions are at the end and nothing moves any more."""

import re

import pytest

from highwater.harness.clients.programs.outputs import input_named
from highwater.harness.clients.programs.positions import STILL_S, Progress, StoodStill
from highwater.harness.runs.plan import RECORD_NAME


def test_a_program_that_is_behind_or_writes_has_not_ended() -> None:
    now = 0.0
    still = StoodStill(lambda: now)
    done = Progress({0: 5, 1: None}, {0: 5, 1: 0}, 5)
    assert not still(done)
    now += STILL_S / 2
    assert not still(done)
    now += STILL_S
    assert not still(done._replace(written=6))  # it wrote: it must stand still anew
    now += STILL_S
    assert still(done._replace(written=6))
    assert not still(Progress({0: 4}, {0: 5}, 6))
    now += 2 * STILL_S
    assert not still(Progress({0: 4}, {0: 5}, 6))


def test_which_partitions_are_behind() -> None:
    progress = Progress({0: 5, 1: None, 2: 7}, {0: 5, 1: 3, 2: 9, 3: 0}, 0)
    assert progress.behind == {1: None, 2: 7}


@pytest.mark.parametrize(
    ("value", "match", "name"),
    [
        (b"p0-17|......", RECORD_NAME, "p0-17"),
        (b'{"id": "p0-17", "sum": 3}', RECORD_NAME, "p0-17"),
        (b"p0-17", "id=(.*)", None),
        (b"id=p0-17;", "id=([^;]*)", "p0-17"),
        (b"xp0-17", RECORD_NAME, None),
        (b"fence-0-1", RECORD_NAME, None),
        (b"\xff p0-1", RECORD_NAME, "p0-1"),
        (None, RECORD_NAME, None),
    ],
)
def test_which_input_an_output_names(value: bytes | None, match: str, name: str | None) -> None:
    assert input_named(value, re.compile(match)) == name
