"""Names of records with keys, and of tombstones, which have no value to hold theirs."""

from collections import Counter

import pytest

from highwater.harness.runs.plan import Plan, Workload
from highwater.harness.runs.topics.record_keys import (
    FIRST_MS,
    LAST_MS,
    PRODUCERS,
    keyed_name,
    parts,
    tombstone_name,
)


def test_keys_and_tombstones_are_drawn_from_the_seed() -> None:
    plans = [Plan(kafka="4.4.0", seed=seed, workload=Workload(keys=7)) for seed in (1, 1, 2)]
    first, again, other = ([keyed_name(plan, 2, nth) for nth in range(1000)] for plan in plans)
    assert first == again != other
    named = [parts(name) for name in first]
    assert {name.key for name in named if name} == {f"k{number}" for number in range(7)}
    deletes = Counter(name.deletes for name in named if name)
    assert 50 < deletes[True] < 150
    assert len(set(first)) == 1000


def test_a_tombstone_is_named_by_its_timestamp() -> None:
    for producer in (0, PRODUCERS - 1):
        for sequence in (0, 1, 2**31 - 1):
            named = parts(f"k3~p{producer}-{sequence}")
            assert named is not None
            assert named.deletes
            assert FIRST_MS <= named.timestamp_ms < LAST_MS
            assert tombstone_name(b"k3", named.timestamp_ms) == f"k3~p{producer}-{sequence}"


@pytest.mark.parametrize("time_ms", [0, FIRST_MS - 1, LAST_MS, 1_790_000_000_000])
def test_a_tombstone_of_somebody_else_has_no_name(time_ms: int) -> None:
    assert tombstone_name(b"k3", time_ms) == ""


@pytest.mark.parametrize("name", ["p0-17", "fence-0-1", "k3", "k3=p0", "x=p0-1", "k3=p0-1|"])
def test_other_names_have_no_key(name: str) -> None:
    assert parts(name) is None
