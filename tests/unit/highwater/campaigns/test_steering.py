"""The choice of steered runs: broken promises first."""

from itertools import islice
from pathlib import Path

import msgspec
import pytest

from highwater.campaigns import steering
from highwater.campaigns.steering import Steering
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.runtime.campaign import PlannedRun

BY_ROUND = Scope(records=3, failures=0, moves=2, by="round")
AGAIN = Scope(records=1, failures=0, moves=3, by="round")
BY_MESSAGE = Scope(brokers=2, records=2, failures=0, moves=2)


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steering:
    """A steering whose searches take a second."""
    monkeypatch.setattr(steering, "BREACHES", (BY_ROUND,))
    monkeypatch.setattr(steering, "BREACHES_BY_MESSAGE", (BY_MESSAGE,))
    return Steering(paths=tmp_path)


def chosen(steering: Steering, *seen: str, most: int) -> list[PlannedRun]:
    return list(islice(steering.runs("0.10.2.2", seen, driver="local", seed=7), most))


def aims(runs: list[PlannedRun]) -> list[str]:
    return [run.label.split()[1] for run in runs]


def test_the_first_runs_break_the_promises_that_the_release_can_break(short: Steering) -> None:
    broken = short.breaches("0.10.2.2")
    assert {"acked-kept", "agree-at-rest"} <= set(broken)  # the two losses of KIP-101
    runs = chosen(short, most=len(broken))
    assert aims(runs) == list(broken)
    assert [run.plan.seed for run in runs] == list(range(7, 7 + len(broken)))
    for name in broken:
        written = short.paths / f"{name}-0.10.2.2.json"
        assert msgspec.json.decode(written.read_bytes(), type=Counterexample) == broken[name]
    assert aims(chosen(short, aims(runs)[0], most=1)) == [aims(runs)[1]]


def test_only_brokers_with_zookeeper_follow_messages(
    short: Steering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "BREACHES", ())
    assert {path.scope for path in short.breaches("0.10.2.2").values()} == {BY_MESSAGE}
    assert short.breaches("4.4.0") == {}


def test_a_leader_that_is_elected_again_is_found_on_kraft(
    short: Steering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "BREACHES", (AGAIN,))
    assert set(short.breaches("4.4.0")) == {"acked-kept", "read-kept"}
