"""The wire's process, with sockets of our own at both ends: what passes, waits, and ends."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from highwater.clusters.relay import kafka_frames
from highwater.clusters.relay.client import Relay
from highwater.clusters.relay.rules import COORDINATION, RelayRule, Route, between
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from tests.support.processes import GONE, status_of
from tests.unit.clusters.relay.test_kafka_frames import answer, named, request
from tests.unit.clusters.relay.wire import SOON_S, Wire, is_silent, read_frame

ASKS, ANSWERS = 2, 1
LINKS = between([ASKS], [ANSWERS])


def frame(text: bytes) -> bytes:
    """A request of broker 2 that is no Fetch, with something after its header."""
    body = struct.pack(">hhih", 52, 0, 1, 1) + b"2" + text
    return struct.pack(">i", len(body)) + body


class Echo(Wire):
    """Answers each frame with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.listener.settimeout(None)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=(end,), daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with contextlib.suppress(EOFError, OSError), end:
            while True:
                end.sendall(read_frame(end))


@pytest.fixture
def echo() -> Iterator[Echo]:
    with contextlib.closing(Echo()) as made:
        yield made


@pytest.fixture
def client(echo: Echo) -> socket.socket:
    end = echo.connect()
    assert asked(end, b"who I am") == frame(b"who I am")
    return end


def asked(end: socket.socket, text: bytes) -> bytes:
    end.sendall(frame(text))
    return read_frame(end)


@pytest.mark.parametrize("size", [0, 1, 65_536, 5_000_000])
def test_frames_of_any_size_come_back_whole(client: socket.socket, size: int) -> None:
    wanted = frame(os.urandom(size)) + frame(b"the next")
    threading.Thread(target=client.sendall, args=(wanted,)).start()
    found = b""
    while len(found) < len(wanted):
        found += client.recv(1 << 20)
    assert found == wanted


@pytest.mark.parametrize("link", sorted(LINKS))
def test_what_a_cut_link_keeps_back_arrives_when_it_is_healed(
    echo: Echo, client: socket.socket, link: tuple[int, int]
) -> None:
    with echo.relay.under(RelayRule(kind="cut", links=frozenset([link]))):
        client.sendall(frame(b"late"))
        assert is_silent(client)
        with echo.connect() as other:
            other.sendall(frame(b"another"))
            assert is_silent(other)
    assert read_frame(client) == frame(b"late")


def test_links_of_others_are_not_cut(echo: Echo, client: socket.socket) -> None:
    with echo.relay.under(RelayRule(kind="cut", links=between([3], [ANSWERS]))):
        assert asked(client, b"on") == frame(b"on")


def test_a_reset_ends_connections_and_refuses_new_ones(echo: Echo, client: socket.socket) -> None:
    with echo.relay.under(RelayRule(kind="reset", links=LINKS)):
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        with echo.connect() as other, pytest.raises((ConnectionError, EOFError)):
            asked(other, b"again")
    with echo.connect() as healed:
        assert asked(healed, b"healed") == frame(b"healed")


def test_a_slow_link_delays_and_keeps_the_order(echo: Echo, client: socket.socket) -> None:
    rule = RelayRule(kind="slow", links=frozenset([(ASKS, ANSWERS)]), delay_s=0.2, jitter_s=0.1)
    wanted = b"".join(frame(b"%d" % number) for number in range(20))
    with echo.relay.under(rule):
        began = time.monotonic()
        client.sendall(wanted)
        found = b""
        while len(found) < len(wanted):
            found += client.recv(1 << 16)
        assert 0.2 <= time.monotonic() - began < SOON_S
    assert found == wanted


def test_a_throttled_link_takes_its_time(echo: Echo, client: socket.socket) -> None:
    rule = RelayRule(kind="slow", links=frozenset([(ASKS, ANSWERS)]), bytes_per_s=100_000)
    with echo.relay.under(rule):
        began = time.monotonic()
        client.sendall(frame(bytes(30_000)))
        read_frame(client)
        assert 0.3 <= time.monotonic() - began < SOON_S


def test_a_node_that_is_down_refuses_through_the_wire(echo: Echo, client: socket.socket) -> None:
    echo.listener.shutdown(socket.SHUT_RDWR)
    echo.listener.close()
    with echo.connect() as other, pytest.raises((ConnectionError, EOFError)):
        asked(other, b"anybody?")
    del client


def test_what_is_no_protocol_is_hung_up_on(echo: Echo) -> None:
    with echo.connect() as other:
        other.sendall(b"\xff" * 8)
        with contextlib.suppress(ConnectionResetError):
            assert other.recv(1) == b""


class Ends(Wire):
    """Both ends of one connection through a wire of its own."""

    def __init__(self, **route: Any) -> None:  # noqa: ANN401 - of a Route
        super().__init__(**route)
        self.asks = self.connect()

    def begun(self, first: bytes) -> socket.socket:
        """Send the first frame; return the other end, which has read it."""
        self.asks.sendall(first)
        return self.accept(first)


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 7, 11, 12, 13, 17])
def test_an_answer_that_tells_too_high_a_hw_is_held(version: int) -> None:
    topics = frozenset([named(version)])
    rule = RelayRule(kind="hold", links=frozenset([(ANSWERS, ASKS)]), topics=topics, above=3)
    fetch = request(version, "broker-2-fetcher-0", ASKS, [(0, 3, b"")])
    low, high = (answer(version, [(0, hw, b"records")]) for hw in (3, 4))
    with contextlib.closing(Ends()) as ends, ends.begun(fetch) as server:
        with ends.relay.under(rule):
            server.sendall(low)
            assert read_frame(ends.asks) == low
            ends.asks.sendall(fetch)
            read_frame(server)
            server.sendall(high)
            assert is_silent(ends.asks)
            [held] = ends.relay.held_messages()
            assert (held["target"], held["partition"], held["hw"]) == (ASKS, 0, 4)
        assert read_frame(ends.asks) == high


def test_a_held_answer_goes_with_its_connection() -> None:
    rule = RelayRule(kind="hold", links=frozenset([(ANSWERS, ASKS)]))
    fetch = request(11, "broker-2-fetcher-0", ASKS, [(0, 3, b"")])
    with (
        contextlib.closing(Ends()) as ends,
        ends.begun(fetch) as server,
        ends.relay.under(rule),
    ):
        server.sendall(answer(11, [(0, 4, b"")]))
        assert is_silent(ends.asks)
        ends.asks.close()
        assert server.recv(1) == b""


def test_what_follows_a_held_write_waits_but_for_pings() -> None:
    path = b"/brokers/topics/events/partitions/0/state"
    connect, ping = zookeeper(b""), zookeeper(struct.pack(">ii", -2, kafka_frames.ZK_PING))
    write = zookeeper(
        struct.pack(">iii", 4, kafka_frames.ZK_SET_DATA, len(path))
        + path
        + struct.pack(">ii", 0, 3)
    )
    read = zookeeper(struct.pack(">iii", 5, 4, 1) + b"/")
    rule = RelayRule(kind="hold", links=frozenset([(ASKS, ANSWERS)]), what="isr")
    with (
        contextlib.closing(Ends(source=ASKS, zookeeper=True)) as ends,
        ends.begun(connect) as server,
    ):
        with ends.relay.under(rule):
            ends.asks.sendall(write + read + ping)
            assert read_frame(server) == ping
            assert is_silent(server)
        found = server.recv(len(write + read), socket.MSG_WAITALL)
        assert found == write + read


def zookeeper(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_between_zookeepers_any_bytes_pass_and_can_be_cut() -> None:
    ends = Ends(server=101, source=100, alias="")
    no_frame = b"\xff" * 8
    with contextlib.closing(ends):
        ends.asks.sendall(no_frame)
        with ends.accept(no_frame) as answers:
            with ends.relay.under(RelayRule(kind="cut", links=between([101], [100, 102]))):
                ends.asks.sendall(b"cut off")
                answers.sendall(b"both ways")
                assert is_silent(answers)
                assert is_silent(ends.asks)
            assert answers.recv(99) == b"cut off"
            assert ends.asks.recv(99) == b"both ways"


def greeting(address: bytes) -> bytes:
    """The first bytes of a ZooKeeper's connection for elections, and something after them."""
    return struct.pack(">qqi", -65536, 100, len(address)) + address + b"vote"


@pytest.mark.parametrize(
    ("first", "arrives"),
    [
        (greeting(b"127.2.3.5:3888"), greeting(b"127.2.3.119:3888")),
        (struct.pack(">q", 100), struct.pack(">q", 100)),  # before 3.5
        (struct.pack(">qq", 100, 7) + b"vote", struct.pack(">qq", 100, 7) + b"vote"),
    ],
)
def test_the_address_that_a_zookeeper_tells_leads_to_the_wire(first: bytes, arrives: bytes) -> None:
    ends = Ends(server=101, source=100, alias="127.2.3.119:3888")
    with contextlib.closing(ends):
        ends.asks.sendall(first)
        with ends.accept(arrives) as answers:
            ends.asks.sendall(greeting(b"127.2.3.5:3888"))
            assert answers.recv(99) == greeting(b"127.2.3.5:3888")


@pytest.mark.parametrize(
    ("server", "target", "cut"),
    [
        (COORDINATION, COORDINATION, True),
        (101, COORDINATION, True),
        (101, 101, True),
        (101, 102, False),
        (1, COORDINATION, False),
    ],
)
def test_a_rule_about_the_coordination_is_about_each_controller(
    server: int, target: int, cut: bool
) -> None:
    ends = Ends(server=server)
    with contextlib.closing(ends), ends.begun(frame(b"who I am")) as answers:
        with ends.relay.under(RelayRule(kind="cut", links=between([ASKS], [target]))):
            ends.asks.sendall(frame(b"on"))
            if cut:
                assert is_silent(answers)
            else:
                assert read_frame(answers) == frame(b"on")
        if cut:
            assert read_frame(answers) == frame(b"on")


def test_an_address_that_is_taken_is_a_clear_error(echo: Echo) -> None:
    host, port = echo.listener.getsockname()
    with pytest.raises(HarnessError, match="cannot execute the command listen"):
        Relay([Route(listen=(host, port), upstream=(host, port), server=ANSWERS)])


def test_a_wire_that_is_gone_says_so_and_heals_nothing(echo: Echo) -> None:
    os.kill(echo.relay.pid, signal.SIGKILL)
    rule = RelayRule(kind="cut", links=LINKS)
    with pytest.raises(HarnessError, match="wire"):
        echo.relay.add(rule)
    echo.relay.drop(1)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_wire_ends_with_the_harness(how: signal.Signals) -> None:
    script = textwrap.dedent(
        """
        import signal, time
        from highwater.clusters.relay.rules import Route
        from highwater.clusters.relay.client import Relay
        from highwater.clusters.relay.rules import RelayRule
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        relay = Relay([Route(listen=("127.0.0.1", 0), upstream=("127.0.0.1", 1), server=1)])
        with relay.under(RelayRule(kind="cut", links=frozenset([(1, 2)]))):
            print(relay.pid, flush=True)
            for _ in range(1200):  # a signal just before a long sleep is not seen until its end
                time.sleep(0.05)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as harness:
        assert harness.stdout is not None
        wire = psutil.Process(int(harness.stdout.readline()))
        harness.send_signal(how)
        await_condition(
            lambda: status_of(wire.pid),
            lambda status: status in GONE,
            what="the wire to end",
            limit_s=SOON_S,
        )


def test_the_wire_does_not_import_files_of_the_callers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("random", "selectors", "struct", "json", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    Relay([]).close()


def test_why_the_wire_ended_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho it cannot start >&2\nread line\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(HarnessError, match=r"ended with status 3: it cannot start"):
        Relay([])
