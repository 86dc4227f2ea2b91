"""Clients on the wire, and single messages in hand, on real brokers of the oldest and newest API.

HIGHWATER_MESSAGES is how often each message is held (default: once), side by side where that can
be, for HIGHWATER_HELD_S seconds. docs/results.md has the figures of 20, each for 60 s.
"""

import contextlib
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from operator import gt
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.clusters.drivers import open_cluster
from highwater.clusters.relay.apis import APIS, api_name
from highwater.clusters.relay.messages import Action, MessageRule
from highwater.clusters.relay.network import CaughtMessages, Network
from highwater.clusters.relay.rules import ANY_BROKER, RelayRule, client_name, into, out_of
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults.registry import faults
from highwater.nemesis.injector import Nemesis
from tests.kafka.test_advise import READING, advise
from tests.support.java_clients import (
    BOOTSTRAP_SERVER,
    CONSUMER,
    PRODUCER,
    JavaClient,
    has_java_client,
    java_client,
    producer_arguments,
)
from tests.support.schedule_contexts import NotedFaults

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPIC: Final = "messages"
FETCHED: Final = "fetched"
SHRUNK: Final = "shrunk"
"""Its partition 0 is led by broker 1, and so on."""
LEADER, FOLLOWER, OTHER = 1, 2, 3
TIMES: Final = int(os.environ.get("HIGHWATER_MESSAGES", "1"))
HELD_S: Final = float(os.environ.get("HIGHWATER_HELD_S", "2"))
BROKERS: Final = 3 if TIMES == 1 else 5
"""A leader asks for one change of an ISR at a time, so as many are held side by side."""

LIMIT_S: Final = 60.0
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "15000",  # none ends because the machine is busy
    "broker.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "120000",
    "request.timeout.ms": "120000",  # after which a follower gives up, and its answer is lost
    "controller.socket.timeout.ms": "120000",  # after which a leader asks for its ISR anew
    "num.replica.fetchers": str(TIMES),  # so that so many answers are held side by side
}
PATIENCE_MS: Final = 120_000
"""A client with less gives up a request that is held for a minute."""


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

    def catch(self, action: Action, api: str, **more: Any) -> CaughtMessages:  # noqa: ANN401 - of a rule
        caught = self.network.catch(MessageRule(action=action, api=APIS[api].key, **more))
        assert isinstance(caught, CaughtMessages)
        return caught

    @contextlib.contextmanager
    def recorded(self) -> Iterator[list[dict[str, Any]]]:
        """Record what passes between the ends of messages in hand while the block lasts."""
        rows: list[dict[str, Any]] = []
        self.network.watch(rows.append)
        try:
            yield rows
        finally:
            self.network.watch(None)

    def await_count(self, value: str, count: int) -> None:
        """Markers of a transaction are written after its end is acknowledged."""
        self.await_counts({value: count})

    def await_counts(self, counts: dict[str, int]) -> None:
        await_condition(
            lambda: Counter(self.values()),
            lambda seen: all(seen[value] == count for value, count in counts.items()),
            what=f"values to be there so often: {counts}",
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


OLD: Final = (
    pytest.param("0.9.0.1", marks=pytest.mark.nightly),  # the oldest with clients on the wire
    pytest.param("0.11.0.2", marks=pytest.mark.nightly),  # the oldest with transactions
    pytest.param("2.8.0", marks=pytest.mark.nightly),  # the oldest with AlterPartition
)


@pytest.fixture(scope="module", params=[*OLD, MODERN])
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp(f"messages-{request.param}")
    with staged("local", request.param, directory) as opened:
        yield opened


@contextlib.contextmanager
def staged(driver: str, kafka: str, directory: Path) -> Iterator[Stage]:
    """Open a stage on a cluster of its own."""
    opened = open_cluster(
        release(kafka),
        directory,
        brokers=BROKERS,
        broker_config=SETTINGS,
        wired=True,
        clients_wired=True,
        driver=driver,
    )
    with contextlib.closing(opened):
        opened.create_topic(TOPIC, [[LEADER, FOLLOWER, OTHER]], {})
        opened.create_topic(FETCHED, [[LEADER, FOLLOWER, OTHER]] * TIMES, {})
        ring = [[(first + more) % BROKERS + 1 for more in range(3)] for first in range(BROKERS)]
        opened.create_topic(SHRUNK, ring, {})
        yield Stage(opened)


def await_held(*rules: CaughtMessages, count: int = 1) -> None:
    """Wait until each rule has messages in hand, and has kept them for as long as it is to."""
    for messages in rules:
        messages.await_event("caught", times=count, limit_s=LIMIT_S)
    until = time.monotonic() + HELD_S
    while time.monotonic() < until:
        assert not any(messages.events("sent", "lost") for messages in rules)
        time.sleep(0.05)


def times_in_hand_s(messages: CaughtMessages) -> list[float]:
    """Return for how long each message was in hand that went on."""
    caught = {row["message"]: row["time_ns"] for row in messages.events("caught")}
    return [(row["time_ns"] - caught[row["message"]]) / 1e9 for row in messages.events("sent")]


def report(stage: Stage, message: str, times_s: list[float]) -> None:
    """Print for how long messages were held; pytest shows it with -rP."""
    assert min(times_s) >= HELD_S
    span = f"{min(times_s):.1f} to {max(times_s):.1f} s"
    sys.stdout.write(f"{stage.cluster.release.name} {message}: {len(times_s)} held, {span}\n")


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


class Writer:
    """A producer, within a transaction if its release has these."""

    def __init__(self, stage: Stage) -> None:
        self.name = stage.name()
        self._has_transactions = has_transactions(stage)
        if self._has_transactions:
            settings = stage.settings(
                self.name,
                socket_timeout_ms=PATIENCE_MS,
                transactional_id=self.name,
                transaction_timeout_ms=3 * PATIENCE_MS,
            )
            self.producer = Producer(settings)
            self.producer.init_transactions(LIMIT_S)
            self.producer.begin_transaction()
        else:
            settings = stage.settings(
                self.name, socket_timeout_ms=PATIENCE_MS, enable_idempotence=False
            )
            self.producer = Producer(settings)

    def send(self, value: str) -> None:
        self.producer.produce(TOPIC, value.encode(), partition=0)
        self.producer.poll(0.05)  # for longer than linger.ms, so that each is a request

    def ask(self, api: str) -> None:
        """Send a record, and what belongs to it up to such a request."""
        self.send(self.name)
        if api == "EndTxn":
            assert self.producer.flush(LIMIT_S) == 0
            with pytest.raises(KafkaException):
                self.producer.commit_transaction(0.1)

    def finish(self) -> None:
        if self._has_transactions:
            self.producer.commit_transaction(LIMIT_S)
        assert self.producer.flush(LIMIT_S) == 0


def has_transactions(stage: Stage) -> bool:
    return stage.cluster.release.number >= APIS["EndTxn"].since


@pytest.mark.parametrize("api", ["Produce", "AddPartitionsToTxn", "EndTxn"])
def test_requests_of_clients_are_held(stage: Stage, api: str) -> None:
    if api != "Produce" and not has_transactions(stage):
        pytest.skip("transactions came with 0.11")
    with stage.recorded() as rows:
        writers = [Writer(stage) for _ in range(TIMES)]
        rules = [stage.catch("hold", api, source=client_name(writer.name)) for writer in writers]
        for writer, messages in zip(writers, rules, strict=True):
            writer.ask(api)
            messages.await_event("caught", limit_s=LIMIT_S)
        if api == "Produce":
            for writer, number in itertools.product(writers, range(3)):
                writer.send(f"{writer.name}-{number}")  # it waits behind the first
        await_held(*rules)
        for messages in rules:
            messages.release()
        for writer in writers:
            writer.finish()
        for messages in rules:
            messages.await_event("answered", limit_s=LIMIT_S)
    for writer, messages in zip(writers, rules, strict=True):
        _is_alone_and_in_order(messages, writer.name, rows, behind=api == "Produce")
    report(stage, api, [held_s for messages in rules for held_s in times_in_hand_s(messages)])
    stage.await_counts({writer.name: 1 for writer in writers})


def _is_alone_and_in_order(
    messages: CaughtMessages, name: str, rows: list[dict[str, Any]], *, behind: bool
) -> None:
    """Assert that exactly one message was held, and that its connection has kept its order."""
    assert [row["event"] for row in messages.events()] == ["caught", "released", "sent", "answered"]
    [sent] = messages.events("sent")
    assert sent["source"] == client_name(name)
    assert sent["transactional_id"] in {name, None}
    assert in_order(rows)
    followed = [
        row["place"]
        for row in rows
        if row["kind"] == "message"
        and (row["event"], row["side"]) == ("passed", "request")
        and row["connection"] == sent["connection"]
        and row["time_ns"] > sent["time_ns"]
    ]
    assert not behind or followed[0] == sent["place"] + 1


@pytest.mark.parametrize("time_", range(TIMES))
def test_a_produce_arrives_though_its_client_has_gone(stage: Stage, time_: int) -> None:
    _orphan(stage, time_)


@pytest.mark.docker
@pytest.mark.nightly
@pytest.mark.usefixtures("docker")
def test_clients_of_containers_pass_the_wire_too(tmp_path: Path) -> None:
    with staged("docker", MODERN, tmp_path) as stage:
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
    await_held(held)
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
    "refuse-requests": ("", True, 0.1, 1),
    "misroute-client": ("", False, 0.0, 1),
    "hold-message": ("Produce client:{name}>broker-1 partition=0", False, 0.0, 1),
    "delay-message": ("Produce client:{name}>* by=800ms", True, 0.8, 1),
    "repeat-message": ("Produce client:{name}>* topic={topic}", True, 0.0, 2),
    "drop-message": ("Produce.answer broker-1>client:{name}", True, 0.0, 2),
    "refuse-message": ("Produce.answer *>client:{name} error=NOT_LEADER_OR_FOLLOWER", True, 0.0, 2),
}


CHOICE: Final = 0.9
"""With it ``misroute-client`` hits broker 1, and ``refuse-requests`` the next Produce, twice."""


def test_every_fault_of_clients_and_messages_is_tested() -> None:
    families = {"clients", "messages"}
    assert set(FAULTS) == {one.name for one in faults().values() if one.family in families}


@pytest.mark.parametrize("stage", [*OLD, MODERN], indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_takes_effect_and_heals(stage: Stage, fault: str) -> None:
    message, answered, least_s, count = FAULTS[fault]
    name = stage.name()
    value = f"{fault}-{name}"
    producer = Producer(stage.settings(name, enable_idempotence=False))
    producer.produce(TOPIC, b"first", partition=0)
    assert producer.flush(LIMIT_S) == 0  # so that it is connected to the leader
    nemesis = Nemesis(stage.cluster, NotedFaults(), Topic(name=TOPIC))
    words = message.replace("{name}", name)
    nemesis.inject(fault, client=name, message=words, choice=CHOICE)
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


def _java_producer(
    stage: Stage, folder: Path, *more: str, records: int = 1, rate: int = 100
) -> tuple[str, AbstractContextManager[JavaClient]]:
    """Return a name, and a Java producer of that name that sends its name so often."""
    if not has_java_client(stage.cluster.release):
        pytest.skip("no Java client of this release is locked")
    name = f"java-{stage.name()}"
    payload = folder / "payload"
    payload.write_text(name)
    arguments = producer_arguments(
        stage.cluster.bootstrap, name, TOPIC, payload, records=records, rate=rate
    )
    client = java_client(stage.cluster.release, PRODUCER, [*arguments, *more], folder / name)
    return name, client


def test_requests_of_a_java_client_are_held(stage: Stage, tmp_path: Path) -> None:
    """Its record is there when both its Produce and its EndTxn have been released."""
    id_ = stage.name()
    transaction = ("--transactional-id", id_, "--transaction-duration-ms", "60000")
    name, producer = _java_producer(stage, tmp_path, *transaction)
    rules = [
        stage.catch("hold", api, source=client_name(name), transactional_id=id_)
        for api in ("Produce", "EndTxn")
    ]
    with stage.recorded() as rows, producer as client:
        for messages in rules:
            await_held(messages)
            assert name not in stage.values()
            messages.release()
        client.await_end(LIMIT_S)
    for messages in rules:
        events = [row["event"] for row in messages.events()]
        assert events == ["caught", "released", "sent", "answered"]
    assert in_order(rows)
    stage.await_count(name, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["answers", "requests"])
def test_a_java_client_is_cut_off(stage: Stage, tmp_path: Path, way: str) -> None:
    """At most the one request under way arrives, and all of them when it is connected again."""
    count = 20
    name, producer = _java_producer(stage, tmp_path, records=count, rate=1)
    client, brokers = client_name(name), stage.network.brokers
    links = into(client, brokers) if way == "answers" else out_of(client, brokers)
    with producer as java:
        await_condition(
            lambda: stage.values().count(name),
            lambda count: count > 0,
            what="the first record to arrive",
            limit_s=LIMIT_S,
        )
        assert name in stage.network.clients()
        with stage.network.under(RelayRule(kind="cut", links=links)):
            arrived = stage.values().count(name)
            until = time.monotonic() + 3 * HELD_S
            while time.monotonic() < until:
                assert stage.values().count(name) <= arrived + (way == "answers")
            assert java.runs
        java.await_end(LIMIT_S)
    stage.await_count(name, count)


@pytest.mark.nightly
def test_an_answer_to_a_java_consumer_is_held(stage: Stage, tmp_path: Path) -> None:
    release_ = stage.cluster.release
    if not has_java_client(release_):
        pytest.skip("no Java client of this release is locked")
    group = f"java-{stage.name()}"
    servers = "--bootstrap-server" if release_.number >= BOOTSTRAP_SERVER else "--broker-list"
    arguments = [servers, stage.cluster.bootstrap, "--topic", TOPIC, "--group-id", group]
    arguments += ["--reset-policy", "earliest", "--verbose"]
    with java_client(release_, CONSUMER, arguments, tmp_path / group) as java:

        def await_value(value: str) -> None:
            await_condition(
                lambda: java.output.read_text("utf-8"),
                lambda text: f'"{value}"' in text,
                what=f"the consumer to print {value}",
                limit_s=LIMIT_S,
            )

        producer = Writer(stage)
        producer.send(producer.name)
        producer.finish()
        await_value(producer.name)
        [name] = [each for each in stage.network.clients() if each.startswith("consumer-")]
        messages = stage.catch(
            "hold", "Fetch", side="answer", source=LEADER, target=client_name(name)
        )
        messages.await_event("caught", limit_s=LIMIT_S)
        late = Writer(stage)
        late.send(late.name)
        late.finish()
        await_held(messages)
        assert late.name not in java.output.read_text("utf-8")
        messages.release()
        await_value(late.name)
    assert [row["event"] for row in messages.events()] == ["caught", "released", "sent"]


def test_answers_to_fetches_are_held(stage: Stage) -> None:
    """Each on the connection of one of a follower's fetchers, which fetches one partition."""
    with stage.recorded() as rows, contextlib.closing(stage.cluster.probe()) as probe:
        messages = stage.catch(
            "hold", "Fetch", side="answer", source=LEADER, target=FOLLOWER, times=TIMES
        )
        messages.await_event("caught", times=TIMES, limit_s=LIMIT_S)
        producer = Producer(stage.settings(stage.name(), acks=1))
        for partition in range(TIMES):
            producer.produce(FETCHED, b"record", partition=partition)
        assert producer.flush(LIMIT_S) == 0

        def leos() -> list[list[int]]:
            return [
                [probe.replica(broker, FETCHED, partition).leo for partition in range(TIMES)]
                for broker in (LEADER, FOLLOWER, OTHER)
            ]

        def await_leos(are_there: Callable[[list[list[int]]], bool], what: str) -> None:
            passing = (UnreachableError,)
            await_condition(leos, are_there, what=what, limit_s=LIMIT_S, passing=passing)

        await_leos(
            lambda seen: seen[0] == seen[2] and all(map(gt, seen[0], seen[1])),
            "the follower to lack the records",
        )
        await_held(messages, count=TIMES)
        lacking = leos()
        assert all(map(gt, lacking[0], lacking[1]))
        messages.release()
        await_leos(lambda seen: seen[0] == seen[1], "the follower to get the records")
    events = Counter(row["event"] for row in messages.events())
    assert events == dict.fromkeys(("caught", "released", "sent"), TIMES)
    assert len({row["connection"] for row in messages.events("sent")}) == TIMES
    assert in_order(rows)
    report(stage, "Fetch answer", times_in_hand_s(messages))


def test_changes_of_an_isr_are_held(stage: Stage) -> None:
    if stage.cluster.release.number < APIS["AlterPartition"].since:
        pytest.skip("leaders write ISRs to ZooKeeper; hold-isr holds that")
    times_s: list[float] = []
    with contextlib.closing(stage.cluster.probe()) as probe:
        while len(times_s) < TIMES:
            leaders = range(1, 1 + min(BROKERS, TIMES - len(times_s)))
            times_s += _hold_isr_changes(stage, probe, leaders)
    report(stage, "AlterPartition", times_s)


def _hold_isr_changes(stage: Stage, probe: Probe, leaders: Collection[int]) -> list[float]:
    """Hold a change of each leader's partition; return for how long."""

    def isrs() -> list[int]:
        return [len(probe.partition(SHRUNK, leader - 1).isr) for leader in leaders]

    def await_isrs(*counts: int) -> None:
        await_condition(
            isrs,
            lambda seen: set(seen) <= set(counts),
            what=f"ISRs of {counts}",
            limit_s=LIMIT_S,
            passing=(UnreachableError,),
        )

    await_isrs(3)
    topics = frozenset([SHRUNK])
    with stage.recorded() as rows:
        rules = [
            stage.catch("hold", "AlterPartition", source=leader, topics=topics)
            for leader in leaders
        ]
        fetches = stage.catch(
            "hold", "Fetch", side="answer", source=ANY_BROKER, target=ANY_BROKER, times=0
        )
        try:
            producer = Producer(stage.settings(stage.name(), acks=1))
            for leader in leaders:
                producer.produce(SHRUNK, b"isr", partition=leader - 1)
            assert producer.flush(LIMIT_S) == 0
            await_held(*rules)
            await_isrs(3)
            for messages in rules:
                messages.release()
                messages.await_event("answered", limit_s=LIMIT_S)
            await_isrs(1, 2)
        finally:
            fetches.release()
        await_isrs(3)
    for messages in rules:
        events = [row["event"] for row in messages.events()]
        assert events == ["caught", "released", "sent", "answered"]
    assert in_order(rows)
    return [held_s for messages in rules for held_s in times_in_hand_s(messages)]


@pytest.mark.parametrize("stage", [MODERN], indirect=True)
def test_advice_passes_the_wire_in_requests_that_only_read(stage: Stage) -> None:
    """What the wire has seen of it is what it says itself, and nothing that changes a cluster.

    Controllers are not on the clients' wire, and are asked for a setting of their own.
    """
    every = MessageRule(action="delay", source=client_name("highwater-probe"), times=0)
    seen = stage.network.catch(every)
    code, document, errors = advise(stage.cluster.bootstrap, "--acks", "all")
    seen.release()
    assert code == 1, errors
    requests = Counter(f"{api_name(row['api'])}Request" for row in seen.events("caught"))
    assert not requests - Counter(document["requests"])
    unseen = Counter(document["requests"]) - requests
    assert set(unseen) <= {"ApiVersionsRequest", "DescribeConfigsRequest"}
    assert set(requests) == {*READING, "DescribeQuorumRequest"}
