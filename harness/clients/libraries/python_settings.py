"""Settings for kafka-python and aiokafka, made from librdkafka's settings, so that all do the same.

Names are from the libraries' documentation. Both lack ``topic.metadata.refresh.fast``, a time-out
for a connection's set-up, and a largest pause between retries. aiokafka has only one time-out,
``request_timeout_ms``, for a request and for the life of a record without idempotence. It sends one
request at a time to a broker, and has no reconnect back-off.
"""

from typing import Any, Final

from highwater.harness.clients.client_config import REPORTED, Settings, renamed

BLOCKS_MS: Final = 5_000
"""Time limit of a send that waits for metadata, and of a new client that waits for a broker."""

_SAME: Final = {
    "client.id": "client_id",
    "retry.backoff.ms": "retry_backoff_ms",
    "linger.ms": "linger_ms",
    "enable.idempotence": "enable_idempotence",
    "transactional.id": "transactional_id",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "message.max.bytes": "max_request_size",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
}
_KAFKA_PYTHON: Final = {
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "message.timeout.ms": "delivery_timeout_ms",
    "socket.send.buffer.bytes": "send_buffer_bytes",
    "batch.size": "batch_size",
    "retries": "retries",
}
_READS: Final = {
    "client.id": "client_id",
    "group.id": "group_id",
    "session.timeout.ms": "session_timeout_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "isolation.level": "isolation_level",
    "check.crcs": "check_crcs",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "fetch.error.backoff.ms": "retry_backoff_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
}
_SECURES: Final = {
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
READ_AT_ONCE: Final = 5_000
"""The most records that one poll returns."""

_AIOKAFKA: Final = {"batch.size": "max_batch_size"}


def kafka_python(settings: Settings) -> dict[str, Any]:
    """Return the settings for kafka-python's ``KafkaProducer``."""
    delivery_ms, linger_ms = settings["message.timeout.ms"], settings["linger.ms"]
    blocks_ms = min(BLOCKS_MS, delivery_ms)
    return {
        **_common(settings, _KAFKA_PYTHON),
        "request_timeout_ms": max(1, min(_request_ms(settings), delivery_ms - linger_ms)),
        "max_block_ms": blocks_ms,
        "bootstrap_timeout_ms": blocks_ms,
        "metrics_enabled": False,
    }


def aiokafka(settings: Settings) -> dict[str, Any]:
    """Return the settings for an ``AIOKafkaProducer``."""
    request_ms = min(_request_ms(settings), settings["message.timeout.ms"])
    return {**_common(settings, _AIOKAFKA), "request_timeout_ms": request_ms}


def kafka_python_consumer(settings: Settings) -> dict[str, Any]:
    """Return the settings for kafka-python's ``KafkaConsumer``."""
    names = {**_READS, "allow.auto.create.topics": "allow_auto_create_topics"}
    backs_off = {name: _KAFKA_PYTHON[name] for name in _KAFKA_PYTHON if "reconnect" in name}
    protocol = settings.get("security.protocol", "plaintext")
    return {
        **_reads(settings, {**names, **backs_off, **_SECURES}),
        "security_protocol": protocol.upper(),
        "ssl_check_hostname": settings.get("ssl.endpoint.identification.algorithm") != "none",
        "bootstrap_timeout_ms": BLOCKS_MS,
        "max_poll_records": READ_AT_ONCE,
        "metrics_enabled": False,
    }


def aiokafka_consumer(settings: Settings) -> dict[str, Any]:
    """Return the settings for an ``AIOKafkaConsumer``."""
    return _reads(settings, _READS)


def _reads(settings: Settings, names: dict[str, str]) -> dict[str, Any]:
    reset = settings["auto.offset.reset"]
    return {
        **renamed(settings, names),
        "auto_offset_reset": "none" if reset == REPORTED else reset,
        "bootstrap_servers": settings["bootstrap.servers"].split(","),
        "enable_auto_commit": False,
        "fetch_max_bytes": settings["queued.max.messages.kbytes"] * 1024,
        "request_timeout_ms": settings["socket.timeout.ms"],
    }


def _common(settings: Settings, more: dict[str, str]) -> dict[str, Any]:
    ours = renamed(settings, {**_SAME, **more})
    acks, codec = str(settings["acks"]), settings["compression.type"]
    ours["acks"] = "all" if acks == "all" else int(acks)
    ours["compression_type"] = None if codec == "none" else codec
    ours["bootstrap_servers"] = settings["bootstrap.servers"].split(",")
    return ours


def _request_ms(settings: Settings) -> int:
    """Return the milliseconds to wait for an answer: as long as librdkafka waits."""
    return int(min(settings["socket.timeout.ms"], settings["request.timeout.ms"]))
