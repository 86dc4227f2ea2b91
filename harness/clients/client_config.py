"""Settings of the harness's Kafka clients: short timeouts, and messages only in a log file.

The names are librdkafka's (its CONFIGURATION.md). All releases use the same settings, except the
additional settings that the catalogue has for a release.
"""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from highwater.harness.releases.group_protocols import CLASSIC, SESSION_S
from highwater.harness.runs.history import READ_COMMITTED
from highwater.harness.runs.plan import Plan

Settings = dict[str, Any]
QUEUE_RECORDS: Final = 20_000
REPORTED: Final = "error"
"""The value of ``auto.offset.reset`` for a consumer that reports a position outside the log."""

CALM_RATE: Final = 2_000
"""Rate (records per second) up to which a producer sends every record in its own batch."""


def common(
    bootstrap: str, client_id: str, log: logging.Logger, *, quirks: Mapping[str, str]
) -> Settings:
    """Return settings for every client. The release's settings ``quirks`` have priority."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "logger": log,
        # Our brokers listen on IPv4. A first attempt with ::1 would be refused every time.
        "broker.address.family": "v4" if bootstrap.startswith("127.") else "any",
        # A client reconnects to a restarted broker at once, not up to 10 s later.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        # A paused broker accepts connections and never responds. The client must stop waiting
        # before its session ends (6 to 18 s), but not before an idle ISR follower fetches again.
        "socket.timeout.ms": 10_000,
        "socket.connection.setup.timeout.ms": 3_000,
        "api.version.request.timeout.ms": 3_000,
        # Errors refresh metadata. A leader that was only paused causes no error: refresh regularly.
        "topic.metadata.refresh.interval.ms": 1_000,
        "topic.metadata.refresh.fast.interval.ms": 100,
        # The client connects to every broker at the start: a new leader needs no new handshake.
        "enable.sparse.connections": False,
        **quirks,
    }


def renamed(settings: Settings, names: Mapping[str, str]) -> Settings:
    """Return settings under another library's names; leave out settings without such a name."""
    return {
        other: settings[name] for name, other in names.items() if settings.get(name) is not None
    }


def producer(plan: Plan, common_settings: Settings, *, acks: str | None = None) -> Settings:
    """Return settings for a producer without transactions."""
    workload = plan.workload
    acks = acks or workload.acks
    timeout_ms = int(workload.delivery_timeout_s * 1000)
    return {
        **common_settings,
        "allow.auto.create.topics": False,  # otherwise the client creates a deleted topic again
        "acks": acks,
        "enable.idempotence": workload.idempotence and acks == "all",
        "compression.type": workload.compression,
        "message.timeout.ms": timeout_ms,
        # The leader's limit for acks=all. It is longer than an ISR needs to shrink, if possible. If
        # it ends early, the client sends again: without idempotence, the log has duplicates.
        "request.timeout.ms": min(timeout_ms, 30_000),
        "max.in.flight.requests.per.connection": 5,  # like the Java client
        "retry.backoff.ms": 100,
        "retry.backoff.max.ms": 1_000,
        # At a low rate, records are sent one by one, so that every record has its own outcome.
        "linger.ms": 0 if 0 < workload.rate <= CALM_RATE else 5,
        # A limited queue: if the cluster stalls, the producer stalls too, and memory stays free.
        "queue.buffering.max.messages": QUEUE_RECORDS,
        "queue.buffering.max.kbytes": 16_384,
    }


def transactional(plan: Plan, common_settings: Settings, name: str) -> Settings:
    """Return settings for a transactional producer (KIP-98).

    Args:
        name: the ``transactional.id`` of the producer and of its successors.
    """
    base = producer(plan, common_settings, acks="all")
    # If a producer ends within a transaction, read_committed readers wait for this time, unless
    # another producer of the same name starts. librdkafka does not accept a value below the
    # timeouts of a delivery and of a response.
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
    session_s: float = SESSION_S,
) -> Settings:
    """Return settings for a consumer. If a position is outside the log, it reports an error.

    The Python binding requires a group id. librdkafka looks for the coordinator of that group even
    if the group has no members, so brokers create ``__consumer_offsets``. The cluster driver keeps
    that topic small.

    Args:
        group: the group of the consumer; without a group, the caller assigns partitions.
        reset: ``earliest`` or ``latest`` if the consumer must reset its position itself, as in
            applications, instead of reporting an error.
        protocol: the group's protocol: ``classic``, or ``consumer``, in which brokers set the
            session timeout (KIP-848, ``harness.releases.group_protocols``).
    """
    # The defaults are 45 s and 3 s: a crashed member would keep its partitions for that time.
    session = {"session.timeout.ms": int(session_s * 1000), "heartbeat.interval.ms": 500}
    return {
        **common_settings,
        "group.id": group or "highwater",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": reset,
        "allow.auto.create.topics": False,  # the harness must notice a missing topic
        "isolation.level": isolation,
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        "fetch.queue.backoff.ms": 20,  # with the default 1000, a full queue pauses for a second
        "queued.max.messages.kbytes": 16_384,
        "fetch.message.max.bytes": 1_048_576,
        **(session if protocol == CLASSIC else {"group.protocol": protocol}),
    }


def share_consumer(
    common_settings: Settings, *, group: str, explicit: bool = False, most: int = 500
) -> Settings:
    """Return settings for a member of a share group (KIP-932).

    Args:
        explicit: whether the member acknowledges every record explicitly.
        most: the greatest number of records that a poll returns.
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
        """Print nothing: the recorder reports a full disk."""


def open_log(path: Path) -> logging.Logger:
    """Return a logger that writes librdkafka's messages to a file, never to the terminal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = logging.Logger(f"clients {path}", logging.INFO)  # noqa: LOG001 - for this run only, not global
    handler = _QuietFileHandler(path)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime  # as brokers do
    handler.setFormatter(formatter)
    log.addHandler(handler)
    log.propagate = False
    return log


def close_log(log: logging.Logger) -> None:
    """Close the log's file."""
    for handler in log.handlers[:]:
        log.removeHandler(handler)
        handler.close()
