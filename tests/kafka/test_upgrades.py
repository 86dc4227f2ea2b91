"""Upgrades on real brokers: they lose nothing under load, and the protocol brings safety."""

import threading
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from highwater.api import judge_all, load
from highwater.checkers.spark.session import spark
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.store import Store
from highwater.nemesis.schedules.upgrade_path import levels
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.prediction_check import as_predicted
from highwater.runtime.runner import execute

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark"), pytest.mark.timeout(400)]

ROLLED = Plan(
    kafka="0.10.2.2",
    to=("0.11.0.3",),
    nemesis=("upgrade", "downgrade"),
    duration_s=30.0,
    topic=Topic(partitions=2, min_insync_replicas=2),
    seed=6,  # draws an upgrade first
)
BETWEEN = msgspec.structs.replace(
    find_story("loss").plan("0.10.2.2"), to=("0.11.0.3",), protocol="0.10.2"
)
"""The brokers run 0.11.0.3, and still speak as 0.10.2 does: KIP-101 has not begun."""


@pytest.mark.nightly
def test_upgrades_lose_nothing_under_load(tmp_path: Path) -> None:
    [rolled] = judge_all([execute(ROLLED, Store(tmp_path), stop=threading.Event())], spark())
    assert rolled.verdict.verdict == "valid", rolled.verdict.reasons
    assert rolled.verdict.ledger.acknowledged > 100
    _assert_rolled(rolled.run.path)


@pytest.mark.nightly
def test_safety_comes_with_the_protocol(tmp_path: Path) -> None:
    [between] = judge_all([execute(BETWEEN, Store(tmp_path), stop=threading.Event())], spark())
    assert as_predicted(between.run, between.verdict), between.verdict.reasons
    assert (between.verdict.verdict, between.verdict.ledger.lost) == ("invalid", 1)
    assert between.model is not None
    assert between.model.status == "as-predicted", between.model
    assert set(between.run.environment().levels.values()) == {str(levels(BETWEEN)[-1])}


KRAFT = Plan(
    kafka="3.9.2",
    to=(MODERN,),
    nemesis=("upgrade",),
    duration_s=45.0,
    topic=Topic(partitions=2, min_insync_replicas=2),
    seed=6,
)
POWER = find_story("power-failure").plan("3.9.2")
LEFT_BEHIND = msgspec.structs.replace(
    POWER,
    to=(MODERN,),
    protocol="3.9",
    topic=msgspec.structs.replace(POWER.topic, min_insync_replicas=2),
)
"""Brokers and controller run the modern release with the features of 3.9: no ELR."""


@pytest.mark.nightly
def test_on_kraft_the_features_are_raised_last_and_bring_the_safety(tmp_path: Path) -> None:
    runs = [execute(plan, Store(tmp_path), stop=threading.Event()) for plan in (KRAFT, LEFT_BEHIND)]
    rolled, behind = judge_all(runs, spark())
    assert rolled.verdict.verdict == "valid", rolled.verdict.reasons
    assert rolled.verdict.ledger.acknowledged > 100
    faults = load(rolled.run.path).table("faults")
    says = [*faults[faults.phase == "note"].says]
    told = [one for one in says if " metadata.version " in one]
    old, new = (str(one) for one in levels(KRAFT)[1:])
    assert told == [
        f"the controller runs {old}",
        *[f"broker {one} runs {old}" for one in (1, 2, 3)],
        f"the cluster has {new}",
    ]
    # KIP-966: with min.insync.replicas=2 nothing acknowledged is lost, once the ELR is there.
    assert (behind.verdict.verdict, behind.verdict.ledger.lost) == ("invalid", 1), behind.verdict
    assert behind.model is not None
    assert behind.model.status == "as-predicted", behind.model


def _assert_rolled(path: Path) -> None:
    """Broker by broker in order, each level on all of them before the next one."""
    run = load(path)
    faults = run.table("faults")
    notes = faults[(faults.phase == "note") & faults.fault.isin(["upgrade", "downgrade"])]
    notes = notes[notes.says.str.contains(" runs ")]
    words = [str(one) for one in levels(ROLLED)]
    seen = [words.index(says.split(" runs ")[1]) for says in notes.says]
    assert set(seen) >= {1}, notes
    whole = seen[: len(seen) // 3 * 3]
    assert [*notes.broker[: len(whole)]] == [1, 2, 3] * (len(whole) // 3)
    rounds = [0, *whole[::3]]
    assert whole == [one for one in rounds[1:] for _ in range(3)]
    assert all(abs(after - before) == 1 for before, after in pairwise(rounds))
