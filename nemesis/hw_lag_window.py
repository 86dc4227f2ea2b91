"""The HW-lag window: the interval in which stories inject their faults.

After a follower's fetch, the leader increases the high watermark. The follower gets the new HW in
the response to its next fetch. Until then the follower has records that are committed and
acknowledged, but above its own HW. If the follower then follows another leader, the outcome of
these records depends on the release (KIP-101).
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
"""Broker settings with which followers remain in the ISR while the relay holds a window open. They
fetch again after this timeout, which must be well below ``replica.lag.time.max.ms``."""


def widen(seconds: float) -> dict[str, str]:
    """Return broker settings that keep an idle partition's window open for this many seconds.

    Without new records, the leader delays its response to a follower's fetch by
    ``replica.fetch.wait.max.ms``, and only then sends the increased HW (except on 2.4.0 to 2.5.1,
    where a follower with a stale HW gets it at once). The lag limit and the socket's timeout must
    not be shorter. The socket's timeout must not be much longer either: connections to a dead
    container's address are not refused, and a broker that becomes leader first waits until its
    fetcher gives up.
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
    """Hold the window of the record at ``offset`` open on these followers during the block.

    The wire holds back every response with a HW above ``offset``. The response with the record is
    never held: the leader has no such HW before the follower fetches from the next offset. A
    follower whose response is held fetches again from its LEO, on a new connection, after
    ``request.timeout.ms`` (the limit of ``ReplicaFetcherThread``'s client). With the default of 30
    s the follower would leave the ISR before that, so ``HELD_CONFIG`` is needed. All releases
    behave in the same way.
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
        WaitTimeoutError: the window did not open, or had closed; the message has LEO and HW of each
            replica.
    """
    return await_condition(
        lambda: {broker: probe.replica(broker, topic, partition) for broker in replicas},
        lambda seen: all(state.hw <= offset < state.leo for state in seen.values()),
        what=f"brokers {_names(replicas)} to hold {topic}-{partition}@{offset} above their HW",
        limit_s=limit_s,
        every_s=POLL_S,
        passing=(UnreachableError,),
    )


def _names(brokers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
