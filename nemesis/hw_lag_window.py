"""The HW-lag window: the interval in which stories inject their faults.

When all followers have fetched a record, the leader increases its high watermark (HW). A follower
gets the new HW only in the response to its next fetch. Until then the record is committed and
acknowledged, but above the follower's own HW. If the follower then follows another leader, some
releases truncate the record, and others do not (KIP-101).
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final

from highwater.clusters.core.interfaces import Probe, ReplicaState, UnreachableError
from highwater.clusters.relay.network import Network
from highwater.harness.base.waiting import await_condition

POLL_S = 0.01

HELD_CONFIG: Final[Mapping[str, str]] = MappingProxyType({"request.timeout.ms": "3000"})
"""Broker settings that keep followers in the ISR while the relay holds a HW-lag window open.
Followers fetch again after ``request.timeout.ms``, which must be far below
``replica.lag.time.max.ms``."""


def widen(seconds: float) -> dict[str, str]:
    """Return broker settings that keep an idle partition's HW-lag window open for some seconds.

    Without new records, the leader sends the increased HW in its response to the next fetch, after
    ``replica.fetch.wait.max.ms``. (From 2.4.0 to 2.5.1 a follower with a stale HW gets it at once.)
    The replica lag limit and the socket timeout must be longer than this delay. The socket timeout
    must not be much longer. A dead container does not refuse connections, so a new leader whose
    fetcher is connected to it waits for this timeout.
    """
    wait_ms = int(seconds * 1000)
    return {
        "replica.fetch.wait.max.ms": str(wait_ms),
        "replica.lag.time.max.ms": str(max(10_000, 4 * wait_ms)),
        "replica.socket.timeout.ms": str(max(3_000, 2 * wait_ms)),
    }


def hold_window(
    network: Network, topic: str, partition: int, followers: Collection[int], *, offset: int
) -> AbstractContextManager[None]:
    """Hold the window of the record at ``offset`` open on these followers in the ``with`` block.

    The relay holds every response with a HW above ``offset``. The response that contains the record
    has a lower HW, so it is forwarded. A follower whose response is held fetches again from its LEO
    on a new connection, after ``request.timeout.ms``. With the default of 30 s the follower would
    leave the ISR before that, so brokers need ``HELD_CONFIG``. All releases behave in this way.
    """
    return network.hw_held(topic, partition, *followers, above=offset)


def await_window(
    probe: Probe,
    topic: str,
    partition: int,
    replicas: Collection[int],
    *,
    offset: int,
    limit_s: float = 10.0,
) -> Mapping[int, ReplicaState]:
    """Wait until each of these replicas has the record at ``offset`` above its own HW.

    Returns:
        The state of each replica, with ``hw <= offset < leo``.

    Raises:
        WaitTimeoutError: the window did not open, or has closed; the message has LEOs and HWs.
    """
    return await_condition(
        lambda: {broker: probe.replica(broker, topic, partition) for broker in replicas},
        lambda seen: all(state.hw <= offset < state.leo for state in seen.values()),
        what=f"brokers {_names(replicas)} to have {topic}-{partition}@{offset} above their HW",
        limit_s=limit_s,
        every_s=POLL_S,
        passing=(UnreachableError,),
    )


def _names(brokers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
