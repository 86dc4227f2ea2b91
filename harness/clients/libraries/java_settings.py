"""Settings of Kafka's Java clients, made from those of librdkafka, so that both do the same.

Names are those of Kafka's documentation ("Producer Configs"). What a release does not know yet is
in the table, too: its client writes a line about it into its log, and goes on.
"""

from typing import Final

from highwater.harness.clients.client_config import Settings

Number = tuple[int, ...]

_BLOCKS_MS: Final = 5_000
"""So long a send may wait for metadata or for memory until it is refused."""

_DESERIALIZER: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_SERIALIZER: Final = "org.apache.kafka.common.serialization.ByteArraySerializer"
_SAME: Final = (
    "bootstrap.servers",
    "client.id",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
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
_RENAMED: Final = {
    "message.timeout.ms": "delivery.timeout.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "message.max.bytes": "max.request.size",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
_SHARING: Final = {
    "bootstrap.servers": "bootstrap.servers",
    "client.id": "client.id",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "group.id": "group.id",
    "share.acknowledgement.mode": "share.acknowledgement.mode",
    "max.poll.records": "max.poll.records",
    "check.crcs": "check.crcs",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
"""Of a member of a share group: librdkafka's names, and Java's."""

_PIPELINED: Final = (1, 0)
"""Before that an idempotent producer has one request in flight at a time."""


def producer(settings: Settings, release: Number) -> dict[str, str]:
    """Return the settings of a Java producer.

    Args:
        settings: of librdkafka; what Java has no counterpart of is left out.
        release: of the client.
    """
    names = {**{name: name for name in _SAME}, **_RENAMED}
    ours = {
        java: _text(settings[name])
        for name, java in names.items()
        if settings.get(name) is not None
    }
    linger_ms, delivery_ms = int(ours["linger.ms"]), int(ours["delivery.timeout.ms"])
    # An answer is waited for as long as by librdkafka; Java wants a delivery to take longer.
    request_ms = min(settings["socket.timeout.ms"], settings["request.timeout.ms"])
    ours["request.timeout.ms"] = str(max(1, min(request_ms, delivery_ms - linger_ms)))
    ours["max.block.ms"] = str(min(_BLOCKS_MS, delivery_ms))
    ours["buffer.memory"] = str(settings["queue.buffering.max.kbytes"] * 1024)
    ours["retries"] = str(settings.get("retries", 2**31 - 1))
    if release < _PIPELINED and ours["enable.idempotence"] == "true":
        ours["max.in.flight.requests.per.connection"] = "1"
    return {**ours, "key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}


def share_consumer(settings: Settings) -> dict[str, str]:
    """Return the settings of a Java member of a share group."""
    ours = {java: _text(settings[name]) for name, java in _SHARING.items() if name in settings}
    return {
        **ours,
        "default.api.timeout.ms": ours["request.timeout.ms"],
        "key.deserializer": _DESERIALIZER,
        "value.deserializer": _DESERIALIZER,
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
