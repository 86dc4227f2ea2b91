"""A node's start and its errors, with a few lines of Python in the place of a JVM."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from highwater.clusters.brokers.real_cluster import RealBroker, RealCluster
from highwater.clusters.core.addresses import Address
from highwater.clusters.local import driver
from highwater.clusters.local.driver import LocalSite
from highwater.clusters.nodes import node
from highwater.clusters.nodes.layout import Layout
from highwater.clusters.nodes.node import Node
from highwater.clusters.nodes.site import NodePlan
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import release
from tests.support.free_ports import free_ports

LISTENER = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
time.sleep(60)
"""
MUTE = "import time; print('t INFO still thinking (a.B)', flush=True); time.sleep(60)"
DYING = "print('t ERROR the disk is upside down (a.B)'); raise SystemExit(3)"
Maker = Callable[[str], Node]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    made: list[Node] = []
    monkeypatch.setattr(driver, "classpath", lambda _: [])
    site = LocalSite(release("0.10.2.2"), 1, ())

    def begin(program: str) -> Node:
        [port] = free_ports(1)
        address = Address(host="127.0.0.1", port=port)
        plan = NodePlan(
            name="broker-7",
            release=release("0.10.2.2"),
            command=[sys.executable, "-c", program, str(port)],
            public=address,
            inside=address,
            log=tmp_path / "7.log",
            folders=[tmp_path],
        )
        made.append(Node(plan, site))
        return made[-1]

    yield begin
    for each in made:
        each.release()
        assert each.wait_until_down(10)
    site.close()


def test_it_is_up_once_its_port_answers(make: Maker) -> None:
    listener = make(LISTENER)
    assert (listener.state, listener.pids) == ("down", ())
    listener.launch()
    listener.wait_for(listener.require_listening, "to listen")
    assert listener.state == "running"
    assert len(listener.pids) == 2


def test_its_death_ends_the_wait_with_its_last_words(make: Maker, tmp_path: Path) -> None:
    dying = make(DYING)
    dying.launch()
    with pytest.raises(
        HarnessError, match=r"broker 7 exited \(status 3\): .*upside down"
    ) as caught:
        dying.wait_for(dying.require_listening, "to listen")
    assert str(tmp_path / "7.log") in caught.value.hint


def test_a_start_that_takes_too_long_says_what_it_waits_for(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = make(MUTE)
    mute.launch()
    log = tmp_path / "7.log"
    await_condition(
        log.read_text,
        lambda text: "thinking" in text,
        what="a word",
        limit_s=60,
        passing=(FileNotFoundError,),
    )
    monkeypatch.setattr(node, "START_LIMIT_S", 0.2)
    with pytest.raises(WaitTimeoutError, match=r"broker 7 at .* to listen; .*still thinking"):
        mute.wait_for(mute.require_listening, "to listen")


def test_a_fault_that_an_error_left_open_starts_nothing_when_all_is_given_up(
    make: Maker,
) -> None:
    listener = make(LISTENER)
    level = Level.of(release("0.10.2.2"))
    broker = RealBroker(7, listener, Mock(spec=Layout), level, lambda _: None)
    broker.start()
    broker.kill()
    listener.release()
    broker.start()
    assert broker.state == "down"


def test_one_that_was_never_started_can_be_healed_but_not_paused(make: Maker) -> None:
    never = make(MUTE)
    never.resume()
    never.kill()
    never.stop()
    with pytest.raises(HarnessError, match="broker 7 is down and cannot be paused"):
        never.pause()


def test_a_broker_that_dies_as_it_is_paused_is_still_enough(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make(LISTENER)
    level = Level.of(release("0.10.2.2"))
    cluster = RealCluster.__new__(RealCluster)
    cluster._brokers = {7: RealBroker(7, node, Mock(spec=Layout), level, lambda _: None)}
    states = iter(["running"])
    monkeypatch.setattr(RealBroker, "state", property(lambda _: next(states, "down")))
    with cluster._paused():
        assert node.state == "down"
    monkeypatch.setattr(RealBroker, "state", property(lambda _: "running"))
    with pytest.raises(HarnessError, match="is down"), cluster._paused():
        pass
