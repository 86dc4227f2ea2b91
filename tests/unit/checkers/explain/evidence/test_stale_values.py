"""A stale replica is explained by its absence for as long as tombstones stay."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.checkers.explain.evidence.stale_values import stale
from highwater.harness.runs.derived_settings import DELETE_RETENTION
from highwater.harness.runs.plan import Plan, Topic, Workload

ANOMALY = {"partition": 0, "copies": [{"broker": 2}, {"broker": 3}]}
S = 1_000_000_000


def observed(*isrs: tuple[int, list[int]], retention_s: int = 5) -> Any:  # noqa: ANN401 - a part
    """A run whose ISR was so from these seconds on."""
    rows = [SimpleNamespace(time_ns=at * S, isr=isr, leader=isr[-1]) for at, isr in isrs]
    topic = Topic(config={DELETE_RETENTION: str(retention_s * 1000)})
    trace = SimpleNamespace(leaderships=rows)
    plan = Plan(kafka="4.4.0", topic=topic, workload=Workload(keys=5))
    return SimpleNamespace(traces={0: trace}, plan=plan, missing=frozenset())


@pytest.mark.parametrize("isr", [[1, 2], [1, 3]])
def test_a_replica_that_was_away_for_long_is_explained(isr: list[int]) -> None:
    chain = stale(observed((0, [1, 2, 3]), (10, isr), (12, isr), (15, [1, 2, 3])), ANOMALY)
    [link] = chain.links
    assert not chain.why_not
    assert "for 5.0 s" in link.says
    assert link.broker == ({1, 2, 3} - {*isr}).pop()


@pytest.mark.parametrize(("leader", "word"), [(3, True), (2, False)])
def test_what_clients_read_is_explained_by_the_last_leader(leader: int, word: bool) -> None:
    isrs = (0, [1, 2, 3]), (10, [1, 2]), (15, [*({1, 2, 3} - {leader}), leader])
    chain = stale(observed(*isrs), {"partition": 0, "copies": None})
    assert bool(chain.links) == word


@pytest.mark.parametrize(
    "isrs",
    [
        [(0, [1, 2, 3])],
        [(0, [1, 2, 3]), (10, [1, 2]), (14, [1, 2, 3])],
        [(0, [1, 2, 3]), (10, [1, 2]), (13, [1, 2, 3]), (14, [1, 2]), (17, [1, 2, 3])],
        [(0, [1, 2, 3]), (10, [2, 3]), (30, [1, 2, 3])],  # one that has no part in it
        [(0, [1, 2, 3]), (10, [1, 2])],  # it never came back
        [],
    ],
)
def test_nothing_else_explains_it(isrs: list[tuple[int, list[int]]]) -> None:
    assert stale(observed(*isrs), cast("Any", ANOMALY)).why_not
