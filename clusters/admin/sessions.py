"""Wait until every broker has a session; on KRaft, send heartbeats for brokers."""

import contextlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from highwater.clusters.admin.flexible_request import NOTHING, FlexibleRequest
from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import leader_state
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.waiting import await_condition

_CLUSTER_LIMIT_S: Final = 30.0
_ANSWER_S: Final = 2.0
_ERROR: Final = struct.Struct(">i x i h")
"""The first fields of a response: correlation id, no tagged fields, throttle time, error code."""

Note = Callable[[str, int | None], None]
"""A function that gets a sentence about an action, and the id of the broker; None without a
broker."""


def await_sessions(
    cluster: Cluster, probe: Probe, *, what: str, limit_s: float, note: Note
) -> None:
    """Wait until every broker has a session. No fault may be active.

    A broker exits if its session ends before the broker has started (``KafkaServer.startup``). This
    happens on a busy machine, or while ZooKeeper is paused. This function restarts such a broker.

    Args:
        what: the condition in words, for the error message.
        note: gets a sentence about each restart.

    Raises:
        HarnessError: a broker does not start.
        WaitTimeoutError: a broker has no session within the limit.
    """

    def live() -> frozenset[int]:
        for broker in cluster.brokers.values():
            if broker.state == "down":
                broker.start()
                note(
                    f"broker {broker.id} had exited by itself, and the harness restarted it",
                    broker.id,
                )
        return probe.live_brokers()

    await_condition(
        live,
        lambda live_ids: live_ids == frozenset(cluster.brokers),
        what=what,
        limit_s=limit_s,
        passing=(UnreachableError,),
    )


def await_cluster(cluster: Cluster, probe: Probe) -> int:
    """Wait until every broker has a session; return the id of the elected controller.

    The previous story on this cluster may have just restarted a broker.

    Raises:
        WaitTimeoutError: a broker has no session, or there is no controller, at the limit.
    """
    controller, _ = await_condition(
        lambda: (probe.controller(), probe.live_brokers()),
        lambda seen: seen[1] == set(cluster.brokers),
        what="every broker to have a session, and a controller",
        limit_s=_CLUSTER_LIMIT_S,
        passing=(UnreachableError,),
    )
    return controller


@dataclass(slots=True, kw_only=True)
class HeartbeatRequest(FlexibleRequest):
    """A broker's heartbeat to the active controller (BrokerHeartbeat, KIP-631)."""

    @classmethod
    def of(cls, broker: int, epoch: int, *, fence: bool) -> Self:
        """Return a heartbeat. ``epoch`` is the offset of the broker's registration."""
        body = struct.pack(">iqq??", broker, epoch, epoch, fence, False) + NOTHING
        return cls(name="BrokerHeartbeatRequest", key=63, body=body)

    def answer(self, frame: bytes) -> int:
        """Decode the error code of the response from a frame without its length."""
        return int(_ERROR.unpack_from(frame)[-1])


def send_heartbeat(
    controllers: Mapping[int, Address], broker: int, epoch: int, *, fence: bool
) -> None:
    """Send a KRaft broker's heartbeat in its place, even if the broker is paused or dead.

    The active controller then starts the session timeout again. With ``fence`` it instead fences
    the broker, as after the session timeout (``BrokerHeartbeatManager.calculateNextBrokerState``).

    Args:
        epoch: the broker's epoch, from its registration.

    Raises:
        UnreachableError: no controller is active, or it refuses the heartbeat.
    """
    with contextlib.closing(ProtocolClient(controllers, timeout_s=_ANSWER_S)) as client:
        leader = leader_state(client, controllers).leader_id
        [error] = client.ask(leader, HeartbeatRequest.of(broker, epoch, fence=fence))
    if error:
        raise UnreachableError(
            f"controller {leader} refuses a heartbeat of broker {broker}: error {error}"
        )
