"""Settings of our Kafka clients: to see faults soon, and to be quiet about it.

Names are librdkafka's (its CONFIGURATION.md). The same settings serve every release, but for what
the catalogue says of one that needs more.
"""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from highwater.harness.runs.group_protocols import CLASSIC
from highwater.harness.runs.history import READ_COMMITTED
from highwater.harness.runs.plan import Plan

Settings = dict[str, Any]
QUEUE_RECORDS: Final = 20_000
REPORTED: Final = "error"
"""``auto.offset.reset`` of a consumer that reports a position out of range."""

CALM_RATE: Final = 2_000
"""Records per second up to which each is sent in a batch of its own."""


def common(
    bootstrap: str, client_id: str, log: logging.Logger, *, quirks: Mapping[str, str]
) -> Settings:
    """Return settings of every client; ``quirks``, the release's settings, override them."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "logger": log,
        # Our brokers listen on IPv4; trying ::1 first costs a refused connection each time.
        "broker.address.family": "v4" if bootstrap.startswith("127.") else "any",
        # A broker that came back is used again at once, not up to 10 s later.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        # A paused broker accepts connections and never answers: give up on it before its
        # session ends (6 to 18 s), but not before an idle ISR follower's fetch round.
        "socket.timeout.ms": 10_000,
        "socket.connection.setup.timeout.ms": 3_000,
        "api.version.request.timeout.ms": 3_000,
        # Errors refresh metadata; a leader that was only paused gives none, so ask regularly.
        "topic.metadata.refresh.interval.ms": 1_000,
        "topic.metadata.refresh.fast.interval.ms": 100,
        # Connect to every broker beforehand, so that a change of leader costs no handshake.
        "enable.sparse.connections": False,
        **quirks,
    }


def producer(plan: Plan, common_settings: Settings, *, acks: str | None = None) -> Settings:
    """Return settings of a producer of the workload, or with other acks; no transactions."""
    workload = plan.workload
    acks = acks or workload.acks
    timeout_ms = int(workload.delivery_timeout_s * 1000)
    return {
        **common_settings,
        "allow.auto.create.topics": False,  # or it would make our topic anew as soon as it is gone
        "acks": acks,
        "enable.idempotence": workload.idempotence and acks == "all",
        "compression.type": workload.compression,
        "message.timeout.ms": timeout_ms,
        # The leader's own limit for acks=all. Where possible longer than the ISR takes to shrink: a
        # send given up early is sent again, and without idempotence stands twice in the log.
        "request.timeout.ms": min(timeout_ms, 30_000),
        "max.in.flight.requests.per.connection": 5,  # as the Java client
        "retry.backoff.ms": 100,
        "retry.backoff.max.ms": 1_000,
        # Records go out one by one at a low rate, so that each has an outcome of its own.
        "linger.ms": 0 if 0 < workload.rate <= CALM_RATE else 5,
        # Bounded, so that a stalled cluster stalls the producer and not the machine's memory.
        "queue.buffering.max.messages": QUEUE_RECORDS,
        "queue.buffering.max.kbytes": 16_384,
    }


def transactional(plan: Plan, common_settings: Settings, name: str) -> Settings:
    """Return settings of a transactional producer (KIP-98).

    Args:
        name: its ``transactional.id``, which its successor must have too.
    """
    base = producer(plan, common_settings, acks="all")
    # A transaction whose producer is gone blocks read_committed readers for as long as this, unless
    # another producer of the same name comes. librdkafka wants it at least as long as a delivery,
    # and as a wait for an answer.
    timeout_ms = max(base["message.timeout.ms"], 1_000)
    return {
        **base,
        "enable.idempotence": True,
        "transactional.id": name,
        "transaction.timeout.ms": timeout_ms,
        "socket.timeout.ms": min(base["socket.timeout.ms"], timeout_ms),
    }


def consumer(
    common_settings: Settings,
    *,
    isolation: str = READ_COMMITTED,
    group: str | None = None,
    reset: str = REPORTED,
    protocol: str = CLASSIC,
) -> Settings:
    """Return settings of a consumer that reports a position out of range, and does not move.

    The binding insists on a group id, and librdkafka looks for the group's coordinator even
    without members, which makes brokers create ``__consumer_offsets``: the driver keeps that small.

    Args:
        group: which it joins and commits to; without one it is assigned partitions by hand.
        reset: ``earliest`` or ``latest`` for one that moves by itself, as applications' do.
        protocol: of its group: ``classic``, or ``consumer``, in which brokers say how long a
            session lasts (KIP-848, ``harness.runs.group_protocols``).
    """
    # 45 s and 3 s: so long a member that crashed keeps its partitions, and holds rebalances up.
    session = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}
    return {
        **common_settings,
        "group.id": group or "highwater",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": reset,
        "allow.auto.create.topics": False,  # a missing topic is a fault to see, not to heal
        "isolation.level": isolation,
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        "fetch.queue.backoff.ms": 20,  # default 1000: a full queue would idle a second
        "queued.max.messages.kbytes": 16_384,
        "fetch.message.max.bytes": 1_048_576,
        **(session if protocol == CLASSIC else {"group.protocol": protocol}),
    }


def share_consumer(
    common_settings: Settings, *, group: str, explicit: bool = False, most: int = 500
) -> Settings:
    """Return settings of a member of a share group (KIP-932), which accepts what it was given.

    Args:
        explicit: whether it says of each record what becomes of it.
        most: records that a poll returns at most.
    """
    return {
        **common_settings,
        "group.id": group,
        "share.acknowledgement.mode": "explicit" if explicit else "implicit",
        "max.poll.records": most,
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
    }


class _QuietFileHandler(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Say nothing: a full disk is reported by the recorder, once."""


def open_log(path: Path) -> logging.Logger:
    """Return a logger that writes librdkafka's messages to a file, never to the terminal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = logging.Logger(f"clients {path}", logging.INFO)  # noqa: LOG001 - ours alone, not global
    handler = _QuietFileHandler(path)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime  # as brokers do
    handler.setFormatter(formatter)
    log.addHandler(handler)
    log.propagate = False
    return log


def close_log(log: logging.Logger) -> None:
    """Close its file."""
    for handler in log.handlers[:]:
        log.removeHandler(handler)
        handler.close()
