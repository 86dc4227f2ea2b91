"""Kafka's own tool and a transaction that hangs: it finds the same one, and ends it."""

import contextlib
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from highwater.harness.clients.client_config import common, consumer, open_log
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.history import record_id
from highwater.harness.runs.store import Store
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.run_status import StatusKeeper
from highwater.runtime.runner import boot, conduct
from tests.support.java_clients import java_client

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(300)]

TOOL = "org.apache.kafka.tools.TransactionsCommand"
"""Of KIP-664; that of the newest release also speaks to older brokers."""


def tool(bootstrap: str, folder: Path) -> Callable[..., list[list[str]]]:
    """A function that calls the tool, and returns the cells of the rows that it prints."""

    def call(command: str, *arguments: str) -> list[list[str]]:
        line = ["--bootstrap-server", bootstrap, command, "--topic", "events", *arguments]
        with java_client(release(MODERN), TOOL, line, folder / command) as client:
            client.await_end(60)
            rows = [row.split() for row in client.output.read_text("utf-8").splitlines()]
        return [row for row in rows if row[:1] == ["events"]]

    return call


def committed(bootstrap: str, folder: Path) -> list[str | None]:
    """The records that a read_committed reader gets, up to the last stable offset."""
    log = open_log(folder / "reader.log")
    settings = consumer(common(bootstrap, "reader", log, quirks={}))
    reader = Consumer({**settings, "enable.partition.eof": True})
    reader.assign([TopicPartition("events", 0, 0)])
    records: list[str | None] = []
    deadline = time.monotonic() + 30
    with contextlib.closing(reader):
        while time.monotonic() < deadline:
            message = reader.poll(0.2)
            if message is not None and message.error() is not None:
                return records
            if message is not None:
                records.append(record_id(message.value() or b""))
    raise AssertionError(f"no end within 30 s: {records}")


def test_it_finds_the_same_transaction_and_ends_it(tmp_path: Path) -> None:
    plan = find_story("hanging-transaction").plan("3.3.2")
    run = Store(tmp_path).create(plan, now=datetime.now(UTC))
    with (
        StatusKeeper(run, lambda _: None) as keeper,
        contextlib.closing(boot(plan, run.path)) as cluster,
    ):
        conduct(
            plan, run, cluster, keeper,
            keep=lambda: None, stop=threading.Event(), progress=lambda _: None,
        )  # fmt: skip
        [end] = run.status().standing
        assert committed(cluster.bootstrap, tmp_path) == ["m0", "m1"]
        kafka = tool(cluster.bootstrap, tmp_path)
        # Topic, partition, producer id, its epoch, the coordinator's, start offset, …
        hanging = kafka("find-hanging", "--max-transaction-timeout", "0")
        assert [(row[1], row[5]) for row in hanging] == [("0", str(end.lso))]
        kafka("abort", "--partition", "0", "--start-offset", str(end.lso))
        assert committed(cluster.bootstrap, tmp_path) == ["m0", "m1", "m3", "fence-0-1"]
