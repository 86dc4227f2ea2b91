"""Measure the cost of ``highwater app``: ``python -m benchmarks.apps [wire|run]``.

``wire`` measures a program that copies records at full speed. The program polls up to 5,000
records, writes them, waits for their acknowledgements, and commits. It runs in turns on two
clusters of 4.4.0. On one cluster, clients connect directly. On the other, they connect through the
relay, which records the program's requests.

``run`` compares two plans of 10 s without faults, each on a warm cluster. In one plan a correct
program processes the input and does no work. The other plan has no program, only its input.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from benchmarks.wire import PATIENT, opened, producer
from highwater.clusters.core.interfaces import Cluster
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Store
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.requested_plan import requested_app

RECORDS: Final = 200_000
RECORD_BYTES: Final = 200
PARTITIONS: Final = 3
PAIRS: Final = 5
RIGHT: Final = (Path(__file__).parents[1] / "docs/examples/apps/right.py").read_text("utf-8")
WORK: Final = "time.sleep(0.005)  # the work"
COPY: Final = """
import os, time
from confluent_kafka import Consumer, Producer
servers = {"bootstrap.servers": os.environ["SERVERS"]}
group = {"group.id": os.environ["GROUP"], "enable.auto.commit": False}
consumer = Consumer({**servers, **group, "auto.offset.reset": "earliest"})
producer = Producer({**servers, "enable.idempotence": True, "queue.buffering.max.messages": 10000})
consumer.subscribe(["events"])
began, copied = 0.0, 0
while copied < int(os.environ["RECORDS"]):
    records = consumer.consume(5000, timeout=0.5)
    began = began or (time.monotonic() if records else 0.0)
    for record in records:
        producer.produce(os.environ["OUT"], record.value())
    producer.flush()
    if records:
        consumer.commit(asynchronous=False)
    copied += len(records)
print(copied / (time.monotonic() - began))
consumer.close()
"""


def fill(cluster: Cluster) -> None:
    client = producer(cluster, **{"linger.ms": 20, "queue.buffering.max.messages": RECORDS})
    for number in range(RECORDS):
        client.produce("events", bytes(RECORD_BYTES), partition=number % PARTITIONS)
    assert client.flush(120) == 0


def copy_rate(cluster: Cluster, number: int) -> float:
    """Run the copying program with its own group and output topic; return its records/s."""
    out, rows = f"out-{number}", list[dict[str, Any]]()
    cluster.create_topic(out, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], {})
    if cluster.network is not None:
        cluster.network.watch(rows.append)
        cluster.network.record_requests([out], out)
    given = {"SERVERS": cluster.bootstrap, "GROUP": out, "OUT": out, "RECORDS": str(RECORDS)}
    command = [sys.executable, "-c", COPY]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, check=True)
    if cluster.network is not None:
        cluster.network.watch(None)
        written = sum(row.get("records") or 0 for row in rows if row["kind"] == "request")
        assert written == RECORDS, written
    return float(done.stdout)


def wire() -> None:
    with contextlib.ExitStack() as stack:
        kinds: dict[str, dict[str, Any]] = {
            "direct": {"wired": False},
            "clients": {"wired": True, "clients_wired": True},
        }
        clusters = [
            stack.enter_context(opened(MODERN, partitions=PARTITIONS, settings=PATIENT, **kind))
            for kind in kinds.values()
        ]
        for cluster in clusters:
            fill(cluster)
            copy_rate(cluster, 0)  # warm
        shares = []
        for pair in range(1, PAIRS + 1):
            direct, wired = (copy_rate(cluster, pair) for cluster in clusters)
            shares.append(wired / direct)
            print(f"{direct:,.0f} and {wired:,.0f} records/s: {shares[-1]:.0%}", flush=True)
        print(f"median of {PAIRS} pairs: {statistics.median(shares):.0%}")


def run() -> None:
    assert WORK in RIGHT
    command = [sys.executable, "-c", RIGHT.replace(WORK, "pass")]
    plan = requested_app(command, {"nemesis": "none", "duration": "10s"})
    plans = [replace(plan, program=None), plan]
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        store = Store(Path(folder) / "runs")
        with ClusterPool(Path(folder) / "clusters", warm=len(plans)) as pool:

            def measured(plan: Plan) -> float:
                began = time.monotonic()
                executed = pool.execute(plan, store, stop=threading.Event())
                assert not executed.status().problems, executed.status().problems
                return time.monotonic() - began

            for each in plans:
                measured(each)  # warm
            differences = []
            for _ in range(PAIRS):
                alone, program = (measured(each) for each in plans)
                differences.append(program - alone)
                print(f"{alone:.1f} s and {program:.1f} s", flush=True)
        print(f"median of {PAIRS} pairs: {statistics.median(differences):+.1f} s")


def main(words: list[str] | None = None) -> None:
    if not words or "wire" in words:
        wire()
    if not words or "run" in words:
        run()


if __name__ == "__main__":
    main(sys.argv[1:])
