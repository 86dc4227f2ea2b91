"""The HW-lag window: the moment this project aims at.

A follower learns the leader's high watermark one fetch response after it has made that watermark
possible. Until then it holds records that are committed, acknowledged, and above its own HW. What
becomes of them when it has to follow another leader is what distinguishes the releases (KIP-101).
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final

from highwater.clusters.core.interfaces import Network, Probe, ReplicaState, UnreachableError
from highwater.harness.base.waiting import await_condition

POLL_S = 0.01

HELD_CONFIG: Final[Mapping[str, str]] = MappingProxyType({"request.timeout.ms": "3000"})
"""Broker settings under which followers stay in the ISR while the wire holds a window open: they
ask again after so long, which must be well below ``replica.lag.time.max.ms``."""


def widen(seconds: float) -> dict[str, str]:
    """Broker settings under which an idle partition's window stays open for this many seconds.

    A follower's fetch is parked at the leader for ``replica.fetch.wait.max.ms`` when nothing is
    new, and brings the raised HW only then (except on 2.4.0 to 2.5.1, which answer a follower that
    has a stale HW at once). The lag limit and the socket's time-out must not be shorter; the latter
    not much longer either, because a dead container's address refuses nothing, and a broker that is
    made leader waits so long for its fetcher to give that up.
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
    """Keep the window of the record at ``offset`` open on these followers while the block lasts.

    The wire holds back every response with a HW above that offset; the record itself
    comes with an answer that cannot, because the leader has no such HW before the follower has
    asked for what follows. A follower whose answer is held asks again on a new connection after
    ``request.timeout.ms`` (``ReplicaFetcherThread`` gives its client that limit, and not
    ``replica.socket.timeout.ms``), from its LEO. With the default of 30 s it would have left the
    ISR by then, which the window does not mind; see ``HELD_CONFIG``. Nothing depends on the
    release.
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
    """Wait until each of these replicas holds the record at ``offset`` above its own HW.

    Returns:
        What each replica showed: ``hw <= offset < leo``.

    Raises:
        WaitTimeoutError: it did not open, or had closed; the message has LEO and HW of each.
    """
    return await_condition(
        lambda: {broker: probe.replica(broker, topic, partition) for broker in replicas},
        lambda seen: all(state.hw <= offset < state.leo for state in seen.values()),
        what=f"brokers {_names(replicas)} to hold {topic}-{partition}@{offset} above their HW",
        limit_s=limit_s,
        every_s=POLL_S,
        passing=(UnreachableError,),
    )


def await_settled(
    probe: Probe,
    topic: str,
    partition: int,
    replicas: Collection[int],
    *,
    offset: int | None = None,
    limit_s: float = 60.0,
) -> int:
    """Wait until every replica shows the same LEO, and that HW: no window is open anywhere.

    Args:
        offset: the LEO to wait for; None is any, as long as all agree.

    Returns:
        That LEO.

    Raises:
        WaitTimeoutError: they did not agree within the limit.
    """

    def settled(seen: Mapping[int, ReplicaState]) -> bool:
        marks = {mark for state in seen.values() for mark in (state.leo, state.hw)}
        return len(marks) == 1 and (offset is None or offset in marks)

    seen = await_condition(
        lambda: {broker: probe.replica(broker, topic, partition) for broker in replicas},
        settled,
        what=f"brokers {_names(replicas)} to agree on LEO and HW of {topic}-{partition}",
        limit_s=limit_s,
        passing=(UnreachableError,),
    )
    return next(iter(seen.values())).leo


def _names(brokers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
