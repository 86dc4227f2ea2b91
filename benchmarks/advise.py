"""Measure the time of ``highwater advise`` on a large cluster of real brokers.

``python -m benchmarks.advise [--kafka 4.4.0] [--topics 1000] [--partitions 50]`` starts six brokers
and creates the topics with one replica. (Each partition has three files and two memory maps; a
process may have 65,530 maps.) It then runs ``highwater advise`` three times. For each call it
prints wall time, CPU time and peak memory.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka import admin as kafka_admin

from highwater.clusters.drivers import open_cluster
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import MODERN, release

BROKERS: Final = 6
HEAP_MB: Final = 1024
ROUNDS: Final = 3
TOPICS_AT_ONCE: Final = 50
"""The greatest number of records that a KRaft controller writes for one request."""

LIMIT_S: Final = 600.0
KAFKA: Final[Any] = kafka_admin

_OPEN_FILES: Final = 100_000


def fill(bootstrap: str, topics: int, partitions: int) -> None:
    """Create the topics in batches, and wait until every broker lists all topics."""
    admin = KAFKA.AdminClient({"bootstrap.servers": bootstrap})
    names = [f"topic-{number:05}" for number in range(topics)]
    for start in range(0, topics, TOPICS_AT_ONCE):
        batch = [
            KAFKA.NewTopic(name, partitions, 1) for name in names[start : start + TOPICS_AT_ONCE]
        ]
        for created in admin.create_topics(batch, request_timeout=LIMIT_S).values():
            created.result()
        print(f"{start + len(batch)} of {topics} topics", flush=True)
    await_condition(
        lambda: len(admin.list_topics(timeout=60).topics),
        lambda listed: listed >= topics,
        what=f"brokers to list {topics} topics",
        limit_s=LIMIT_S,
        passing=(KafkaException,),
    )


def measure(bootstrap: str) -> str:
    """Return a row: what ``advise`` read, its time and its memory."""
    command = [sys.executable, "-m", "highwater", "advise", "--bootstrap", bootstrap, "--json"]
    with tempfile.TemporaryFile("w+") as output:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        output.seek(0)
        document = json.load(output)
    processor_s = usage.ru_utime + usage.ru_stime
    return (
        f"| {sum(document['requests'].values())} requests | {seconds:.1f} s by the clock"
        f" | {processor_s:.1f} s of the processor | {usage.ru_maxrss / 1024:.0f} MB"
        f" | exit code {os.waitstatus_to_exitcode(status)} |"
    )


def main(words: Sequence[str] = ()) -> None:
    """Start the cluster, and print a row for each call of ``advise``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advise", description=__doc__)
    parser.add_argument("--kafka", default=MODERN)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=50)
    asked = parser.parse_args(words)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, _OPEN_FILES), most))
    kafka = replace(release(asked.kafka), heap_mb=HEAP_MB)
    config = {"log.index.size.max.bytes": "4096"}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(
            open_cluster(kafka, Path(folder) / "run", brokers=BROKERS, broker_config=config)
        ) as cluster,
    ):
        fill(cluster.bootstrap, asked.topics, asked.partitions)
        for _ in range(ROUNDS):
            print(measure(cluster.bootstrap), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
