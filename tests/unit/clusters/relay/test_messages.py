"""Rules for single messages, with sockets of our own at both ends of the wire."""

import contextlib
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from highwater.clusters.relay import kafka_frames
from highwater.clusters.relay.apis import APIS
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import RelayRule, out_of
from highwater.harness.base.waiting import await_condition
from tests.unit.clusters.relay.wire import SOON_S, Wire, is_silent, read_frame

BROKER = 1
CLIENT = "client:producer-0"
END_TXN, METADATA = APIS["EndTxn"].key, APIS["Metadata"].key


def request(api: int, correlation: int, body: bytes = b"", client: bytes = b"producer-0") -> bytes:
    head = struct.pack(">hhih", api, 0, correlation, len(client)) + client
    return struct.pack(">i", len(head) + len(body)) + head + body


def end_txn(correlation: int, name: bytes = b"tx", epoch: int = 0) -> bytes:
    body = struct.pack(">h", len(name)) + name + struct.pack(">qhb", 77, epoch, 1)
    return request(END_TXN, correlation, body)


def answer(correlation: int) -> bytes:
    return struct.pack(">ii", 6, correlation) + b"ok"


class Broker(Wire):
    """A server that a test plays itself: it accepts, reads frames and answers them."""

    def events(self, number: int) -> list[str]:
        return [row["event"] for row in self.relay.events(number)]

    def await_events(self, number: int, count: int) -> list[str]:
        """Return a rule's events when there are so many: the wire tells them a little late."""
        return await_condition(
            lambda: self.events(number),
            lambda events: len(events) >= count,
            what=f"the wire to report {count} events",
            limit_s=SOON_S,
        )

    def await_event(self, number: int, event: str) -> dict[str, Any]:
        rows = await_condition(
            lambda: [row for row in self.relay.events(number) if row["event"] == event],
            bool,
            what=f"the wire to report {event}",
            limit_s=SOON_S,
        )
        return rows[-1]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with contextlib.closing(Broker(users="clients")) as made:
        yield made


def test_a_held_request_waits_until_it_is_released_and_all_behind_it(broker: Broker) -> None:
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN, source=CLIENT))
    with broker.connect() as client:
        client.sendall(request(METADATA, 1) + end_txn(2) + request(METADATA, 3))
        server = broker.accept()
        assert read_frame(server) == request(METADATA, 1)
        server.sendall(answer(1))
        assert read_frame(client) == answer(1)  # answers go on
        assert is_silent(server)
        broker.relay.drop(held)
        assert read_frame(server) == end_txn(2)
        assert read_frame(server) == request(METADATA, 3)
        server.sendall(answer(2) + answer(3))
        assert read_frame(client) + read_frame(client) == answer(2) + answer(3)
        broker.await_event(held, "answered")
        server.close()
    assert broker.events(held) == ["caught", "released", "sent", "answered"]
    row = broker.relay.events(held)[0]
    seen = {name: row[name] for name in ("transactional_id", "producer_id", "epoch", "correlation")}
    assert seen == {"transactional_id": "tx", "producer_id": 77, "epoch": 0, "correlation": 2}
    assert (row["source"], row["target"], row["place"]) == (CLIENT, BROKER, 2)


def test_one_held_request_passes_and_the_rule_holds_the_next(broker: Broker) -> None:
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN, times=0))
    with broker.connect() as client:
        client.sendall(end_txn(1))
        broker.await_event(held, "caught")
        broker.relay.let_pass(held)
        server = broker.accept()
        assert read_frame(server) == end_txn(1)
        client.sendall(end_txn(2))
        await_condition(
            lambda: broker.events(held).count("caught"),
            lambda count: count == 2,
            what="the next request to be held",
            limit_s=SOON_S,
        )
        assert is_silent(server)
        broker.relay.let_pass(held, lose=True)
        assert server.recv(1) == b""  # its connection has ended without it
        assert client.recv(1) == b""
        server.close()
    assert broker.events(held) == ["caught", "released", "sent", "caught", "released", "dropped"]


def test_a_held_request_arrives_after_its_client_has_gone_and_nothing_behind_it(
    broker: Broker,
) -> None:
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN))
    with broker.connect() as client:
        client.sendall(request(METADATA, 1) + end_txn(2) + request(METADATA, 3))
        server = broker.accept()
        assert read_frame(server) == request(METADATA, 1)
    broker.await_event(held, "client-gone")
    with broker.connect() as later:  # another connection of the same client is not held up
        later.sendall(end_txn(4))
        other = broker.accept()
        assert read_frame(other) == end_txn(4)
        assert is_silent(server)
        broker.relay.drop(held)
        assert read_frame(server) == end_txn(2)
        server.sendall(answer(1) + answer(2))
        broker.await_event(held, "discarded")
        assert server.recv(1) == b""  # and the relay's end is closed, with nothing behind it sent
        other.close()
    assert broker.events(held) == ["caught", "client-gone", "released", "sent", "discarded"]
    server.close()


def test_a_held_request_is_lost_with_its_broker(broker: Broker) -> None:
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN))
    with broker.connect() as client:
        client.sendall(request(METADATA, 1) + end_txn(2))
        server = broker.accept()
        read_frame(server)
        server.close()
        broker.await_event(held, "lost")
        assert client.recv(1) == b""
    broker.relay.drop(held)
    assert broker.events(held) == ["caught", "lost"]


def test_a_request_is_held_that_is_the_first_of_its_connection(broker: Broker) -> None:
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN))
    with broker.connect() as client:
        client.sendall(end_txn(1))
    broker.await_event(held, "client-gone")
    broker.relay.drop(held)
    with broker.accept() as server:
        assert read_frame(server) == end_txn(1)


def test_the_nth_of_those_that_fit_is_held(broker: Broker) -> None:
    rule = MessageRule(
        action="hold", api=END_TXN, transactional_id="tx", epoch=5, first=2, source=CLIENT
    )
    held = broker.relay.catch(rule)
    with broker.connect() as client:
        passing = [
            end_txn(1, b"other", 5),
            end_txn(2, b"tx", 4),
            end_txn(3, b"tx", 5),
            request(METADATA, 4),
        ]
        client.sendall(b"".join(passing) + end_txn(5, b"tx", 5))
        with broker.accept() as server:
            assert [read_frame(server) for _ in passing] == passing
            assert is_silent(server)
            broker.relay.drop(held)
            assert read_frame(server) == end_txn(5, b"tx", 5)
            client.sendall(end_txn(6, b"tx", 5))
            assert read_frame(server) == end_txn(6, b"tx", 5)


def test_an_answer_is_held_and_all_behind_it(broker: Broker) -> None:
    rule = MessageRule(action="hold", api=END_TXN, side="answer", target=CLIENT)
    with broker.connect() as client:
        client.sendall(end_txn(1))  # it is under way when the rule is added
        with broker.accept() as server:
            read_frame(server)
            held = broker.relay.catch(rule)
            client.sendall(request(METADATA, 2))
            assert read_frame(server) == request(METADATA, 2)
            server.sendall(answer(1) + answer(2))
            assert is_silent(client)
            broker.relay.drop(held)
            assert read_frame(client) + read_frame(client) == answer(1) + answer(2)
    assert broker.events(held)[:3] == ["caught", "released", "sent"]


def test_a_held_answer_is_lost_with_its_client(broker: Broker) -> None:
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN, side="answer"))
    with broker.connect() as client:
        client.sendall(end_txn(1))
        server = broker.accept()
        read_frame(server)
        server.sendall(answer(1))
        broker.await_event(held, "caught")
    broker.await_event(held, "lost")
    assert server.recv(1) == b""
    server.close()


def test_a_dropped_request_never_arrives_and_its_connection_ends(broker: Broker) -> None:
    broker.relay.catch(MessageRule(action="drop", api=END_TXN))
    with broker.connect() as client:
        client.sendall(request(METADATA, 1) + end_txn(2) + request(METADATA, 3))
        with broker.accept() as server:
            assert read_frame(server) == request(METADATA, 1)
            assert server.recv(1) == b""
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_dropped_answer_never_arrives_though_its_request_did(broker: Broker) -> None:
    broker.relay.catch(MessageRule(action="drop", api=END_TXN, side="answer"))
    with broker.connect() as client, contextlib.closing(client):
        client.sendall(request(METADATA, 1) + end_txn(2))
        with broker.accept() as server:
            assert read_frame(server) + read_frame(server) == request(METADATA, 1) + end_txn(2)
            server.sendall(answer(1) + answer(2))
            assert read_frame(client) == answer(1)
            assert client.recv(1) == b""


def test_a_repeated_request_arrives_twice_and_is_answered_once(broker: Broker) -> None:
    rule = broker.relay.catch(MessageRule(action="repeat", api=END_TXN))
    with broker.connect() as client:
        client.sendall(end_txn(1))
        with broker.accept() as server, broker.accept() as copied:
            assert read_frame(server) == read_frame(copied) == end_txn(1)
            copied.sendall(answer(1))
            broker.await_event(rule, "discarded")
            assert copied.recv(1) == b""
            server.sendall(answer(1))
            assert read_frame(client) == answer(1)
            assert is_silent(client)
    assert sorted(broker.events(rule)) == ["answered", "caught", "discarded", "repeated", "sent"]


def test_delayed_requests_wait_for_their_time_each_and_outlive_their_client(
    broker: Broker,
) -> None:
    rule = MessageRule(action="delay", api=END_TXN, times=0, delay_s=0.4)
    number = broker.relay.catch(rule)
    with broker.connect() as client:
        began = time.monotonic()
        client.sendall(end_txn(1) + end_txn(2))
    with broker.accept() as server:
        assert read_frame(server) + read_frame(server) == end_txn(1) + end_txn(2)
    assert 0.4 <= time.monotonic() - began < SOON_S
    await_condition(
        lambda: [row["cause"] for row in broker.relay.events(number) if row["cause"]],
        lambda causes: causes == ["time", "time"],
        what="the wire to report that both were released by time",
        limit_s=SOON_S,
    )


LONG = request(METADATA, 1, bytes(range(250)) * 1200)


def test_a_long_request_is_held_too(broker: Broker) -> None:
    held = broker.relay.catch(MessageRule(action="hold", api=METADATA))
    with broker.connect() as client:
        client.sendall(end_txn(1) + LONG)
        with broker.accept() as server:
            assert read_frame(server) == end_txn(1)
            broker.await_event(held, "caught")
            assert is_silent(server)
            broker.relay.drop(held)
            assert read_frame(server) == LONG


@pytest.mark.parametrize("frame", [LONG, end_txn(1)], ids=["long", "short"])
def test_no_rule_misses_a_first_request_that_arrives_bit_by_bit(
    broker: Broker, frame: bytes
) -> None:
    """The wire knows the client only when it has read the request."""
    held = broker.relay.catch(MessageRule(action="hold", source=CLIENT))
    cut = RelayRule(kind="cut", links=out_of(CLIENT, [BROKER]))
    with broker.connect() as client, broker.relay.under(cut):
        client.sendall(frame[:30])
        server = broker.accept()
        assert is_silent(server)
        client.sendall(frame[30:])
        broker.await_event(held, "caught")
        broker.relay.drop(held)
        assert is_silent(server)  # it is still cut off
    assert read_frame(server) == frame
    server.close()


def test_what_waited_behind_a_message_in_hand_is_recorded(broker: Broker) -> None:
    rows: list[dict[str, Any]] = []
    broker.relay.watch(rows.append)
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN))
    with broker.connect() as client:
        client.sendall(end_txn(1) + request(METADATA, 2) + request(METADATA, 3))
        with broker.accept() as server:
            broker.await_event(held, "caught")
            assert is_silent(server)
            broker.relay.drop(held)
            for frame in (end_txn(1), request(METADATA, 2), request(METADATA, 3)):
                assert read_frame(server) == frame
    await_condition(
        lambda: [(row["event"], row["place"]) for row in rows if row["kind"] == "message"],
        lambda seen: seen[2:] == [("sent", 1), ("passed", 2), ("passed", 3)],
        what="all three to be recorded",
        limit_s=SOON_S,
    )


def test_recorded_frames_are_in_order_but_for_the_one_in_hand(broker: Broker) -> None:
    """Everything that passes while a message is in hand is recorded, with its place."""
    rows: list[dict[str, Any]] = []
    broker.relay.watch(rows.append)
    held = broker.relay.catch(MessageRule(action="hold", api=END_TXN))
    with broker.connect() as first, broker.connect() as second:
        first.sendall(request(METADATA, 1) + end_txn(2))
        with broker.accept() as one:
            read_frame(one)
            broker.await_event(held, "caught")
            numbers = range(1, 40)
            second.sendall(b"".join(request(METADATA, number) for number in numbers))
            with broker.accept() as other:
                for number in numbers:
                    assert read_frame(other) == request(METADATA, number)
                    other.sendall(answer(number))
                for number in numbers:
                    assert read_frame(second) == answer(number)
                broker.relay.drop(held)
                assert read_frame(one) == end_txn(2)
    broker.await_event(held, "sent")
    passed = [row for row in rows if row["kind"] == "message" and row["event"] == "passed"]
    for side in ("request", "answer"):
        places = [row["place"] for row in passed if row["side"] == side]
        assert places == list(numbers)
        assert [row["correlation"] for row in passed if row["side"] == side] == places


def test_a_client_is_cut_off_by_its_name_and_no_other(broker: Broker) -> None:
    rule = RelayRule(kind="cut", links=out_of(CLIENT, [BROKER]))
    with broker.relay.under(rule), broker.connect() as client, broker.connect() as other:
        client.sendall(request(METADATA, 1))
        other.sendall(request(METADATA, 2, client=b"producer-1"))
        with broker.accept() as server, broker.accept() as second:
            ends = {end: is_silent(end) for end in (server, second)}
            assert sorted(ends.values()) == [False, True]
            assert broker.relay.clients() == [CLIENT, "client:producer-1"]


def test_answers_to_all_clients_are_lost_while_their_requests_arrive(broker: Broker) -> None:
    rule = RelayRule(kind="cut", links=out_of(BROKER, ["client:*"]))
    with broker.connect() as client:
        with broker.relay.under(rule):
            client.sendall(request(METADATA, 1))
            server = broker.accept()
            assert read_frame(server) == request(METADATA, 1)
            server.sendall(answer(1))
            assert is_silent(client)
        assert read_frame(client) == answer(1)
        server.close()


def test_a_rule_survives_its_way_to_the_wire() -> None:
    rule = MessageRule(
        action="delay", api=0, source=CLIENT, topics=frozenset(["a"]), partition=2, delay_s=0.5
    )
    assert MessageRule.of(rule.plain()) == rule


def test_a_produce_without_an_acknowledgement_has_no_answer() -> None:
    for acks in (0, 1, -1):
        frame = request(kafka_frames.PRODUCE, 1, struct.pack(">hi", acks, 1000))
        assert kafka_frames.has_answer(frame, kafka_frames.header(frame)) == (acks != 0)
