"""Connections that a rule leads to another node."""

import contextlib
import socket

from highwater.clusters.relay.client import Relay
from highwater.clusters.relay.rules import RelayRule, Route
from tests.unit.clusters.relay.test_messages import CLIENT, METADATA, request
from tests.unit.clusters.relay.wire import SOON_S, read_frame

LOCAL = ("127.0.0.1", 0)
LINKS = frozenset([(CLIENT, 1)])


def test_new_connections_of_one_client_reach_another_broker_until_the_rule_ends() -> None:
    with contextlib.ExitStack() as ends:
        brokers = {number: socket.create_server(LOCAL) for number in (1, 2)}
        for listener in brokers.values():
            ends.enter_context(listener)
            listener.settimeout(SOON_S)
        relay = Relay(
            [
                Route(listen=LOCAL, upstream=listener.getsockname(), server=number, users="clients")
                for number, listener in brokers.items()
            ]
        )
        ends.callback(relay.close)

        def reached(name: bytes = b"producer-0") -> int:
            """Return the broker that gets a request on a new connection to broker 1."""
            frame = request(METADATA, 1, client=name)
            with socket.create_connection(relay.addresses[0], SOON_S) as client:
                client.sendall(frame)
                for number, listener in brokers.items():
                    listener.settimeout(0.2 if number == 1 else SOON_S)
                    try:
                        server, _ = listener.accept()
                    except TimeoutError:
                        continue
                    with server:
                        assert read_frame(server) == frame
                    return number
            raise AssertionError("no broker got the request")

        assert reached() == 1
        with relay.under(RelayRule(kind="misroute", links=LINKS, to=2)):
            assert reached() == 2
            assert reached(b"producer-1") == 1
        assert reached() == 1
