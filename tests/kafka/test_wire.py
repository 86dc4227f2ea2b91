"""Faults of the network on real brokers: each takes effect, seen from outside, and is healed."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from confluent_kafka import Producer

from highwater.clusters.core.interfaces import Cluster, PartitionState, Probe, UnreachableError
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.nemesis.faults.network import DELAY_S
from highwater.nemesis.hw_lag_window import await_window, hold_window
from highwater.nemesis.injector import Nemesis

if TYPE_CHECKING:
    from highwater.clusters.relay.network import Network

from tests.support.schedule_contexts import NotedFaults
from tests.support.settled import await_settled

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

LEADER, FOLLOWER, OTHER = 1, 2, 3
LEADS, FOLLOWS = "leads", "follows"
_Seen = TypeVar("_Seen")
TOPIC = "wired"
LIMIT_S = 40.0
A_WHILE_S = 1.0
LAG_MS = 4000
SETTINGS = {
    "replica.lag.time.max.ms": str(LAG_MS),
    "replica.socket.timeout.ms": "2000",
    "request.timeout.ms": "2000",
    "zookeeper.session.timeout.ms": "6000",  # none ends because the machine is busy
    "broker.session.timeout.ms": "6000",
}
STOPS_REPLICATION = (
    "partition",
    "partition-outbound",
    "partition-inbound",
    "isolate",
    "reset",
    "partition-halves",
)


class Wired:
    """A cluster with a wire, and a topic that broker 1 leads."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.network is not None
        self.cluster = cluster
        self.network: Network = cluster.network
        self.nemesis = Nemesis(cluster, NotedFaults())
        self.probe: Probe = cluster.probe()
        self.sent = 0

    def sender(self, *, acks: str = "1", size: int = 10) -> Callable[[], int]:
        """Sends a record, and returns its offset; the leader has it then."""
        offsets: list[int] = []

        def note(error: object, message: Any) -> None:  # noqa: ANN401 - confluent's
            assert error is None, error
            offsets.append(message.offset())

        settings = {"bootstrap.servers": self.cluster.bootstrap, "acks": acks}
        client = Producer({**self.cluster.release.client, **settings})

        def send() -> int:
            offsets.clear()
            client.produce(TOPIC, bytes(size), partition=0, on_delivery=note)
            client.flush(LIMIT_S)
            return offsets[0]

        return send

    def send(self, *, acks: str = "1", size: int = 10) -> int:
        """A record at its offset, by a client of its own, which asks anew who leads."""
        return self.sender(acks=acks, size=size)()

    def leo(self, broker: int) -> int:
        """Asked until it answers: a busy machine is no fault of the network."""
        look = partial(self.probe.replica, broker, TOPIC, 0)
        return self.wait(look, None, f"broker {broker} to tell its LEO").leo

    def wait(
        self, look: Callable[[], _Seen], until: Callable[[_Seen], bool] | None, what: str
    ) -> _Seen:
        return await_condition(look, until, what=what, limit_s=LIMIT_S, passing=(UnreachableError,))

    def wait_for_leo(self, broker: int, offset: int) -> None:
        self.wait(
            partial(self.leo, broker),
            lambda leo: leo > offset,
            f"broker {broker} to have the record at {offset}",
        )

    def wait_for_role(self, broker: int, role: str) -> None:
        self.wait(partial(self.role, broker), lambda seen: seen == role, f"broker {broker} {role}")

    def role(self, broker: int) -> str:
        """As the broker itself has it."""
        return LEADS if self.probe.leads(broker, TOPIC, 0) else FOLLOWS

    def state(self) -> PartitionState:
        return self.probe.partition(TOPIC, 0)

    def stays(
        self, look: Callable[[], _Seen], so: Callable[[_Seen], bool], seconds: float = A_WHILE_S
    ) -> None:
        """See the same for a while, and the last time at its end; who is silent shows nothing."""
        ends = time.monotonic() + seconds
        last = 0.0
        while last < ends:
            with contextlib.suppress(UnreachableError):
                seen = look()
                assert so(seen), seen
                last = time.monotonic()
            assert time.monotonic() < ends + LIMIT_S, "nobody answers"
            time.sleep(0.05)

    def settle(self) -> None:
        """Everybody is in the ISR and has everything, and broker 1 leads."""
        state = self.wait(self.state, lambda state: len(state.isr) == 3, "every replica in the ISR")
        if state.leader != LEADER:
            self.cluster.move_leader(TOPIC, 0, LEADER)
        self.wait_for_role(LEADER, LEADS)


def _local(name: str, *marks: pytest.MarkDecorator) -> object:
    return pytest.param(("local", name), id=name, marks=marks)


AT_NIGHT = pytest.mark.nightly
at_length = pytest.mark.parametrize(
    "wired_cluster", [_local("2.8.2", AT_NIGHT), _local(MODERN)], indirect=True
)
everywhere = pytest.mark.parametrize(
    "wired_cluster",
    [
        _local("2.8.2", AT_NIGHT),
        _local(MODERN),
        _local("0.9.0.1", AT_NIGHT),
        pytest.param(("docker", "3.9.2"), id="docker-3.9.2", marks=[pytest.mark.docker, AT_NIGHT]),
    ],
    indirect=True,
)


@pytest.fixture(scope="module")
def wired_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Wired]:
    driver, name = request.param
    if driver == "docker":
        request.getfixturevalue("docker")
    directory = tmp_path_factory.mktemp(f"wire-{name}")
    opened = open_cluster(
        release(name), directory, brokers=3, broker_config=SETTINGS, wired=True, driver=driver
    )
    with contextlib.closing(opened):
        opened.create_topic(TOPIC, [[LEADER, FOLLOWER, OTHER]], {})
        made = Wired(opened)
        with contextlib.closing(made.probe):
            yield made


@pytest.fixture
def wired(wired_cluster: Wired) -> Iterator[Wired]:
    wired_cluster.settle()
    yield wired_cluster
    wired_cluster.nemesis.heal_all()


@everywhere
def test_the_wire_sees_what_the_probe_sees(wired: Wired) -> None:
    names = {TOPIC, wired.network.topic_id(TOPIC)}
    seen: dict[tuple[str, int], Mapping[str, Any]] = {}

    def watch(row: Mapping[str, Any]) -> None:
        if row.get("topic") in names:
            who = row["source"] if row["kind"] == "fetch" else row["target"]
            seen[row["kind"], who] = row

    wired.network.watch(watch)
    try:
        for _ in range(3):
            offset = wired.send(acks="all")
        leo = await_settled(wired.probe, TOPIC, 0, (LEADER, FOLLOWER, OTHER), offset=offset + 1)
        for one in (FOLLOWER, OTHER):
            wired.wait(
                lambda one=one: seen.get(("told", one), {}).get("hw"),  # type: ignore[misc]
                lambda hw: hw == leo,
                f"the wire to tell of broker {one} and HW {leo}",
            )
            assert seen["fetch", one]["leo"] == leo
            assert seen["fetch", one]["target"] == LEADER
    finally:
        wired.network.watch(None)


@everywhere
def test_the_window_stays_open_for_as_long_as_asked(wired: Wired) -> None:
    offset = wired.leo(LEADER)
    followers = (FOLLOWER, OTHER)
    began_ns = time.monotonic_ns()
    with hold_window(wired.network, TOPIC, 0, followers, offset=offset):
        assert wired.send(acks="all") == offset
        await_window(wired.probe, TOPIC, 0, followers, offset=offset)
        wired.network.await_held("hw", *followers, since_ns=began_ns, limit_s=LIMIT_S)
        beyond_s = 1.5 * LAG_MS / 1000
        wired.stays(
            lambda: [wired.probe.replica(b, TOPIC, 0).hw for b in followers],
            lambda seen: max(seen) <= offset,
            beyond_s,
        )
        assert len(wired.wait(wired.state, None, "an answer on the ISR").isr) == 3
    await_settled(wired.probe, TOPIC, 0, (LEADER, *followers), offset=offset + 1)


@at_length
@pytest.mark.parametrize("name", STOPS_REPLICATION)
def test_a_cut_follower_gets_nothing_until_it_is_healed(wired: Wired, name: str) -> None:
    wired.nemesis.inject(name, FOLLOWER)
    before = wired.leo(FOLLOWER)
    offset = wired.send()
    wired.wait_for_leo(OTHER, offset)
    if name != "partition-outbound":  # an answer to what it had asked for before may still reach it
        wired.stays(partial(wired.leo, FOLLOWER), lambda leo: leo == before)
    offset = wired.send()
    wired.stays(partial(wired.leo, FOLLOWER), lambda leo: leo <= offset)
    wired.nemesis.heal(FOLLOWER)
    wired.wait_for_leo(FOLLOWER, offset)


@at_length
@pytest.mark.parametrize(
    ("name", "broker"), [("bridge", OTHER), ("partition-majorities-ring", OTHER)]
)
def test_a_link_between_two_brokers_is_cut(wired: Wired, name: str, broker: int) -> None:
    wired.nemesis.inject(name, broker)
    wired.send()  # a fetch that was parked may be answered with this one
    offset = wired.send()
    wired.wait_for_leo(OTHER, offset)
    wired.stays(partial(wired.leo, FOLLOWER), lambda leo: leo <= offset)
    wired.nemesis.heal(broker)
    wired.wait_for_leo(FOLLOWER, offset)


@at_length
def test_slow_links_take_their_time(wired: Wired) -> None:
    send = wired.sender(acks="all")
    send()
    wired.nemesis.inject("slow-link", FOLLOWER)
    took = []
    for _ in range(3):
        began = time.monotonic()
        send()
        took.append(time.monotonic() - began)
    assert min(took) >= 2 * DELAY_S  # the record on its way to broker 2, and its next fetch back
    wired.nemesis.heal(FOLLOWER)
    wired.nemesis.inject("throttle", FOLLOWER)
    offset = wired.send(size=40_000)
    wired.stays(partial(wired.leo, FOLLOWER), lambda leo: leo <= offset)
    wired.nemesis.heal(FOLLOWER)
    wired.wait_for_leo(FOLLOWER, offset)


@everywhere
def test_an_isolated_leader_loses_its_session_and_office(wired: Wired) -> None:
    wired.nemesis.inject("isolate", LEADER)
    wired.wait(wired.probe.live_brokers, lambda live: LEADER not in live, "its session to end")
    wired.wait(wired.state, lambda state: state.leader not in {LEADER, -1}, "another leader")
    wired.wait_for_role(LEADER, LEADS)  # since it hears nothing
    wired.nemesis.heal(LEADER)
    wired.wait_for_role(LEADER, FOLLOWS)


@at_length
def test_a_held_leadership_request_leaves_a_broker_in_its_old_office(wired: Wired) -> None:
    wired.nemesis.inject("hold-leadership", FOLLOWER)
    wired.cluster.move_leader(TOPIC, 0, FOLLOWER)
    wired.wait_for_role(LEADER, FOLLOWS)
    wired.stays(partial(wired.role, FOLLOWER), lambda role: role == FOLLOWS)
    wired.nemesis.heal(FOLLOWER)
    wired.wait_for_role(FOLLOWER, LEADS)


@at_length
def test_a_held_isr_change_is_made_when_it_is_let_go(wired: Wired) -> None:
    # From 2.8 on the leader asks the controller, which must not be the one that is cut off.
    controller = wired.wait(wired.probe.controller, None, "an answer on the controller")
    behind = FOLLOWER if controller != FOLLOWER else OTHER
    wired.nemesis.inject("hold-isr", LEADER)
    wired.nemesis.inject("partition", behind)
    wired.send()  # 2.1 and later keep whoever has everything
    beyond_s = 2 * LAG_MS / 1000
    wired.stays(wired.state, lambda state: len(state.isr) == 3, beyond_s)
    wired.nemesis.heal(LEADER)
    wired.wait(wired.state, lambda state: behind not in state.isr, "the ISR to shrink")
