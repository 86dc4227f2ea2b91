"""What recording costs: the workload's own producers with a tape, against the same with none.

One broker of the modern release, 100-byte records, three partitions, flat out. The two are run in
turns (A B A B), each round with new clients, and compared by the medians of acknowledgements per
second and of this process's CPU time per acknowledgement, which other work on the machine disturbs
less.
"""

import contextlib
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from highwater.clusters.local.driver import open_cluster
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import ClientError, DeliveredRecord
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.operation_buffers import Answered, OperationBuffer, SendBuffer
from highwater.harness.clients.producer_loop import ProducerLoop
from highwater.harness.clients.send_rate import RateLimiter
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Acks, Plan, Topic, Workload
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run

KAFKA = MODERN
ROUND_S = 4.0
ROUNDS = 5
ACKS: tuple[Acks, ...] = ("1", "all")
PARTITIONS = 3
TARGET = 0.90


class Round(NamedTuple):
    """Acknowledgements per second, and microseconds of CPU time for each."""

    acks_per_s: float
    cpu_us: float


class NullTape:
    """Counts acknowledgements and forgets them."""

    def __init__(self) -> None:
        self.acknowledged = 0

    def answered(self, sequence: int, error: ClientError | None, message: DeliveredRecord) -> None:
        """Count."""
        del sequence, error, message
        self.acknowledged += 1

    def burst(self) -> Answered:
        """One callback for all."""
        return self.answered

    def refused(self, sequence: int, value: bytes, partition: int, error: ClientError) -> None:
        """Forget it."""
        del sequence, value, partition, error

    def turn(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def one_round(plan: Plan, settings: clients.Settings, tape: OperationBuffer) -> Round:
    """Send for ``ROUND_S`` and wait for every answer."""
    opened = partial(LIBRDKAFKA.producer, settings)
    loop = ProducerLoop(opened, plan, tape, "p0", RateLimiter(0.0, Clock()))
    stop = threading.Event()
    timer = threading.Timer(ROUND_S, stop.set)
    started, cpu = time.perf_counter(), time.process_time()
    timer.start()
    loop.run(stop, lambda: 60.0)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    timer.join()
    return Round(loop.sent / elapsed, cpu / loop.sent * 1e6)


def compare(bootstrap: str, directory: Path, acks: Acks) -> None:
    """Both ways in turns under these acks, and the process's memory before and after."""
    plan = Plan(
        kafka=KAFKA,
        topic=Topic(name=f"acks-{acks}", partitions=PARTITIONS, replication_factor=1),
        workload=Workload(acks=acks, rate=0.0, record_bytes=100),
    )
    log = clients.open_log(directory / "clients.log")
    settings = clients.producer(plan, clients.common(bootstrap, "benchmark", log, quirks={}))
    bare: list[Round] = []
    recorded: list[Round] = []
    memory = psutil.Process().memory_info
    one_round(plan, settings, NullTape())
    with Recorder(Run(directory / f"run-{acks}"), Clock()) as recorder:
        before = memory().rss
        for _ in range(ROUNDS):
            bare.append(one_round(plan, settings, NullTape()))
            tape = SendBuffer(
                recorder, process="producer-0", topic=plan.topic, acks=acks, prefix="p0"
            )
            recorded.append(one_round(plan, settings, tape))
        after = memory().rss
    clients.close_log(log)
    operations = sum(recorder.counts().values())
    report(acks, bare, recorded)
    print(f"  {operations / 1e6:.1f} million operations recorded; memory of this process")
    print(f"  {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after", flush=True)


def report(acks: str, bare: list[Round], recorded: list[Round]) -> None:
    """Print medians and their ratio."""
    print(f"acks={acks}, medians of {ROUNDS} rounds of {ROUND_S:g} s")
    for name, rounds in (("not recorded", bare), ("recorded", recorded)):
        rate = statistics.median(found.acks_per_s for found in rounds)
        cpu = statistics.median(found.cpu_us for found in rounds)
        print(f"  {name:13} {rate:9,.0f} acks/s  {cpu:5.2f} us of CPU an ack")
    ratio = statistics.median(found.acks_per_s for found in recorded) / statistics.median(
        found.acks_per_s for found in bare
    )
    print(f"  ratio {ratio:.2f} (target at least {TARGET:.2f})")


def main() -> None:
    """On a run's usual cluster, where brokers and client share the machine; then on one broker.

    One broker without replication leaves the most room to the client, so that there the share of
    recording is as large as it can be.
    """
    for brokers in (3, 1):
        print(f"brokers: {brokers}, replicas: {brokers}", flush=True)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            cluster = open_cluster(
                release(KAFKA), directory / "kafka", brokers=brokers, broker_config={}
            )
            with contextlib.closing(cluster):
                for acks in ACKS:
                    replicas = [list(cluster.brokers)] * PARTITIONS
                    cluster.create_topic(f"acks-{acks}", replicas, {})
                    compare(cluster.bootstrap, directory, acks)


if __name__ == "__main__":
    main()
