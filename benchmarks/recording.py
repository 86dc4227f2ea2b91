"""Measure the cost of recording a run's history to the producers.

One variant records each operation in a buffer; the other only counts acknowledgements. Records have
100 bytes, and the topic has three partitions. First librdkafka's producer sends at full speed; then
the producers of all libraries send at the rates of runs. Both variants run in turns (A B A B) with
new clients in each round. The benchmark compares two medians: acknowledgements per second, and this
process's CPU time per acknowledgement, which other load affects less.
"""

import contextlib
import itertools
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from highwater.clusters.drivers import open_cluster
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    ClientLibrary,
    DeliveredRecord,
)
from highwater.harness.clients.operation_buffers import Answered, SendBuffer
from highwater.harness.clients.producer_loop import ProducerLoop
from highwater.harness.clients.send_rate import RateLimiter
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Acks, Plan, Topic, Workload
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run
from highwater.runtime.client_libraries import open_library

KAFKA = MODERN
ROUND_S = 4.0
ROUNDS = 5
ACKS: tuple[Acks, ...] = ("1", "all")
PARTITIONS = 3
TARGET = 0.90
CLIENTS = ("librdkafka", "java", "kafka-python", "aiokafka")
RATES = (200.0, 1_000.0, 5_000.0)


class Round(NamedTuple):
    """The result of a round: acknowledgements per second, and microseconds of CPU time for each."""

    acks_per_s: float
    cpu_us: float


class NullTape(SendBuffer):
    """A buffer that counts acknowledgements and records nothing."""

    def __init__(self) -> None:
        self.acknowledged = 0

    def answered(self, sequence: int, error: ClientError | None, message: DeliveredRecord) -> None:
        """Count an acknowledgement."""
        del sequence, error, message
        self.acknowledged += 1

    def burst(self) -> Answered:
        """Return the callback for the responses of a burst of sends."""
        return self.answered

    def refused(self, sequence: int, partition: int, error: ClientError) -> None:
        """Ignore a send that the client library refused."""
        del sequence, partition, error

    def turn(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def one_round(
    plan: Plan, settings: clients.Settings, tape: SendBuffer, library: ClientLibrary
) -> Round:
    """Send for ``ROUND_S``, and wait for all responses."""
    opened = partial(library.producer, settings)
    loop = ProducerLoop(opened, plan, tape, "p0", RateLimiter(plan.workload.rate, Clock()))
    stop = threading.Event()
    timer = threading.Timer(ROUND_S, stop.set)
    started, cpu = time.perf_counter(), time.process_time()
    timer.start()
    loop.run(stop, lambda: 60.0)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    timer.join()
    return Round(loop.sent / elapsed, cpu / loop.sent * 1e6)


def compare(bootstrap: str, directory: Path, plan: Plan) -> None:
    """Measure both variants in turns, and this process's memory before and after."""
    acks = plan.workload.acks
    log = clients.open_log(directory / "clients.log")
    settings = clients.producer(plan, clients.common(bootstrap, "benchmark", log, quirks={}))
    opened = open_library(plan, directory)
    library = opened.library
    run = Run(directory / f"run-{plan.client}-{acks}-{plan.workload.rate:g}")
    bare: list[Round] = []
    recorded: list[Round] = []
    memory = psutil.Process().memory_info
    one_round(plan, settings, NullTape(), library)
    with Recorder(run, Clock()) as recorder:
        before = memory().rss
        for _ in range(ROUNDS):
            bare.append(one_round(plan, settings, NullTape(), library))
            tape = SendBuffer(
                recorder, process="producer-0", topic=plan.topic, acks=acks, prefix="p0"
            )
            recorded.append(one_round(plan, settings, tape, library))
        after = memory().rss
    opened.close()
    clients.close_log(log)
    operations = sum(recorder.counts().values())
    report(plan, bare, recorded)
    print(f"  {operations / 1e6:.1f} million operations recorded; memory of this process")
    print(f"  {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after", flush=True)


def report(plan: Plan, bare: list[Round], recorded: list[Round]) -> None:
    """Print the medians and their ratio."""
    pace = f"{plan.workload.rate:,.0f} records/s" if plan.workload.rate else "flat out"
    what = f"{plan.client}, acks={plan.workload.acks}, {pace}"
    print(f"{what}: medians of {ROUNDS} rounds of {ROUND_S:g} s")
    for name, rounds in (("not recorded", bare), ("recorded", recorded)):
        rate = statistics.median(found.acks_per_s for found in rounds)
        cpu = statistics.median(found.cpu_us for found in rounds)
        print(f"  {name:13} {rate:9,.0f} acks/s  {cpu:5.2f} us of CPU an ack")
    ratio = statistics.median(found.acks_per_s for found in recorded) / statistics.median(
        found.acks_per_s for found in bare
    )
    print(f"  ratio {ratio:.2f} (target at least {TARGET:.2f})")


def plan_of(acks: Acks, *, replicas: int, client: str = CLIENTS[0], rate: float = 0.0) -> Plan:
    """Return the plan of the compared producer. Rate 0 means full speed."""
    return Plan(
        kafka=KAFKA,
        topic=Topic(name=f"acks-{acks}", partitions=PARTITIONS, replication_factor=replicas),
        workload=Workload(acks=acks, rate=rate, record_bytes=100),
        client=client,
    )


def main() -> None:
    """Measure on a run's usual cluster, which shares the machine, then on one broker.

    A single broker without replication uses the least CPU time, so recording has its greatest share
    there. Rates are compared on the usual cluster.
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
                    compare(cluster.bootstrap, directory, plan_of(acks, replicas=brokers))
                for client, rate in itertools.product(CLIENTS, RATES if brokers > 1 else ()):
                    plan = plan_of("all", replicas=brokers, client=client, rate=rate)
                    compare(cluster.bootstrap, directory, plan)


if __name__ == "__main__":
    main()
