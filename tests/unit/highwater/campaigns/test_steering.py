"""The choice of steered runs: broken promises first."""

from itertools import islice

import msgspec
import pytest

from highwater.campaigns.steering import Steering
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.runtime.campaign import PlannedRun


@pytest.fixture(scope="module")
def steering(tmp_path_factory: pytest.TempPathFactory) -> Steering:
    return Steering(paths=tmp_path_factory.mktemp("paths"))


def chosen(steering: Steering, kafka: str, *seen: str, most: int = 2) -> list[PlannedRun]:
    return list(islice(steering.runs(kafka, seen, driver="local", seed=7), most))


def test_the_first_runs_break_the_promises_that_the_release_can_break(steering: Steering) -> None:
    broken = steering.breaches("0.10.2.2")
    assert {"acked-kept", "agree-at-rest"} <= set(broken)  # the two losses of KIP-101
    runs = chosen(steering, "0.10.2.2", most=len(broken))
    assert [run.label.split()[1] for run in runs] == list(broken)
    assert [run.plan.seed for run in runs] == list(range(7, 7 + len(broken)))
    for name in broken:
        written = steering.paths / f"{name}-0.10.2.2.json"
        assert msgspec.json.decode(written.read_bytes(), type=Counterexample) == broken[name]


def test_a_promise_that_a_run_aimed_at_is_not_broken_again(steering: Steering) -> None:
    first, second = chosen(steering, "0.10.2.2")
    [again] = chosen(steering, "0.10.2.2", first.label.split()[1], most=1)
    assert again.label == second.label


def test_the_shortest_path_to_a_broken_promise_is_chosen(steering: Steering) -> None:
    broken = steering.breaches("0.10.2.2")
    assert len(broken["acked-kept"].steps) == 5


def test_a_leader_that_is_elected_again_is_found_on_kraft(steering: Steering) -> None:
    assert set(steering.breaches("4.4.0")) == {"acked-kept", "read-kept"}
