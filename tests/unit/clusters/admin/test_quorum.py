"""Who leads several controllers: the one with the greatest epoch, or the ZooKeeper that says so."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.clusters.admin.metadata import KraftView, ZooKeeperView, zookeeper_status
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError

NOWHERE = Address(host="127.0.0.1", port=1)
NOT_LEADER = 6


def quorum_state(
    leader: int, epoch: int, *, error: int = 0, ends: dict[int, int] | None = None
) -> SimpleNamespace:
    observers = [
        SimpleNamespace(replica_id=broker, log_end_offset=end)
        for broker, end in (ends or {}).items()
    ]
    state = SimpleNamespace(
        error_code=error, leader_id=leader, leader_epoch=epoch, observers=observers
    )
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[state])])


class Quorum:
    """The answers of controllers; one without any is down."""

    def __init__(self, answers: dict[int, SimpleNamespace]) -> None:
        self.answers = answers

    def ask(self, node: int, *_: object) -> list[SimpleNamespace]:
        if node not in self.answers:
            raise UnreachableError(f"{node} does not answer")
        return [self.answers[node]]

    def close(self) -> None:
        pass


def view(answers: dict[int, SimpleNamespace]) -> KraftView:
    controllers = dict.fromkeys((100, 101, 102), NOWHERE)
    made = KraftView(dict.fromkeys((1, 2, 3), NOWHERE), controllers, metadata=7)
    quorum: Any = Quorum(answers)
    made._client = quorum
    return made


def test_the_leader_of_a_quorum_is_the_only_one_that_describes_it() -> None:
    follower = quorum_state(-1, 0, error=NOT_LEADER)
    asked = view({100: follower, 101: quorum_state(101, 4), 102: follower})
    assert asked.controller() == asked.quorum_leader() == 101


def test_a_leader_that_is_cut_off_has_an_older_epoch() -> None:
    assert view({100: quorum_state(100, 4), 102: quorum_state(102, 5)}).controller() == 102
    assert view({100: quorum_state(100, 6), 102: quorum_state(102, 5)}).controller() == 100


@pytest.mark.parametrize(
    "answers",
    [{}, {100: quorum_state(-1, 3)}, {100: quorum_state(101, 3, error=NOT_LEADER)}],
)
def test_without_a_leader_there_is_no_controller(answers: dict[int, SimpleNamespace]) -> None:
    with pytest.raises(UnreachableError, match="no leader"):
        view(answers).controller()


def test_brokers_are_asked_that_have_read_the_most_of_the_newest_leader() -> None:
    old = quorum_state(100, 4, ends={1: 90, 2: 10})
    new = quorum_state(102, 5, ends={1: 40, 2: 50, 3: 50, 101: 60})
    assert view({100: old, 102: new})._foremost() == (2, 3)


def test_a_replaced_voter_is_no_observer_of_itself() -> None:
    answer = quorum_state(101, 5, ends={1: 9, 100: 8, 102: 4})
    [state] = answer.topics[0].partitions
    state.high_watermark = 7
    state.current_voters = [
        SimpleNamespace(replica_id=id_, log_end_offset=end) for id_, end in ((101, 9), (102, 8))
    ]
    quorum = view({101: answer}).quorum()
    assert (quorum.voters, quorum.observers) == ({101: 9, 102: 8}, {100: 8})


@contextlib.contextmanager
def saying(answer: bytes) -> Iterator[Address]:
    """A server that answers one connection after the other."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = listener.accept()
                with end:
                    assert end.recv(4) == b"srvr"
                    end.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    host, port = listener.getsockname()
    with contextlib.closing(listener):
        yield Address(host=host, port=port)


def test_the_zookeeper_that_leads_says_so() -> None:
    with (
        saying(b"Zxid: 0x1\nMode: follower\n") as follower,
        saying(b"Zxid: 0x1\nMode: leader\n") as leader,
        saying(b"This ZooKeeper instance is not currently serving requests\n") as looking,
    ):
        assert zookeeper_status(looking).startswith(b"This ZooKeeper")
        asked = ZooKeeperView({100: looking, 101: NOWHERE, 102: leader})
        assert asked.quorum_leader() == 102
        with pytest.raises(UnreachableError, match="no ZooKeeper is the leader"):
            ZooKeeperView({100: looking, 101: follower}).quorum_leader()
    assert ZooKeeperView({100: NOWHERE}).quorum_leader() == 100


def test_a_zookeeper_that_says_nothing_does_not_answer() -> None:
    with saying(b"") as silent, pytest.raises(UnreachableError, match="does not respond"):
        zookeeper_status(silent)
    with pytest.raises(UnreachableError, match="does not respond"):
        zookeeper_status(NOWHERE)
