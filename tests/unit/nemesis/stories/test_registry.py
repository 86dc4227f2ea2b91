"""What a story must come to follows from the release and the settings, and is asked of verdicts."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from highwater.checkers.policy import Word, promised
from highwater.clusters.core.interfaces import Cluster, Probe, ReplicaState, UnreachableError
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE, release
from highwater.harness.releases.release import Release
from highwater.harness.runs.plan import Acks, Plan
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import Anomaly, Verdict
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.schedules.cluster_needs import wired
from highwater.nemesis.schedules.upgrade_path import levels
from highwater.nemesis.stories.registry import STORIES, Prediction, find_story
from highwater.runtime.prediction_check import as_predicted
from highwater.runtime.preflight import check_plan
from tests.support import judged
from tests.support.schedule_contexts import schedule_context

ACKS: tuple[Acks, ...] = ("0", "1", "all")
OLD = [name for name, one in CATALOGUE.items() if one.number < (0, 11)]
LOST = Prediction(lost=frozenset({"m3"}))
FORKED = Prediction(lost=frozenset({"m3"}), forked=frozenset({3}))


def gone(*names: str) -> Prediction:
    return Prediction(lost=frozenset(names))


def found(*others: tuple[str, str | None]) -> Prediction:
    return Prediction(others=frozenset(others))


NOTHING = Prediction()
SKIPPED = found(*(("undelivered", value) for value in ("m1", "m2", "m3")))
Ending = Callable[[Release, Acks, bool], Prediction]
"""Of a release, acks, and whether elections may be unclean."""

ENDINGS: dict[str, Ending] = {
    # The truncation rule alone decides.
    "loss": lambda kafka, *_: LOST if kafka.name in OLD else NOTHING,
    "held-fetch": lambda kafka, *_: LOST if kafka.name in OLD else NOTHING,
    "divergence": lambda kafka, *_: FORKED if kafka.name in OLD else NOTHING,
    "cut-off": lambda kafka, *_: FORKED if kafka.name in OLD else NOTHING,
    # The canaries lose on every release.
    "leader-kill": lambda _, acks, __: NOTHING if acks == "all" else LOST,
    "unclean": lambda kafka, _, unclean: LOST if unclean and kafka.elects_unclean else NOTHING,
    "rolling-restart": lambda *_: NOTHING,
    # A disk keeps what was flushed, unless it lies.
    "honest-disk": lambda *_: NOTHING,
    "lying-disk": lambda kafka, _, unclean: NOTHING if unclean and kafka.elects_unclean else LOST,
    # A late Produce hangs where no leader asks the coordinator.
    "hanging-transaction": lambda kafka, *_: (
        found(("hanging-transaction", "m2")) if kafka.number < (3, 6) else NOTHING
    ),
    "fenced-produce": lambda kafka, *_: found(("G1a", "m2")) if kafka.number < (3, 6) else NOTHING,
    # What librdkafka does with transactions is one on every release.
    "torn-transaction": lambda *_: found(("G1a", "m3")),
    "fenced-transaction": lambda *_: NOTHING,
    "reused-sequence": lambda *_: LOST,
    "flushed-abort": lambda *_: NOTHING,
    "late-produce": lambda *_: replace(LOST, others=frozenset({("G1a", "m2")})),
    # An emptied replica leads where no controller asks for its start.
    "replaced-disk": lambda kafka, *_: (
        gone("m0", "m1", "m2", "m3")
        if kafka.coordination == "zookeeper" or kafka.number < (3, 5)
        else NOTHING
    ),
    # A new leader counts twice up to 4.3.
    "tiered-new-leader": lambda kafka, *_: gone("m0", "m1") if kafka.number < (4, 4) else NOTHING,
    # Before 3.9 a copy that failed counts.
    "failed-copies": lambda kafka, *_: gone("m0") if kafka.number < (3, 9) else NOTHING,
    # A late report of a copy hides the new leader's longer segment, on every release.
    "late-segment": lambda *_: gone("m1", "m2", "m3"),
    "prompt-segment": lambda *_: NOTHING,
    # A group that begins at the latest skips a new partition.
    "added-partition": lambda *_: SKIPPED,
    "earliest-partition": lambda *_: NOTHING,
    "added-partition-share": lambda kafka, *_: SKIPPED if kafka.number < (4, 4) else NOTHING,
    "earliest-share": lambda *_: NOTHING,
    # Retention and expired positions, as the settings say.
    "old-timestamp": lambda *_: gone("m1", "m2", "m3"),
    "clock-ahead": lambda *_: gone("m1", "m2", "m3"),
    "append-time": lambda *_: NOTHING,
    "bounded-timestamp": lambda *_: NOTHING,
    "expired-unread": lambda *_: gone("m0", "m1", "m2", "m3", "m4"),
    "local-retention": lambda *_: NOTHING,
    "expired-positions": lambda *_: SKIPPED,
    "earliest-positions": lambda *_: NOTHING,
    # 4.0.0 alone removes a group whose first offsets are in an open transaction.
    "removed-group": lambda kafka, *_: (
        found(("coordinator-contradiction", "")) if kafka.number == (4, 0, 0) else NOTHING
    ),
    # Up to 3.9.0 a coordinator does not wait for the thread that ends a transaction.
    "busy-coordinator": lambda kafka, *_: (
        found(("coordinator-contradiction", ""))
        if (1, 0, 2) <= kafka.number < (3, 9, 1)
        else NOTHING
    ),
    # Before 4.0 a coordinator serves groups that it could not load.
    "unloaded-groups": lambda kafka, *_: (
        found(("coordinator-contradiction", "")) if kafka.number < (4,) else NOTHING
    ),
    # A replica that is away for long, or whose disk is lost.
    "long-absence": lambda *_: found(
        *(("resurrected-value", "k0=p0-0"), ("resurrected-value", "k3=p0-2")),
        *(("G1a", "k1=p1-0"), ("hanging-transaction", "k5=p3-0")),
        *(("stale-replica", value) for value in ("k0=p0-0", "k1=p1-0", "k3=p0-2")),
    ),
    "retained-markers": lambda *_: NOTHING,
    "two-disks": lambda *_: gone("m0", "m1", "m2", "m3"),
    "disk-by-disk": lambda *_: NOTHING,
    # From 3.7.1 a restarted broker takes the copy in the assigned directory, even if it is shorter.
    "interrupted-move": lambda kafka, *_: gone("m3") if kafka.number > (3, 7, 0) else NOTHING,
    "answered-move": lambda *_: NOTHING,
    # Up to 4.3 the share coordinator takes the start offset of the write that comes last.
    "share-step-back": lambda kafka, *_: (
        found(("coordinator-contradiction", "")) if (4, 1) <= kafka.number < (4, 4) else NOTHING
    ),
    # A share group's start offset is stored with the first acknowledgement.
    "unsaved-start": lambda *_: found(("undelivered", None)),
    # A share group's limit counts deliveries that no member received.
    "unseen-record": lambda *_: found(("undelivered", "m1")),
    # The share coordinator initializes a state that it already has.
    "late-initialize": lambda *_: found(("coordinator-contradiction", "")),
    # In 4.0.2, and from 4.1.1 to 4.3, a coordinator forgets that a group is classic again.
    "downgraded-group": lambda kafka, *_: (
        found(("coordinator-contradiction", "")) if kafka.number < (4, 4) else NOTHING
    ),
    # From 3.8 a restarted broker skips the deletion of settings in the same change.
    "inherited-settings": lambda kafka, *_: (
        gone("m1", "m2", "m3") if kafka.number >= (3, 8) else NOTHING
    ),
    "stated-settings": lambda *_: NOTHING,
    # Up to 3.7 a follower keeps the offset of a batch instead of a record.
    "largest-timestamp": lambda kafka, *_: (
        found(("wrong-lookup", "")) if kafka.number < (3, 8) else NOTHING
    ),
    # A voter with an empty disk votes, unless its new disk has another id.
    "static-quorum": lambda *_: Prediction(
        lost=frozenset({"m3"}), others=frozenset({("lost-decision", None)})
    ),
    "dynamic-quorum": lambda *_: NOTHING,
    "recreated-topic": lambda *_: found(("foreign-offset", "")),
    "recreated-consumer": lambda *_: found(("foreign-offset", "")),
    "recreated-calmly": lambda *_: NOTHING,
    # The controllers decide, by their own settings, unless the topic has one.
    "controller-unclean": lambda *_: LOST,
    "topic-clean": lambda *_: NOTHING,
    # Java's clients before 3.2, as here where the brokers are older.
    "too-large": lambda kafka, *_: gone("m2") if kafka.number < (3, 2) else NOTHING,
}


SINCE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("torn-transaction", "fenced-transaction", "reused-sequence"), (0, 11)),
    **dict.fromkeys(("flushed-abort", "late-produce", "hanging-transaction"), (0, 11)),
    **dict.fromkeys(("fenced-produce", "removed-group"), (0, 11)),
    **dict.fromkeys(("busy-coordinator", "unloaded-groups"), (0, 11)),
    **dict.fromkeys(("share-step-back", "unsaved-start"), (4, 2)),
    **dict.fromkeys(("unseen-record", "late-initialize"), (4, 2)),
    "downgraded-group": (4, 0, 2),
    "replaced-disk": (2, 7),
    "tiered-new-leader": (3, 9),
    "recreated-consumer": (4,),
    **dict.fromkeys(("failed-copies", "expired-unread", "local-retention"), (3, 6)),
    **dict.fromkeys(("late-segment", "prompt-segment"), (3, 7)),
    **dict.fromkeys(("controller-unclean", "topic-clean"), (3, 9)),
    "too-large": (0, 11),
    "dynamic-quorum": (3, 9),
    **dict.fromkeys(("interrupted-move", "answered-move"), (3, 7)),
    **dict.fromkeys(("added-partition-share", "earliest-share"), (4, 2)),
    **dict.fromkeys(("old-timestamp", "clock-ahead", "append-time"), (0, 10, 1)),
    "bounded-timestamp": (3, 6),
    "largest-timestamp": (3,),
    **dict.fromkeys(("inherited-settings", "stated-settings"), (3, 6)),
    **dict.fromkeys(("long-absence", "retained-markers"), (3, 4)),
    **dict.fromkeys(("two-disks", "disk-by-disk", "lying-disk"), (0, 11)),
}
"""The first release that can play a story, if not any can."""


@pytest.mark.parametrize("name", ENDINGS)
def test_the_ending_of_a_story_follows_from_release_and_settings(name: str) -> None:
    story, played = find_story(name), set()
    for kafka, acks, unclean in product(CATALOGUE.values(), ACKS, [False, True]):
        plan = story.plan(kafka.name, acks=acks, unclean=unclean)
        try:
            check_plan(plan)
        except UsageError:
            continue
        played.add(kafka.name)
        assert story.predict(kafka, plan) == ENDINGS[name](kafka, acks, unclean), (kafka, plan)
    first = SINCE.get(name, (0,))
    kraft = name in {
        *("recreated-topic", "recreated-calmly", "controller-unclean", "topic-clean"),
        *("inherited-settings", "stated-settings", "static-quorum", "dynamic-quorum"),
        *("interrupted-move", "answered-move"),
    }
    assert played == {
        kafka.name
        for kafka in CATALOGUE.values()
        if kafka.number >= first and (not kraft or kafka.coordination == "kraft")
    }


@pytest.mark.parametrize(
    ("kafka", "limits", "lost"),
    [
        ("0.11.0.3", {"protocol": "0.10.2"}, True),
        ("0.11.0.3", {"protocol": "0.11.0"}, False),
        ("0.11.0.3", {"format": "0.10.2"}, False),  # B, whom C would have to ask, is dead
        ("2.0.1", {"format": "0.10.2"}, False),
        ("2.1.1", {"format": "0.10.2"}, True),  # C asks nobody
        ("2.8.2", {"format": "0.10.2"}, True),
        ("2.8.2", {"protocol": "0.11.0"}, False),
        ("3.9.2-zk", {"protocol": "0.10.2"}, True),
    ],
)
def test_what_brokers_speak_and_write_decides_and_not_their_jars(
    kafka: str, limits: dict[str, str], lost: bool
) -> None:
    for name, ending in (("loss", LOST), ("divergence", FORKED), ("cut-off", FORKED)):
        plan = msgspec.structs.replace(find_story(name).plan(kafka), **limits)
        check_plan(plan)
        assert find_story(name).predict(release(kafka), plan) == (ending if lost else Prediction())


def test_a_story_is_played_where_an_upgrade_has_led() -> None:
    plan = msgspec.structs.replace(find_story("loss").plan("0.10.2.2"), to=("0.11.0.3",))
    assert plan.played_on == "0.11.0.3"
    assert levels(plan)[-1].truncation == release("0.11.0.3").truncation
    held = msgspec.structs.replace(plan, protocol="0.10.2")
    assert (held.software, "--to 0.11.0.3 --protocol 0.10.2" in held.command()) == (
        "0.11.0.3 with protocol 0.10.2",
        True,
    )
    driven = msgspec.structs.replace(held, client="node ./driver.mjs")
    assert driven.software == "0.11.0.3 with protocol 0.10.2 and the client driver driver.mjs"
    other = msgspec.structs.replace(plan, client="java:3.9.0")
    assert other.software == "0.11.0.3 with java:3.9.0"
    assert levels(held)[-1].truncation == release("0.10.2.2").truncation


@pytest.mark.parametrize(
    ("kafka", "lost"),
    [("0.11.0.2", False), ("0.11.0.3", True), ("1.1.1", True), ("2.8.2", True)],
)
def test_with_the_old_format_a_leader_that_lives_has_no_answer(kafka: str, lost: bool) -> None:
    """In 0.11.0.2 it tells its LEO, by KAFKA-6857, and so nothing is cut."""
    plan = msgspec.structs.replace(find_story("held-fetch").plan(kafka), format="0.10.2")
    check_plan(plan)
    assert find_story("held-fetch").predict(release(kafka), plan) == (LOST if lost else NOTHING)


def test_a_power_failure_costs_the_last_replica_standing_its_tail() -> None:
    for kafka, min_isr in product([name for name in CATALOGUE if name not in OLD], [1, 2]):
        story = find_story("power-failure")
        plan = story.plan(kafka)
        topic = msgspec.structs.replace(plan.topic, min_insync_replicas=min_isr)
        plan = msgspec.structs.replace(plan, topic=topic)
        check_plan(plan)
        eligible = min_isr > 1 and release(kafka).number >= (4, 1)  # KIP-966
        assert story.predict(release(kafka), plan) == (Prediction() if eligible else LOST), (
            kafka,
            min_isr,
        )


def test_restarts_in_order_leave_every_record_on_every_replica() -> None:
    for kafka, acks in product(CATALOGUE, ACKS):
        story = find_story("rolling-restart")
        outcome = story.modelled(release(kafka), story.plan(kafka, acks=acks))
        assert outcome.logs == dict.fromkeys("ABC", ("m0", "m1", "m2", "m3", "m4", "m5")), (
            kafka,
            acks,
        )


@pytest.mark.parametrize(
    "name",
    ["torn-transaction", "fenced-transaction", "reused-sequence", "flushed-abort", "late-produce"],
)
def test_stories_of_transactions_have_their_clients_on_the_wire(name: str) -> None:
    plan = find_story(name).plan("4.4.0")
    assert wired(plan)
    assert plan.wire_clients
    assert plan.workload.transactions


@pytest.mark.parametrize(
    ("story", "kafka", "client", "broken"),
    [
        ("torn-transaction", "4.4.0", "java", False),
        ("torn-transaction", "4.4.0", "java:3.9.2", True),
        ("torn-transaction", "3.9.2", "java", True),
        ("torn-transaction", "3.9.2", "java:4.4.0", True),
        ("fenced-transaction", "3.9.2", "java", False),
        ("late-produce", "4.4.0", "java", False),
        ("reused-sequence", "3.9.2", "java", False),
        ("hanging-transaction", "4.4.0", "java", False),
        ("hanging-transaction", "2.8.2", "java", False),
        ("fenced-produce", "2.8.2", "java", False),
        ("torn-transaction", "4.4.0", "aiokafka", True),
        ("reused-sequence", "4.4.0", "aiokafka", False),
        ("late-produce", "3.9.2", "kafka-python", False),
        ("hanging-transaction", "2.8.2", "aiokafka", False),
        ("wrong-topic", "3.9.2", "java", False),
        ("wrong-topic", "3.9.2", "java:3.9.0", True),
        ("wrong-topic", "4.4.0", "java:4.0.1", True),
        ("wrong-topic", "4.4.0", "java:4.0.2", False),
        ("early-commit", "4.4.0", "java:3.9.0", True),
        ("early-commit", "4.4.0", "java:4.0.0", False),
        ("early-flush", "4.4.0", "java:3.9.0", True),
        ("early-flush", "4.4.0", "java:3.9.2", False),
        ("early-flush", "3.9.2", "java:4.1.2", False),
        ("too-large", "4.4.0", "java:2.8.2", True),
        ("too-large", "4.4.0", "java:3.3.2", False),
        ("expired-record", "4.4.0", "librdkafka", True),
        ("expired-record", "4.4.0", "java", False),
    ],
)
def test_the_client_decides_stories_about_clients(
    story: str, kafka: str, client: str, broken: bool
) -> None:
    plan = msgspec.structs.replace(find_story(story).plan(kafka), client=client)
    check_plan(plan)
    assert (find_story(story).predict(release(kafka), plan) != Prediction()) == broken


def test_a_late_answer_truncates_where_epochs_are_not_compared() -> None:
    for kafka, min_isr in product(
        [name for name in CATALOGUE if release(name).number >= (2, 8)], [1, 2, 3]
    ):
        story = find_story("late-answer")
        fixed = kafka in {"3.9.2", "3.9.2-zk"} or (4, 0) < release(kafka).number != (4, 0, 0)
        for acks in ACKS:
            plan = story.plan(kafka, acks=acks)
            topic = msgspec.structs.replace(plan.topic, min_insync_replicas=min_isr)
            plan = msgspec.structs.replace(plan, topic=topic)
            check_plan(plan)
            assert wired(plan), (kafka, min_isr)
            lost = (set() if fixed else {"m3"}) | (set() if acks == "all" else {"x"})
            assert story.predict(release(kafka), plan) == Prediction(lost=frozenset(lost)), (
                kafka,
                min_isr,
            )


def test_a_late_answer_needs_a_second_partition_and_answers_that_tell_where_to_truncate() -> None:
    plan = find_story("late-answer").plan("4.4.0")
    assert plan.topic.partitions == 2
    alone = msgspec.structs.replace(plan.topic, partitions=1)
    with pytest.raises(UsageError, match="needs 2 partitions"):
        check_plan(msgspec.structs.replace(plan, topic=alone))
    with pytest.raises(UsageError, match="ask for a truncation offset"):
        check_plan(find_story("late-answer").plan("2.4.1"))


def test_decisions_are_missed_with_zookeeper_alone() -> None:
    for kafka in CATALOGUE:
        plan = find_story("missed-decisions").plan(kafka)
        assert (plan.brokers, plan.topic.replication_factor) == (4, 3), kafka
        assert wired(plan), kafka
        if release(kafka).coordination == "kraft" or kafka in OLD:
            why = (
                "exit when they are ahead"
                if kafka in OLD
                else "read every decision in the metadata log"
            )
            with pytest.raises(UsageError, match=why):
                check_plan(plan)
            continue
        check_plan(plan)
        assert find_story("missed-decisions").predict(release(kafka), plan) == LOST, kafka
        with pytest.raises(UsageError, match="needs 4 brokers"):
            check_plan(msgspec.structs.replace(plan, brokers=3))


def test_a_new_leader_counts_what_is_left_and_two_fences() -> None:
    plan = find_story("tiered-new-leader").plan("4.3.1")
    assert plan.tiered
    assert 8 * plan.workload.record_bytes < int(plan.topic.config["retention.bytes"])
    with pytest.raises(UsageError, match="no common directory"):
        check_plan(msgspec.structs.replace(plan, driver="docker"))


def test_a_share_group_is_promised_every_record() -> None:
    plan = find_story("added-partition-share").plan("4.4.0")
    assert (plan.topic.partitions, plan.topic.added) == (2, 1)
    assert "a group of readers gets every record at least once" in promised(plan, faults=0).says


def test_a_plan_has_as_many_added_partitions_as_its_story_adds() -> None:
    plan = find_story("added-partition").plan("4.4.0")
    for partitions, added in ((1, 1), (2, 0), (3, 2)):
        topic = msgspec.structs.replace(plan.topic, partitions=partitions, added=added)
        with pytest.raises(UsageError, match="adds 1 of its topic's partitions"):
            check_plan(msgspec.structs.replace(plan, topic=topic))
    with pytest.raises(UsageError, match="only a story adds"):
        check_plan(Plan(kafka="4.4.0", topic=plan.topic, nemesis=("kill",), duration_s=10))


@pytest.mark.parametrize("topic", ["events", "events-7"])
def test_a_single_controller_without_its_disk_knows_no_topic(topic: str) -> None:
    plan = find_story("lost-metadata").plan("4.4.0")
    plan = msgspec.structs.replace(plan, topic=msgspec.structs.replace(plan.topic, name=topic))
    ending = Prediction(others=frozenset({("lost-decision", f"topic {topic} was created")}))
    assert find_story("lost-metadata").predict(release("4.4.0"), plan) == ending
    check_plan(plan)
    with pytest.raises(UsageError, match="needs 1 controller"):
        check_plan(msgspec.structs.replace(plan, controllers=3))


@pytest.mark.parametrize(
    ("story", "kafka", "says"),
    [
        ("torn-transaction", "0.10.2.2", "does not support transactions"),
        ("replaced-disk", "2.4.1", "its leaders do not ask the controller to change an ISR"),
        ("lost-metadata", "3.9.2-zk", "has no KRaft controllers"),
        ("static-quorum", "3.9.2-zk", "has no KRaft controllers"),
        ("dynamic-quorum", "3.7.2", "only KRaft from 3.9 on can add and remove voters"),
        ("tiered-new-leader", "3.3.2", "has no tiered storage"),
        ("tiered-new-leader", "3.7.2", "it has no remote.log.copy.disable"),
        ("old-timestamp", "0.9.0.1", "uses the files' modification times"),
        ("recreated-topic", "3.9.2-zk", "uses KRaft's way to delete topics"),
        ("bounded-timestamp", "3.3.2", "has no message.timestamp.before.max.ms"),
        ("added-partition-share", "4.1.2", "brokers enable share groups by default from 4.2 on"),
        ("added-partition-share", "3.9.2-zk", "brokers enable share groups by default from 4.2 on"),
    ],
)
def test_a_story_of_a_hazard_is_refused_where_it_has_no_meaning(
    story: str, kafka: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        check_plan(find_story(story).plan(kafka))


def test_a_plan_has_the_transactions_of_its_story_and_no_others() -> None:
    plan = find_story("torn-transaction").plan("4.4.0")
    calm = msgspec.structs.replace(plan.workload, transactions=False, idempotence=False)
    with pytest.raises(UsageError, match="needs transactions"):
        check_plan(msgspec.structs.replace(plan, workload=calm))
    other = msgspec.structs.replace(plan, story="loss")
    with pytest.raises(UsageError, match="transactions need producers"):
        check_plan(other)


@pytest.mark.parametrize("kafka", OLD)
def test_a_story_that_a_release_cannot_tell_is_refused(kafka: str) -> None:
    with pytest.raises(UsageError, match="more records than its leader exits"):
        check_plan(find_story("power-failure").plan(kafka))


def test_kraft_heeds_unclean_elections_since_3_9() -> None:
    deaf = {name for name, one in CATALOGUE.items() if not one.elects_unclean}
    assert all(
        release(name).coordination == "kraft" and release(name).number < (3, 9) for name in deaf
    )
    assert release("0.10.2.2").elects_unclean
    assert release("4.3.1").elects_unclean


@pytest.mark.parametrize("name", STORIES)
def test_every_story_can_be_asked_for_and_speaks_for_itself(name: str) -> None:
    story = STORIES[name]
    assert story.summary.endswith(".")
    assert story.outcome.endswith(".")
    kafka = "3.9.2-zk" if story.why_not(release("4.3.1")) else "4.3.1"
    for acks in ACKS:
        plan = story.plan(kafka, seed=7, acks=acks, unclean=True)
        if story.needs.waits_for_all and acks != "all":
            with pytest.raises(UsageError, match=r"needs acks=all|waits for all in-sync replicas"):
                check_plan(plan)
            continue
        check_plan(plan)
        assert (plan.workload.acks, plan.workload.producers, plan.seed) == (acks, 0, 7)
        assert plan.topic.unclean_leader_election
    assert story.plan(kafka, driver="docker").driver == "docker"


def test_three_warm_clusters_can_play_every_story() -> None:
    settings: dict[tuple[bool, bool], object] = {}
    for story in STORIES.values():
        needs, config = story.needs, story.plan("4.4.0").broker_config
        if not needs.spoils:
            assert settings.setdefault((needs.expiry, needs.group), config) == config
    assert len(settings) == 3


def verdict(word: Word, *anomalies: tuple[str, int | None, str | None]) -> Verdict:
    place: dict[str, Any] = {"topic": "events", "partition": 0, "sentence": "", "breaks": True}
    found = [
        Anomaly(kind=kind, offset=offset, value=value, **place) for kind, offset, value in anomalies
    ]
    return msgspec.structs.replace(judged.verdict(word), reasons=(), anomalies=tuple(found))


def stored(tmp_path: Path, plan: Plan) -> Run:
    return Store(tmp_path).create(plan, now=datetime.now(UTC))


def test_a_run_is_as_predicted_when_exactly_that_was_lost(tmp_path: Path) -> None:
    run = stored(tmp_path, find_story("divergence").plan("0.10.2.2"))
    lost, forked = ("lost-write", 3, "m3"), ("divergence", 3, None)
    assert as_predicted(run, verdict("invalid", lost, forked))
    assert not as_predicted(run, verdict("invalid", lost))
    assert not as_predicted(run, verdict("invalid", forked))
    assert not as_predicted(run, verdict("invalid", lost, forked, ("lost-write", 1, "m1")))
    assert not as_predicted(run, verdict("invalid", lost, ("divergence", 2, None)))
    assert not as_predicted(run, verdict("valid"))


def test_a_story_of_a_hazard_has_no_other_anomaly_that_breaks_a_promise(tmp_path: Path) -> None:
    run = stored(tmp_path, find_story("torn-transaction").plan("4.4.0"))
    torn = ("G1a", 5, "m3")
    assert as_predicted(run, verdict("invalid", torn))
    assert not as_predicted(run, verdict("valid"))
    assert not as_predicted(run, verdict("invalid", ("G1a", 3, "m2")))
    assert not as_predicted(run, verdict("invalid", torn, ("duplicate", 3, "m2")))
    assert not as_predicted(run, verdict("invalid", torn, ("lost-write", 3, "m2")))
    fenced = stored(tmp_path, find_story("fenced-transaction").plan("4.4.0"))
    assert as_predicted(fenced, verdict("valid"))
    assert not as_predicted(fenced, verdict("invalid", torn))


def test_without_an_offset_a_record_is_known_by_its_name(tmp_path: Path) -> None:
    run = stored(tmp_path, find_story("loss").plan("0.10.2.2", acks="0"))
    assert as_predicted(run, verdict("valid", ("lost-write", None, "m3")))


def test_a_missed_schedule_is_never_as_predicted(tmp_path: Path) -> None:
    run = stored(tmp_path, find_story("loss").plan("4.3.1"))
    assert as_predicted(run, verdict("valid"))
    assert as_predicted(run, verdict("unknown")) is False


def test_nothing_is_predicted_without_a_story(tmp_path: Path) -> None:
    run = stored(tmp_path, Plan(kafka="4.3.1", nemesis=("kill",), duration_s=5))
    assert as_predicted(run, verdict("valid")) is None


class Brokers:
    brokers = dict.fromkeys((1, 2, 3))


class Asked:
    """A probe of a cluster on which a broker comes back while one looks."""

    def __init__(self, controller: int) -> None:
        self._controller = controller
        self._live = iter([{1, 3}, {1, 2, 3}])

    def controller(self) -> int:
        return self._controller

    def live_brokers(self) -> set[int]:
        return next(self._live)


@pytest.mark.parametrize(("controller", "expected"), [(1, (2, 3, 4)), (3, (1, 2, 4))])
def test_a_controller_may_have_no_replica(
    controller: int, expected: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Brokers, "brokers", dict.fromkeys((1, 2, 3, 4)))
    monkeypatch.setattr(Asked, "live_brokers", lambda _: {1, 2, 3, 4})
    cluster, probe = cast("Cluster", Brokers()), cast("Probe", Asked(controller))
    assert find_story("missed-decisions").cast(cluster, probe) == expected


@pytest.mark.parametrize(
    ("story", "controller", "expected"),
    [
        ("loss", 1, (2, 3, 1)),
        ("loss", 2, (1, 3, 2)),
        ("loss", 3, (1, 2, 3)),
        ("unclean", 2, (2, 1, 3)),
        ("unclean", 100, (1, 2, 3)),
    ],
)
def test_the_controller_has_the_part_that_the_story_gives_it(
    story: str, controller: int, expected: tuple[int, int, int]
) -> None:
    cluster, probe = cast("Cluster", Brokers()), cast("Probe", Asked(controller))
    assert find_story(story).cast(cluster, probe) == expected


class Answered:
    """A client that is told no offset, and a probe that sees its record arrive a little later."""

    offset = None

    def __init__(self, outcome: str, *leos: int | None) -> None:
        self.outcome = outcome
        self._leos = list(leos)

    def send(self, value: str, partition: int, *, limit_s: float | None = None) -> "Answered":
        assert (value, partition, limit_s) == ("m3", 0, None)
        return self

    def replica(self, broker: int, topic: str, partition: int) -> ReplicaState:
        assert (broker, topic, partition) == (1, "events", 0)
        leo = self._leos.pop(0)
        if leo is None:
            raise UnreachableError("broker 1 does not answer")
        return ReplicaState(leo=leo, hw=0)


def context(both: Answered) -> ScheduleContext:
    plan = find_story("loss").plan("0.10.2.2", acks="0")
    return schedule_context(plan=plan, cluster=Brokers(), probe=both, client=both)


def test_a_record_that_nobody_acknowledges_is_looked_for_at_its_leader() -> None:
    assert context(Answered("ok", 3, 3, None, 4)).send("m3", leader=1) == 3


def test_a_record_that_is_refused_is_a_missed_schedule() -> None:
    with pytest.raises(
        ScheduleNotFollowedError, match="m3 must be acknowledged, but its outcome is info"
    ):
        context(Answered("info", 3)).send("m3", leader=1)
