"""Settings for Kafka's Java clients, converted from librdkafka's settings.

The names are from Kafka's documentation ("Producer Configs", "Consumer Configs"). If a release does
not have a setting, its client logs a warning, and continues.
"""

from collections.abc import Mapping
from typing import Final

from highwater.harness.clients.client_config import REPORTED, Settings, renamed

Number = tuple[int, ...]

_BLOCKS_MS: Final = 5_000
"""The time that a send may wait for metadata or memory before the client refuses it."""

_SERIALIZER: Final = "org.apache.kafka.common.serialization.ByteArraySerializer"
_SAME: Final = (
    "bootstrap.servers",
    "client.id",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "socket.connection.setup.timeout.ms",
)
_COMMON: Final = {
    **{name: name for name in _SAME},
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
_WRITES: Final = {
    **_COMMON,
    **{
        name: name
        for name in (
            "acks",
            "enable.idempotence",
            "compression.type",
            "max.in.flight.requests.per.connection",
            "retry.backoff.ms",
            "retry.backoff.max.ms",
            "linger.ms",
            "batch.size",
            "transactional.id",
            "transaction.timeout.ms",
        )
    },
    "message.timeout.ms": "delivery.timeout.ms",
    "message.max.bytes": "max.request.size",
    "socket.send.buffer.bytes": "send.buffer.bytes",
}
_FETCHES: Final = {
    **_COMMON,
    "check.crcs": "check.crcs",
    "group.id": "group.id",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
_READS: Final = {
    **_FETCHES,
    **{
        name: name
        for name in (
            "isolation.level",
            "enable.auto.commit",
            "auto.commit.interval.ms",
            "allow.auto.create.topics",
            "group.protocol",
            "session.timeout.ms",
            "max.poll.interval.ms",
            "heartbeat.interval.ms",
        )
    },
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
_SHARES: Final = {
    **_FETCHES,
    "share.acknowledgement.mode": "share.acknowledgement.mode",
    "max.poll.records": "max.poll.records",
    "socket.timeout.ms": "request.timeout.ms",
}
_TEXT: Final = "org.apache.kafka.common.serialization.StringDeserializer"
_PRINTED: Final = {
    **{f"{what}.deserializer": _TEXT for what in ("key", "value")},
    **{f"{what}.deserializer.encoding": "ISO8859_1" for what in ("key", "value")},
}

READ_AT_ONCE: Final = 5_000
"""The greatest number of records that one poll returns."""

_PIPELINED: Final = (1, 0)
"""The first release whose idempotent producers may have several requests in flight."""


def producer(settings: Settings, release: Number) -> dict[str, str]:
    """Return the settings for a Java producer.

    Args:
        settings: librdkafka's settings. Settings that Java does not have are ignored.
        release: the client's release.
    """
    ours = _texts(settings, _WRITES)
    linger_ms, delivery_ms = int(ours["linger.ms"]), int(ours["delivery.timeout.ms"])
    # The client waits as long for a response as librdkafka. The delivery timeout must be longer.
    request_ms = min(settings["socket.timeout.ms"], settings["request.timeout.ms"])
    ours["request.timeout.ms"] = str(max(1, min(request_ms, delivery_ms - linger_ms)))
    ours["max.block.ms"] = str(min(_BLOCKS_MS, delivery_ms))
    ours["buffer.memory"] = str(settings["queue.buffering.max.kbytes"] * 1024)
    ours["retries"] = str(settings.get("retries", 2**31 - 1))
    if release < _PIPELINED and ours["enable.idempotence"] == "true":
        ours["max.in.flight.requests.per.connection"] = "1"
    return {**ours, "key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}


def consumer(settings: Settings) -> dict[str, str]:
    """Return the settings for a Java consumer.

    Keys and values become text in ISO 8859-1, because Java does not print bytes. ``close`` does not
    leave the group, so that the harness can simulate a crash.
    """
    reset = settings["auto.offset.reset"]
    return {
        **_texts(settings, _READS),
        "auto.offset.reset": "none" if reset == REPORTED else reset,
        "internal.leave.group.on.close": "false",
        "fetch.max.bytes": str(settings["queued.max.messages.kbytes"] * 1024),
        "max.poll.records": str(READ_AT_ONCE),
        # Longer than a session, as Java requires. The client waits as long as librdkafka.
        "request.timeout.ms": str(settings["socket.timeout.ms"]),
        "default.api.timeout.ms": str(_BLOCKS_MS),
        "retry.backoff.ms": str(settings["fetch.error.backoff.ms"]),
        **_PRINTED,
    }


def share_consumer(settings: Settings) -> dict[str, str]:
    """Return the settings for a Java share group member."""
    ours = _texts(settings, _SHARES)
    return {**ours, "default.api.timeout.ms": ours["request.timeout.ms"], **_PRINTED}


def _texts(settings: Settings, names: Mapping[str, str]) -> dict[str, str]:
    """Return settings under Java's names, with text values: ``True`` -> ``true``."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in renamed(settings, names).items()
    }
