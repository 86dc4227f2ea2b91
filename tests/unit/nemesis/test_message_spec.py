"""Messages in words: what is read, and what is refused before a broker starts."""

import contextlib
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import COORDINATION
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.steps import FaultStep
from highwater.nemesis.context import ScheduleNotFollowedError
from highwater.nemesis.injector import Nemesis
from highwater.nemesis.message_spec import MessageSpec, read_option
from highwater.nemesis.schedules.cluster_needs import wired
from highwater.runtime.preflight import check_plan
from tests.support.schedule_contexts import NotedFaults, schedule_context

WIRED = Plan(kafka="4.3.1", wire_clients=True)


def held(message: str, *, action: str = "hold", kafka: str = "4.3.1", clients: bool = True) -> Plan:
    step = FaultStep(fault=f"{action}-message", message=message, at_s=1, lasts_s=2)
    return Plan(kafka=kafka, wire_clients=clients, steps=(step,))


def test_a_message_in_words_is_a_rule() -> None:
    text = "EndTxn client:producer-0>broker-2 n=3 times=2 transactional-id={topic}-tx epoch=1"
    assert MessageSpec.of(text).rule("hold", "events-7") == MessageRule(
        action="hold",
        api=APIS["EndTxn"].key,
        source="client:producer-0",
        target=2,
        first=3,
        times=2,
        transactional_id="events-7-tx",
        epoch=1,
    )


def test_a_message_to_refuse_has_an_error() -> None:
    spec = MessageSpec.of("Produce.answer *>client:producer-0 error=REQUEST_TIMED_OUT")
    spec.require("refuse", WIRED, release(WIRED.kafka))
    rule = spec.rule("refuse", "events-7")
    assert (rule.side, rule.error) == ("answer", 7)


def test_a_partition_is_of_the_topic_under_test_unless_another_is_named() -> None:
    own = MessageSpec.of("Fetch.answer broker-1>broker-2 partition=0").rule("hold", "events-7")
    assert (own.side, own.source, own.target) == ("answer", 1, 2)
    assert (own.topics, own.partition) == (frozenset(["events-7"]), 0)
    other = MessageSpec.of("Produce topic=others partition=0").rule("hold", "events-7")
    assert other.topics == frozenset(["others"])
    assert MessageSpec.of("any *>controller").rule("drop", "t").target == COORDINATION


def test_controllers_of_a_quorum_are_ends_by_their_ids() -> None:
    spec = MessageSpec.of("any controller-100>controller-102")
    rule = spec.rule("drop", "t")
    assert (rule.source, rule.target) == (100, 102)
    spec.require("drop", Plan(kafka="4.4.0", controllers=3), release("4.4.0"))
    for plan in (Plan(kafka="4.4.0"), Plan(kafka="2.8.2", controllers=3)):
        with pytest.raises(UsageError, match="controller-100"):
            spec.require("drop", plan, release(plan.kafka))


def test_the_option_has_the_times_of_a_step() -> None:
    step = read_option("delay Produce client:*>broker-1 by=500ms at=2s for=10s", until_s=30)
    assert step == FaultStep(
        fault="delay-message",
        at_s=2,
        lasts_s=10,
        message="Produce client:*>broker-1 by=500ms",
    )
    assert read_option("hold Fetch at=2s", until_s=30).lasts_s == 28  # until the run's end
    plan = msgspec.structs.replace(WIRED, steps=(step,))
    check_plan(plan)
    assert wired(plan)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (held("EndTxm"), "no message is called 'EndTxm'"),
        (held("EndTxn.reply"), "no message is called 'EndTxn.reply'"),
        (held("EndTxn", kafka="0.10.2.2"), "Kafka 0.10.2.2 has no EndTxn: it came with Kafka 0.11"),
        (held("AlterPartition", kafka="1.1.1"), "has no AlterPartition: it came with Kafka 2.7"),
        (held("LeaderAndIsr"), "has no LeaderAndIsr: brokers send it only with zookeeper"),
        (held("EndTxn topic=a"), "EndTxn has no topic"),
        (held("Metadata epoch=1"), "Metadata has no epoch"),
        (held("Fetch epoch=1", kafka="1.1.1"), "Fetch of Kafka 1.1.1 has no epoch: it came with"),
        (held("EndTxn transactional_id=a"), "no message has a property 'transactional_id'"),
        (held("EndTxn soon"), "'soon' does not describe a message"),
        (held("EndTxn n=0"), "n cannot be '0'"),
        (held("Produce partition=first"), "partition cannot be 'first'"),
        (held("EndTxn client:a>broker-9"), "no message is sent or received by 'broker-9'"),
        (held("EndTxn *>controller", kafka="2.8.2"), "no message is sent or received by 'contr"),
        (held("EndTxn client:*>*", clients=False), "clients do not connect through the relay"),
        (held("EndTxn.answer", action="repeat"), "a response cannot be repeated"),
        (held("EndTxn", action="delay"), "only delay needs a time"),
        (held("EndTxn by=2s"), "only delay needs a time"),
        (held("EndTxn", action="refuse"), "no broker returns no error for EndTxn before it acts"),
        (held("EndTxn error=NOT_COORDINATOR"), "only refuse uses an error"),
        (
            held("Produce error=NOT_ENOUGH_REPLICAS_AFTER_APPEND", action="refuse"),
            "no broker returns NOT_ENOUGH_REPLICAS_AFTER_APPEND for Produce before it acts",
        ),
        (
            held("Produce.answer error=CORRUPT_MESSAGE", action="refuse"),
            "no broker returns CORRUPT_MESSAGE for Produce after it has acted",
        ),
        (
            held("Produce error=THROTTLING_QUOTA_EXCEEDED", action="refuse"),
            "no broker returns THROTTLING_QUOTA_EXCEEDED for Produce",
        ),
        (
            held("Metadata error=NOT_COORDINATOR", action="refuse"),
            "no broker returns NOT_COORDINATOR for Metadata",
        ),
        (held(""), "no message is called ''"),
        (
            Plan(kafka="4.3.1", steps=(FaultStep(fault="kill", message="EndTxn", at_s=1),)),
            "kill does not affect messages",
        ),
        (
            Plan(kafka="4.3.1", nemesis=("hold-message",), duration_s=10),
            "a random schedule cannot have hold-message",
        ),
        (
            Plan(kafka="4.3.1", nemesis=("cut-client",), duration_s=10),
            "clients that connect through the relay",
        ),
        (
            msgspec.structs.replace(WIRED, nemesis=("cut-client@leader",), duration_s=10),
            "hits a client",
        ),
    ],
)
def test_bad_input_is_refused_before_a_broker_starts(plan: Plan, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("(", r"\(")) as refused:
        check_plan(plan)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["keep EndTxn", "EndTxn", "", "hold EndTxn for=0s", "hold"])
def test_an_option_that_says_no_message_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_option(text, until_s=30)


def test_a_client_is_named_or_drawn() -> None:
    plan = msgspec.structs.replace(
        WIRED, nemesis=("cut-client@producer-0", "lose-answers=2"), duration_s=10
    )
    check_plan(plan)
    assert wired(plan)


class Messages:
    """What the wire did, as a test has it."""

    def __init__(self, caught: int) -> None:
        self.caught = caught
        self.causes: list[str] = []

    def release(self, cause: str = "order") -> None:
        self.causes.append(cause)


def opened(caught: int) -> tuple[Messages, list[MessageRule], Cluster]:
    messages, rules = Messages(caught), list[MessageRule]()

    def catch(rule: MessageRule) -> Messages:
        rules.append(rule)
        return messages

    network = SimpleNamespace(catch=catch)
    return messages, rules, cast("Cluster", SimpleNamespace(brokers={1: None}, network=network))


@pytest.mark.parametrize("caught", [0, 1])
@pytest.mark.parametrize("outlasts", [False, True])
def test_a_hold_is_released_and_one_that_never_matched_is_missed(
    caught: int, *, outlasts: bool
) -> None:
    messages, rules, cluster = opened(caught)
    keeper = NotedFaults()
    nemesis = Nemesis(cluster, keeper, Topic(name="events-3"))
    nemesis.inject("hold-message", message="Produce partition=0")
    nemesis.inject("hold-message", message="Produce partition=1")  # several at a time
    assert not nemesis.can("hold-message", message="Produce partition=0")
    if outlasts:
        nemesis.heal_all()
    else:
        for partition in (0, 1):
            nemesis.heal_fault("hold-message", message=f"Produce partition={partition}")
    assert [rule.partition for rule in rules] == [0, 1]
    assert rules[0].topics == frozenset(["events-3"])
    assert messages.causes == ["healing" if outlasts else "schedule"] * 2
    assert [phase for _, phase, _ in keeper.rows] == ["inject", "inject", "heal", "heal"]
    missed = "no message was held: the relay saw no Produce partition=0"
    assert (missed in nemesis.missed) == (caught == 0)
    assert len(nemesis.missed) == (0 if caught else 2)


@pytest.mark.parametrize("caught", [0, 1])
def test_a_story_says_in_words_what_the_wire_is_to_do(caught: int) -> None:
    messages, rules, cluster = opened(caught)
    noted = NotedFaults()
    context = schedule_context(plan=WIRED, cluster=cluster, topic="events-3", fault_log=noted)
    missed = pytest.raises(
        ScheduleNotFollowedError, match="the relay saw no message for the rule: hold EndTxn"
    )
    with (
        contextlib.nullcontext() if caught else missed,
        context.intercept("hold EndTxn client:*>broker-1"),
    ):
        assert rules[0].source == "client:*"
    assert messages.causes == ["schedule"]
    assert noted.notes == [
        ("hold-message", "inject", None, "to be held: EndTxn client:*>broker-1"),
        ("hold-message", "heal", None, "no longer held: EndTxn client:*>broker-1"),
    ]
    with pytest.raises(UsageError), context.intercept("keep EndTxn"):
        pass
