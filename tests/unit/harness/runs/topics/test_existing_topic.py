"""A run's topic is made like one that exists, says what is from where, and is made again."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import External, Plan, Topic, Workload
from highwater.harness.runs.topics.existing_topic import (
    ExistingTopic,
    likened,
    of_plan,
    only_read,
)

PLAN = Plan(
    kafka="4.4.0",
    driver="external",
    nemesis=("kill",),
    duration_s=30,
    brokers=3,
    topic=Topic(name="highwater-1", partitions=3),
    external=External(
        inventory="s.toml", cluster_id="abc", code="c0de", brokers=(1, 2, 3), commands=("kill",)
    ),
)
ORDERS = ExistingTopic(
    name="orders",
    replicas=((3, 1), (1, 2)),
    settings={
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
        "segment.bytes": "1048576",
    },
    overrides=frozenset({"segment.bytes", "min.insync.replicas"}),
)


def orders(**changes: str) -> ExistingTopic:
    return dataclasses.replace(ORDERS, settings={**ORDERS.settings, **changes})


def test_a_topic_that_is_only_read_is_described_as_it_is() -> None:
    topic = only_read(PLAN, ORDERS).topic
    assert (topic.name, topic.partitions, topic.replication_factor) == ("orders", 2, 2)
    assert topic.settings() == dict(ORDERS.settings)
    assert topic.like is None


def test_a_compacted_topic_is_not_only_read() -> None:
    with pytest.raises(UsageError, match="topic orders is compacted: a record that compaction"):
        only_read(PLAN, orders(**{"cleanup.policy": "compact,delete"}))


def test_settings_partitions_and_placement_are_taken() -> None:
    topic = likened(PLAN, ORDERS, {}).topic
    assert topic.name == "highwater-1"
    assert topic.settings() == dict(ORDERS.settings)
    assert topic.like is not None
    assert (topic.partitions, topic.replication_factor, topic.like.replicas) == (
        2, 2, ((3, 1), (1, 2)),
    )  # fmt: skip
    assert topic.like.says(topic.settings()) == [
        "partitions on the brokers of orders: 0 on 3,1; 1 on 1,2",
        "settings that orders itself sets: min.insync.replicas=2, segment.bytes=1048576",
        (
            "settings that its brokers set: cleanup.policy=delete, "
            "retention.bytes=-1, retention.ms=604800000, unclean.leader.election.enable=true"
        ),
    ]


def test_the_command_line_wins_and_that_is_said() -> None:
    given = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    given["partitions"] = "3"
    topic = likened(PLAN, ORDERS, given).topic
    assert topic.like is not None
    assert (topic.min_insync_replicas, topic.unclean_leader_election) == (1, True)
    assert topic.like.replicas == ((3, 1), (1, 2), (3, 1))
    assert topic.like.not_taken == {
        "min.insync.replicas": "2: --min-isr sets 1",
        "partitions": "2: --partitions sets 3",
    }
    assert topic.like.says(topic.settings())[-2:] == [
        "not copied from orders: min.insync.replicas, there 2: --min-isr sets 1",
        "not copied from orders: partitions, there 2: --partitions sets 3",
    ]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("retention.ms", "60000", "60000: a record that expires would look lost"),
        ("retention.bytes", "99", "99: a record that is deleted would look lost"),
        ("remote.storage.enable", "true", "true: a copy of a broker's disk"),
    ],
)
def test_what_no_run_can_have_is_left_out_and_said(name: str, value: str, why: str) -> None:
    topic = likened(PLAN, orders(**{name: value}), {}).topic
    assert topic.like is not None
    assert [*topic.like.not_taken] == [name]
    assert topic.like.not_taken[name].startswith(why)
    assert topic.settings().get(name) == Topic().settings().get(name)


def test_what_its_brokers_give_a_remote_tier_is_not_worth_a_word() -> None:
    quiet = orders(**{"remote.storage.enable": "false", "local.retention.ms": "-2"})
    assert likened(PLAN, quiet, {}) == likened(PLAN, ORDERS, {})


@pytest.mark.parametrize(
    ("existing", "message"),
    [
        (
            dataclasses.replace(ORDERS, replicas=((1, 4),)),
            "on broker 4, which is not in the inventory",
        ),
        (dataclasses.replace(ORDERS, replicas=((1,), (1, 2))), "have 1 to 2 replicas"),
        (orders(**{"cleanup.policy": "compact,delete"}), "rejects records without a key"),
        (orders(**{"max.message.bytes": "100"}), "rejects records of 64 bytes"),
    ],
)
def test_a_topic_that_no_run_can_have_is_refused(existing: ExistingTopic, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        likened(PLAN, existing, {})


def test_records_with_keys_make_a_compacted_topic_with_their_own_timestamps() -> None:
    keyed = msgspec.structs.replace(
        PLAN, workload=Workload(keys=5), broker_config={"log.cleaner.backoff.ms": "200"}
    )
    compacted = orders(**{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
    plan = likened(keyed, compacted, {})
    assert plan.topic.settings()["cleanup.policy"] == "compact"
    assert plan.topic.settings()["retention.ms"] == "-1"
    assert plan.topic.like is not None
    assert [*plan.topic.like.not_taken] == ["retention.ms", "message.timestamp.type"]


def test_a_plan_makes_the_same_topic_without_the_one_it_was_made_like(tmp_path: Path) -> None:
    given = {"min.insync.replicas": "1", "partitions": "5"}
    plan = likened(PLAN, orders(**{"retention.ms": "60000"}), given)
    assert "--min-isr 1 --unclean --inventory s.toml --confirm c0de --like ./plan.json" in (
        plan.command()
    )
    path = tmp_path / "plan.json"
    path.write_bytes(plan.to_json())
    assert Plan.from_json(path.read_bytes()) == plan
    assert likened(PLAN, of_plan(path), given) == plan


def test_a_plan_that_is_like_no_other_topic_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        of_plan(path)
    path.write_bytes(PLAN.to_json())
    with pytest.raises(UsageError, match="did not copy an existing topic"):
        of_plan(path)
