"""Clients on the wire, and single messages in hand, on real brokers of the oldest and newest API.

HIGHWATER_MESSAGES is how often each message is held (default: once), for HIGHWATER_HELD_S seconds.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from highwater.clusters.core.interfaces import Cluster, Driver, Network, UnreachableError
from highwater.clusters.drivers import DRIVERS
from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.messages import Action, MessageRule
from highwater.clusters.relay.network import RelayMessages
from highwater.clusters.relay.rules import COORDINATION, RelayRule, client_name, into
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults.registry import faults
from highwater.nemesis.injector import Nemesis

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPIC: Final = "messages"
LEADER, FOLLOWER, OTHER = 1, 2, 3
TIMES: Final = int(os.environ.get("HIGHWATER_MESSAGES", "1"))
HELD_S: Final = float(os.environ.get("HIGHWATER_HELD_S", "2"))
LIMIT_S: Final = 60.0
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "15000",  # none ends because the machine is busy
    "broker.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "120000",
    "request.timeout.ms": "120000",  # after which a follower gives up, and its answer is lost
}


class Stage:
    """A cluster with clients on the wire, and a topic that broker 1 leads."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.network is not None
        self.cluster = cluster
        self.network: Network = cluster.network
        self.clients = 0

    def settings(self, name: str, **more: object) -> dict[str, Any]:
        return {
            **self.cluster.release.client,
            "bootstrap.servers": self.cluster.bootstrap,
            "client.id": name,
            "broker.address.family": "v4",
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def name(self) -> str:
        self.clients += 1
        return f"c{self.clients}"

    def catch(self, action: Action, api: str, **more: Any) -> RelayMessages:  # noqa: ANN401 - of a rule
        caught = self.network.catch(MessageRule(action=action, api=APIS[api].key, **more))
        assert isinstance(caught, RelayMessages)
        return caught

    def await_count(self, value: str, count: int) -> None:
        """Markers of a transaction are written after its end is acknowledged."""
        await_condition(
            lambda: self.values().count(value),
            lambda seen: seen == count,
            what=f"{value} to be there {count} times",
            limit_s=LIMIT_S,
        )

    def values(self) -> list[str]:
        """Everything committed in the topic, read directly and not through the wire."""
        direct = ",".join(one.address for one in self.cluster.brokers.values())
        settings = self.settings("reader", group_id="r", enable_partition_eof=True)
        reader = Consumer({**settings, "bootstrap.servers": direct})
        values: list[str] = []
        with contextlib.closing(reader):
            reader.assign([TopicPartition(TOPIC, 0, 0)])
            while (message := reader.poll(LIMIT_S)) is not None:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    break
                if error is not None:
                    continue
                values.append((message.value() or b"").decode())
        return values


@pytest.fixture(scope="module", params=["0.11.0.3", MODERN])
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp(f"messages-{request.param}")
    with staged(DRIVERS["local"], request.param, directory) as opened:
        yield opened


@contextlib.contextmanager
def staged(driver: Driver, kafka: str, directory: Path) -> Iterator[Stage]:
    """Open a stage on a cluster of its own."""
    opened = driver(
        release(kafka),
        directory,
        brokers=3,
        broker_config=SETTINGS,
        wired=True,
        clients_wired=True,
    )
    with contextlib.closing(opened):
        opened.create_topic(TOPIC, [[LEADER, FOLLOWER, OTHER]], {})
        yield Stage(opened)


def holds(messages: RelayMessages, since: float) -> None:
    """Nothing of it passes for as long as it is to be held."""
    while time.monotonic() - since < HELD_S:
        assert not messages.events("sent")
        time.sleep(0.05)


def in_order(rows: list[dict[str, Any]]) -> bool:
    """Whether all that passed is in the order in which it came, on every connection."""
    last: dict[tuple[int, str], int] = {}
    for row in rows:
        if row["kind"] != "message" or row["event"] not in {"passed", "sent"}:
            continue
        way = row["connection"], row["side"]
        if row["place"] <= last.get(way, 0):
            return False
        last[way] = row["place"]
    return True


@pytest.mark.parametrize("time_", range(TIMES))
@pytest.mark.parametrize("api", ["Produce", "AddPartitionsToTxn", "EndTxn"])
def test_a_message_of_a_transaction_is_held(stage: Stage, api: str, time_: int) -> None:
    name, value = stage.name(), f"{api}-{time_}"
    rows: list[dict[str, Any]] = []
    stage.network.watch(rows.append)
    producer = Producer(stage.settings(name, transactional_id=name))
    producer.init_transactions(LIMIT_S)
    held = stage.catch("hold", api, source=client_name(name), transactional_id=name)
    producer.begin_transaction()
    producer.produce(TOPIC, value.encode(), partition=0)
    if api == "EndTxn":
        producer.flush(LIMIT_S)
        with pytest.raises(KafkaException):
            producer.commit_transaction(0.1)
    held.await_event("caught", limit_s=LIMIT_S)
    began = time.monotonic()
    holds(held, began)
    held.release()
    producer.commit_transaction(LIMIT_S)
    held.await_event("answered", limit_s=LIMIT_S)
    assert [row["event"] for row in held.events()] == ["caught", "released", "sent", "answered"]
    [row] = held.events("sent")
    assert row["time_ns"] - held.events("caught")[0]["time_ns"] >= HELD_S * 1e9
    assert (row["transactional_id"], row["source"]) == (name, client_name(name))
    stage.network.watch(None)
    assert in_order(rows)
    stage.await_count(value, 1)


@pytest.mark.parametrize("time_", range(TIMES))
def test_a_produce_arrives_though_its_client_has_gone(stage: Stage, time_: int) -> None:
    _orphan(stage, time_)


@pytest.mark.docker
@pytest.mark.nightly
@pytest.mark.usefixtures("docker")
def test_clients_of_containers_pass_the_wire_too(tmp_path: Path) -> None:
    with staged(DRIVERS["docker"], MODERN, tmp_path) as stage:
        _orphan(stage, 0)


def _orphan(stage: Stage, time_: int) -> None:
    """Hold a request, end its client, and see the request arrive when it is released."""
    name, value = stage.name(), f"orphan-{time_}"
    producer = Producer(stage.settings(name, retries=0, enable_idempotence=False))
    producer.list_topics(TOPIC, timeout=LIMIT_S)
    held = stage.catch("hold", "Produce", source=client_name(name))
    producer.produce(TOPIC, value.encode(), partition=0)
    producer.poll(0)
    held.await_event("caught", limit_s=LIMIT_S)
    producer.purge()
    del producer  # which ends it, and its connections
    held.await_event("client-gone", limit_s=LIMIT_S)
    assert value not in stage.values()
    began = time.monotonic()
    holds(held, began)
    held.release()
    held.await_event("discarded", limit_s=LIMIT_S)
    stage.await_count(value, 1)


@pytest.mark.parametrize("time_", range(TIMES))
@pytest.mark.parametrize("action", ["repeat", "drop"])
def test_a_produce_arrives_twice(stage: Stage, action: Action, time_: int) -> None:
    """By the wire, or because a client whose acknowledgement is lost tries again."""
    name, value = stage.name(), f"{action}-{time_}"
    producer = Producer(stage.settings(name, enable_idempotence=False))
    producer.list_topics(TOPIC, timeout=LIMIT_S)
    side = {"side": "answer", "target": client_name(name)}
    ends = {"source": client_name(name)} if action == "repeat" else side
    caught = stage.catch(action, "Produce", **ends)
    producer.produce(TOPIC, value.encode(), partition=0)
    assert producer.flush(LIMIT_S) == 0
    caught.await_event("discarded" if action == "repeat" else "dropped", limit_s=LIMIT_S)
    caught.release()
    stage.await_count(value, 2)


def test_requests_arrive_while_their_answers_are_lost(stage: Stage) -> None:
    name = stage.name()
    producer = Producer(stage.settings(name, enable_idempotence=False))
    producer.produce(TOPIC, b"first", partition=0)
    assert producer.flush(LIMIT_S) == 0  # so that it is connected to the leader
    assert name in stage.network.clients()
    lost = RelayRule(kind="cut", links=into(client_name(name), stage.network.brokers))
    with stage.network.under(lost):
        producer.produce(TOPIC, name.encode(), partition=0)
        producer.poll(0)
        await_condition(
            lambda: stage.values().count(name),
            lambda count: count == 1,
            what="the record to arrive",
            limit_s=LIMIT_S,
        )
        assert producer.flush(0.5) == 1
    assert producer.flush(LIMIT_S) == 0


FAULTS: Final = {
    # fault: the message in words; whether an answer comes; least seconds to it; records in the end
    "cut-client": ("", False, 0.0, 1),
    "lose-answers": ("", False, 0.0, 1),
    "slow-client": ("", True, 0.2, 1),
    "delay-requests": ("", True, 0.5, 1),
    "repeat-requests": ("", True, 0.0, 2),
    "hold-message": ("Produce client:{name}>broker-1 partition=0", False, 0.0, 1),
    "delay-message": ("Produce client:{name}>* by=800ms", True, 0.8, 1),
    "repeat-message": ("Produce client:{name}>* topic={topic}", True, 0.0, 2),
    "drop-message": ("Produce.answer broker-1>client:{name}", True, 0.0, 2),
}


class Scribe:
    def fault(
        self, name: str, phase: str, says: str, broker: int | None = None, **fields: object
    ) -> None:
        del name, phase, broker, fields
        assert says


def test_every_fault_of_clients_and_messages_is_tested() -> None:
    families = {"clients", "messages"}
    assert set(FAULTS) == {one.name for one in faults().values() if one.family in families}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_takes_effect_and_heals(stage: Stage, fault: str) -> None:
    message, answered, least_s, count = FAULTS[fault]
    name = stage.name()
    value = f"{fault}-{name}"
    producer = Producer(stage.settings(name, enable_idempotence=False))
    producer.produce(TOPIC, b"first", partition=0)
    assert producer.flush(LIMIT_S) == 0  # so that it is connected to the leader
    nemesis = Nemesis(stage.cluster, Scribe(), Topic(name=TOPIC))
    words = message.replace("{name}", name)
    nemesis.inject(fault, client=name, message=words)
    began = time.monotonic()
    producer.produce(TOPIC, value.encode(), partition=0)
    if answered:
        assert producer.flush(LIMIT_S) == 0
        assert time.monotonic() - began >= least_s
    else:
        assert producer.flush(1.0) == 1
        if fault == "lose-answers":
            stage.await_count(value, 1)
        else:
            assert value not in stage.values()
    if fault == "repeat-requests":  # the copy is on a connection of its own
        stage.await_count(value, count)
    nemesis.heal_all()
    assert producer.flush(LIMIT_S) == 0
    stage.await_count(value, count)
    assert nemesis.missed == []


@pytest.mark.parametrize("time_", range(TIMES))
def test_an_answer_to_a_fetch_is_held(stage: Stage, time_: int) -> None:
    held = stage.catch(
        "hold",
        "Fetch",
        side="answer",
        source=LEADER,
        target=FOLLOWER,
        topics=frozenset([TOPIC]) if stage.cluster.release.number < (2, 0) else frozenset(),
    )
    held.await_event("caught", limit_s=LIMIT_S)
    producer = Producer(stage.settings(stage.name(), acks=1))
    producer.produce(TOPIC, f"fetch-{time_}".encode(), partition=0)
    assert producer.flush(LIMIT_S) == 0
    with contextlib.closing(stage.cluster.probe()) as probe:

        def leos() -> list[int]:
            return [probe.replica(broker, TOPIC, 0).leo for broker in (LEADER, FOLLOWER, OTHER)]

        passing = (UnreachableError,)
        await_condition(
            leos,
            lambda seen: seen[0] == seen[2] > seen[1],
            what="the follower to lack the record",
            limit_s=LIMIT_S,
            passing=passing,
        )
        holds(held, time.monotonic())
        held.release()
        await_condition(
            leos,
            lambda seen: len(set(seen)) == 1,
            what="the follower to get the record",
            limit_s=LIMIT_S,
            passing=passing,
        )
    names = [row["event"] for row in held.events()]
    assert names == ["caught", "released", "sent"]


@pytest.mark.parametrize("time_", range(TIMES))
def test_a_change_of_an_isr_is_held(stage: Stage, time_: int) -> None:
    del time_
    if stage.cluster.release.number < APIS["AlterPartition"].since:
        pytest.skip("leaders write ISRs to ZooKeeper; hold-isr holds that")
    with contextlib.closing(stage.cluster.probe()) as probe:

        def members() -> int:
            return len(probe.partition(TOPIC, 0).isr)

        def await_members(count: int) -> None:
            await_condition(
                members,
                lambda seen: seen == count,
                what=f"an ISR of {count}",
                limit_s=LIMIT_S,
                passing=(UnreachableError,),
            )

        await_members(3)
        held = stage.catch("hold", "AlterPartition", source=LEADER, target=COORDINATION)
        stage.cluster.brokers[FOLLOWER].pause()
        try:
            producer = Producer(stage.settings(stage.name(), acks=1))
            producer.produce(TOPIC, b"isr", partition=0)
            assert producer.flush(LIMIT_S) == 0
            held.await_event("caught", limit_s=LIMIT_S)
            holds(held, time.monotonic())
            held.release()
            await_members(2)
        finally:
            stage.cluster.brokers[FOLLOWER].resume()
        await_members(3)
    assert held.events("sent")
