"""A planned move asks for an order and an election, and nothing else; a session can be taken."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from highwater.clusters.admin import leadership, metadata
from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import ZooKeeperView, session_password
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import PartitionState
from highwater.harness.base.errors import HarnessError, WaitTimeoutError

BROKERS = {1: Address(host="127.0.0.1", port=1), 2: Address(host="127.0.0.1", port=2)}


class Written(ZooKeeperView):
    """ZooKeeper with a controller that consumes what is left for it, or sleeps."""

    def __init__(self, *, awake: bool = True) -> None:
        self.nodes: dict[str, Mapping[str, Any]] = {}
        self.order: tuple[int, ...] = (1, 2, 3)
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.leader = 1
        self.live = {1, 2, 3, 9}
        self.epoch = 4
        self.deposed = 0
        self._awake = awake

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        assert (topic, partition) == ("events", 0)
        return self.order

    def partition(self, topic: str, partition: int) -> PartitionState:
        assert (topic, partition) == ("events", 0)
        return PartitionState(leader=self.leader, leader_epoch=0, isr=self.isr)

    def controller(self) -> int:
        return 9

    def live_brokers(self) -> frozenset[int]:
        return frozenset(self.live)

    def read(self, path: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        known = {"/controller_epoch": self.epoch, "/brokers/topics/events": {"partitions": {}}}
        return known[path]

    def update(self, path: str, change: Callable[[Any], object]) -> None:
        change(node := self.read(path))
        self.nodes[path] = node

    def delete(self, path: str) -> None:
        """The controller that is elected then reads the assignment again."""
        assert (path, self.deposed) == ("/controller", 9), "the others must be frozen by then"
        self.epoch += 1
        self.order = tuple(self.nodes["/brokers/topics/events"]["partitions"]["0"])

    @contextlib.contextmanager
    def frozen(self, *but: int) -> Iterator[None]:
        [self.deposed] = but
        yield
        self.deposed = 0

    def create(self, path: str, node: Mapping[str, Any], *, ephemeral: bool = False) -> bool:
        assert not ephemeral
        if path in self.nodes and not self._awake:
            return False
        self.nodes[path] = node
        if self._awake and path == "/admin/reassign_partitions":
            self.order = tuple(node["partitions"][0]["replicas"])
        elif self._awake:
            self.leader = self.order[0]
        return True

    def exists(self, path: str) -> bool:
        return path in self.nodes and not self._awake


def move(view: Written, broker: int) -> None:
    leadership.move(view, BROKERS, view.frozen, "events", 0, broker)


def test_a_move_puts_the_broker_first_and_has_it_elected() -> None:
    view = Written()
    move(view, 2)
    assert (view.order, view.leader) == ((2, 1, 3), 2)
    assert list(view.nodes) == ["/admin/reassign_partitions", "/admin/preferred_replica_election"]


def test_whoever_is_first_already_is_only_elected() -> None:
    view = Written()
    view.leader = 3
    move(view, 1)
    assert (view.order, view.leader) == ((1, 2, 3), 1)
    assert list(view.nodes) == ["/admin/preferred_replica_election"]


@pytest.mark.parametrize("dead", [False, True])
def test_while_a_replica_is_out_of_the_isr_the_controller_reads_the_order_anew(
    *, dead: bool
) -> None:
    view = Written()
    if dead:  # and the controller has not taken it out of the ISR yet
        view.live.discard(3)
    else:
        view.isr = (1, 2)
    move(view, 2)
    assert (view.order, view.leader, view.epoch) == ((2, 1, 3), 2, 5)
    assert list(view.nodes) == ["/brokers/topics/events", "/admin/preferred_replica_election"]


def test_an_heir_is_put_before_the_others_without_an_election() -> None:
    view = Written()
    leadership.set_next_leader(view, BROKERS, view.frozen, "events", 0, 3)
    assert (view.order, view.leader) == ((3, 1, 2), 1)
    assert list(view.nodes) == ["/brokers/topics/events"]


@pytest.mark.parametrize("broker", [1, 2, 4])
def test_who_leads_is_next_or_cannot_be_is_left_where_it_is(broker: int) -> None:
    view = Written()
    leadership.set_next_leader(view, BROKERS, view.frozen, "events", 0, broker)
    assert (view.order, view.nodes) == ((1, 2, 3), {})


def test_a_broker_without_a_replica_cannot_lead() -> None:
    with pytest.raises(
        HarnessError, match=r"broker 4 has no replica of events-0; these brokers have: \(1, 2, 3\)"
    ):
        move(Written(), 4)


def test_a_controller_that_sleeps_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "LIMIT_S", 0.05)
    view = Written(awake=False)
    with pytest.raises(WaitTimeoutError, match="the controller to execute /admin/reassign_part"):
        move(view, 2)
    with pytest.raises(HarnessError, match="has a node /admin/reassign_partitions: another"):
        move(view, 2)


def test_on_kraft_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        error_code = 41
        responses = replica_election_results = ()

    mover = leadership.KraftMover(BROKERS)
    monkeypatch.setattr(ProtocolClient, "ask_any", lambda *_: [Refusing()])
    with pytest.raises(HarnessError, match=r"refuses to put \[2, 1\] in order for events-0: error"):
        mover.prefer("events", 0, (2, 1))
    with pytest.raises(HarnessError, match="refuses to elect the preferred leader of events-0"):
        mover.elect("events", 0)
    mover.close()


def test_with_zookeeper_the_controller_alone_gets_a_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Done:
        error_code = 0
        responses = ()

    sent: list[Any] = []

    def ask_any(_: ProtocolClient, brokers: Sequence[int], request: Any) -> list[type[Done]]:  # noqa: ANN401
        sent.append((*brokers, request.topics[0].partitions[0].replicas))
        return [Done]

    monkeypatch.setattr(ProtocolClient, "ask_any", ask_any)
    view, brokers = Written(), {**BROKERS, 9: BROKERS[1]}
    leadership.request(view, brokers, "events", 0, None)
    leadership.request(view, brokers, "events", 0, (2, 1))
    assert sent == [(9, None), (9, [2, 1])]


def test_a_session_password_is_what_java_draws() -> None:
    """``new Random(42)`` draws -1170105035 and 234785527 first, as its documentation promises."""
    password = session_password(metadata._SESSION_SECRET ^ 42)
    drawn = [int.from_bytes(password[i : i + 4], "little", signed=True) for i in (0, 4)]
    assert drawn == [-1170105035, 234785527]
    assert len(password) == 16


def test_a_negative_session_has_a_password_too() -> None:
    assert len(session_password(-(1 << 63) + 5)) == 16
