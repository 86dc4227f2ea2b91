"""Measure the relay: ``python -m benchmarks.wire [windows|cost|clients|clocks] [RELEASE]``.

``windows`` holds the HW-lag window (``nemesis.hw_lag_window``) open for 5 s and for 60 s, in 20
partitions at the same time. Every partition has its own connection to each follower. An attempt
succeeds under four conditions. In all observations, both followers have the record above their HW.
The relay has held every response with a greater HW. The ISR is full. The window closes after the
messages are released.

The other benchmarks compare clusters of a release in turns. ``cost``: without the relay, with the
relay between nodes, and also with clients through the relay. It measures 1 kB records at full speed
with acks=all, and the median time to the acknowledgement of single records. ``clients``: without
the relay, and with clients through the relay, which holds nothing. ``clocks``: without the relay,
and with a shiftable clock in each node, which is not shifted. Every comparison includes the
brokers' CPU seconds.
"""

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
from confluent_kafka import Producer

from highwater.clusters.brokers.coordinator import RealNode
from highwater.clusters.core.interfaces import (
    PLAIN,
    Cluster,
    NodeOptions,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release
from highwater.nemesis.hw_lag_window import HELD_CONFIG, hold_window

RELEASES: Final = ("0.10.2.2", "1.1.1", "2.8.2", "3.9.2", MODERN)
COSTED: Final = ("0.10.2.2", MODERN)
ATTEMPTS: Final = 20
SECONDS: Final = (5.0, 60.0)
TOPIC: Final = "events"
LEADER, *FOLLOWERS = (1, 2, 3)
RECORD_BYTES: Final = 1000
FLOOD: Final = 60_000
SINGLE: Final = 400
ROUNDS: Final = 3
PATIENT: Final = {
    "zookeeper.session.timeout.ms": "15000",
    "broker.session.timeout.ms": "15000",
}
"""Long session timeouts, so that no session ends because the machine is busy."""

_LOOK_EVERY_S: Final = 0.5
_ANSWER_S: Final = 60.0


KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "direct": {"wired": False},
    "wire": {"wired": True},
    "clients": {"wired": True, "clients_wired": True},
    "clocks": {"wired": False, "options": NodeOptions(clocks=True)},
}


class Cost(NamedTuple):
    """Speeds of a cluster.

    Attributes:
        rate: megabytes per second at full speed.
        cpu_s: CPU seconds of the brokers for the records at full speed.
        latency_ms: milliseconds to one acknowledgement.
    """

    rate: float
    cpu_s: float
    latency_ms: float


@contextlib.contextmanager
def opened(
    name: str,
    *,
    wired: bool,
    partitions: int,
    settings: Mapping[str, str],
    clients_wired: bool = False,
    options: NodeOptions = PLAIN,
) -> Iterator[Cluster]:
    """Open three brokers and a topic that broker 1 leads."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        cluster = open_cluster(
            release(name),
            Path(folder) / "run",
            brokers=3,
            broker_config=settings,
            wired=wired,
            clients_wired=clients_wired,
            options=options,
        )
        with contextlib.closing(cluster):
            cluster.create_topic(TOPIC, [[LEADER, *FOLLOWERS]] * partitions, {})
            yield cluster


def producer(cluster: Cluster, **settings: object) -> Producer:
    """Return a producer with acks=all."""
    config = {**cluster.release.client, "bootstrap.servers": cluster.bootstrap, "acks": "all"}
    return Producer({**config, **settings})


def windows(names: tuple[str, ...]) -> None:
    for name in names:
        settings = {**PATIENT, **HELD_CONFIG, "num.replica.fetchers": str(ATTEMPTS)}
        with opened(name, wired=True, partitions=ATTEMPTS, settings=settings) as cluster:
            for seconds in SECONDS:
                good, shortest = attempts(cluster, seconds)
                print(
                    f"{name:>9}: held {seconds:g} s in {good} of {ATTEMPTS} attempts;"
                    f" the shortest was open for {shortest:.1f} s",
                    flush=True,
                )


def attempts(cluster: Cluster, seconds: float) -> tuple[int, float]:
    """Return the number of successful attempts, and the shortest time that a window was open."""
    assert cluster.network is not None
    rows: list[dict[str, Any]] = []
    cluster.network.watch(rows.append)
    offsets = send_to_all(cluster)
    good: dict[int, float] = {}
    with contextlib.closing(cluster.probe()) as probe:
        with contextlib.ExitStack() as held:
            for partition, offset in offsets.items():
                window = hold_window(
                    cluster.network, TOPIC, partition, FOLLOWERS, offset=offset + 1
                )
                held.enter_context(window)
            began_ns = time.monotonic_ns()
            send_to_all(cluster)
            good = stay_open(probe, offsets, seconds)
            ended_ns = time.monotonic_ns()
            whole = {p for p in good if members(probe, p) == 1 + len(FOLLOWERS)}
        closed = {p for p in good if closes(probe, p, offsets[p] + 2)}
    cluster.network.watch(None)
    wired = {p for p in good if seen_by_wire(rows, p, offsets[p] + 1, began_ns, ended_ns)}
    kept = whole & closed & wired
    if len(kept) < len(offsets):
        print(
            f"           by probe {len(good)}, ISR whole {len(whole)}, closed {len(closed)},"
            f" by wire {len(wired)}"
        )
    return len(kept), min((good[p] for p in kept), default=0.0)


def send_to_all(cluster: Cluster) -> dict[int, int]:
    """Send one acknowledged record to every partition; return their offsets."""
    offsets: dict[int, int] = {}

    def note(error: object, message: Any) -> None:  # noqa: ANN401 - confluent's
        assert error is None, error
        offsets[message.partition()] = message.offset()

    client = producer(cluster)
    for partition in range(ATTEMPTS):
        client.produce(TOPIC, b"record", partition=partition, on_delivery=note)
    client.flush(30)
    assert len(offsets) == ATTEMPTS
    return offsets


def look(probe: Probe, partition: int) -> list[ReplicaState]:
    return [probe.replica(one, TOPIC, partition) for one in FOLLOWERS]


def is_open(seen: list[ReplicaState], offset: int) -> bool:
    return all(one.hw <= offset < one.leo for one in seen)


def stay_open(probe: Probe, offsets: dict[int, int], seconds: float) -> dict[int, float]:
    """Observe all windows; return, by partition, the seconds for which open windows stayed open."""
    began: dict[int, float] = {}
    for partition, offset in offsets.items():
        await_condition(
            partial(look, probe, partition),
            partial(is_open, offset=offset + 1),
            what=f"the window of partition {partition}",
            limit_s=10,
            every_s=0.01,
            passing=(UnreachableError,),
        )
        began[partition] = time.monotonic()
    alive = dict.fromkeys(began, 0.0)
    until = time.monotonic() + seconds
    latest = until + _ANSWER_S
    while time.monotonic() < until or min(alive.values(), default=seconds) < seconds:
        for partition in list(alive):
            with contextlib.suppress(UnreachableError):  # on a busy machine; it is asked again
                if is_open(look(probe, partition), offsets[partition] + 1):
                    alive[partition] = time.monotonic() - began[partition]
                else:
                    del alive[partition]
        if time.monotonic() > latest:
            return {p: found for p, found in alive.items() if found >= seconds}
        time.sleep(_LOOK_EVERY_S)
    return alive


def members(probe: Probe, partition: int) -> int:
    """Return the number of in-sync replicas. Repeat the request until a broker responds."""
    return await_condition(
        lambda: len(probe.partition(TOPIC, partition).isr),
        what="an answer on the ISR",
        limit_s=_ANSWER_S,
        passing=(UnreachableError,),
    )


def closes(probe: Probe, partition: int, hw: int) -> bool:
    await_condition(
        lambda: [probe.replica(one, TOPIC, partition).hw for one in FOLLOWERS],
        lambda seen: seen == [hw] * len(FOLLOWERS),
        what=f"the window of partition {partition} to close",
        limit_s=30,
        passing=(UnreachableError,),
    )
    return True


def seen_by_wire(
    rows: list[dict[str, Any]], partition: int, offset: int, began_ns: int, ended_ns: int
) -> bool:
    """Return whether the relay held a response to each follower, and passed no newer HW."""
    mine = [
        row
        for row in rows
        if row.get("partition") == partition and began_ns <= row["time_ns"] <= ended_ns
    ]
    held = {row["target"] for row in mine if row["kind"] == "held"}
    told = [row for row in mine if row["kind"] == "told" and row["hw"] > offset]
    return held == set(FOLLOWERS) and not told


def cost(names: tuple[str, ...], kinds: tuple[str, ...]) -> None:
    for name in names:
        with contextlib.ExitStack() as stack:
            clusters = {
                kind: stack.enter_context(
                    opened(name, **KINDS[kind], partitions=1, settings=PATIENT)
                )
                for kind in dict.fromkeys(("direct", *kinds))
            }
            for cluster in clusters.values():
                measure(cluster)  # warm
            found: dict[str, list[Cost]] = {kind: [] for kind in clusters}
            for _ in range(ROUNDS):
                for kind, cluster in clusters.items():
                    found[kind].append(measure(cluster))
        means = {
            kind: Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))
            for kind, costs in found.items()
        }
        for kind, one in means.items():
            print(
                f"{name:>9} {kind:>7}: {one.rate:.1f} MB/s, brokers' CPU {one.cpu_s:.2f} s,"
                f" {one.latency_ms:.2f} ms",
                flush=True,
            )
            if kind != "direct":
                share = one.rate / means["direct"].rate
                more = one.latency_ms - means["direct"].latency_ms
                print(f"{name:>9}: {share:.0%} of the throughput, {more:+.2f} ms", flush=True)


def measure(cluster: Cluster) -> Cost:
    value = bytes(RECORD_BYTES)
    client = producer(cluster, **{"linger.ms": 5, "queue.buffering.max.messages": FLOOD})
    cpu_s, began = broker_cpu_s(cluster), time.perf_counter()
    for _ in range(FLOOD):
        client.produce(TOPIC, value, partition=0)
    assert client.flush(120) == 0
    rate = FLOOD * RECORD_BYTES / (time.perf_counter() - began) / 1e6
    cpu_s = broker_cpu_s(cluster) - cpu_s
    client = producer(cluster, **{"linger.ms": 0})
    waits = []
    for _ in range(SINGLE):
        began = time.perf_counter()
        client.produce(TOPIC, value, partition=0)
        client.flush(30)
        waits.append(time.perf_counter() - began)
    return Cost(rate, cpu_s, 1000 * statistics.median(waits[SINGLE // 10 :]))


def broker_cpu_s(cluster: Cluster) -> float:
    """Return the CPU seconds that the brokers' processes have used."""
    brokers = [broker for broker in cluster.brokers.values() if isinstance(broker, RealNode)]
    processes = [psutil.Process(pid) for broker in brokers for pid in broker.pids]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def main(words: list[str] | None = None) -> None:
    words = words or []
    single = tuple(word for word in words if word in {"clients", "clocks"})
    releases = tuple(word for word in words if word not in {"windows", "cost", *single})
    if single or "windows" not in words:
        cost(releases or COSTED, single or ("wire", "clients"))
    if not single and "cost" not in words:
        windows(releases or RELEASES)


if __name__ == "__main__":
    main(sys.argv[1:])
