"""Settings of topics and brokers that a workload with keys or a remote tier needs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DELETE_RETENTION: Final = "delete.retention.ms"
DELETE_RETENTION_MS: Final = 15_000
"""Kafka retains tombstones for this time. It is longer than a random fault, so that no replica
misses a tombstone, and shorter than a run."""

COMPACTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.ms": "2000",  # only closed segments are cleaned
        "segment.bytes": str(1 << 20),  # the smallest since 4.0 (KIP-1030)
        "min.cleanable.dirty.ratio": "0.01",
        DELETE_RETENTION: str(DELETE_RETENTION_MS),
    }
)
"""Settings for a topic that is compacted every few seconds."""

CLEANER: Final[Mapping[str, str]] = MappingProxyType({"log.cleaner.backoff.ms": "200"})
"""Settings for the brokers of a compacted topic."""

TIERED_TOPIC: Final[Mapping[str, str]] = MappingProxyType(
    {
        "remote.storage.enable": "true",
        "segment.ms": "2000",  # only closed segments are copied
        "segment.bytes": str(1 << 20),  # the smallest since 4.0 (KIP-1030)
        "local.retention.ms": "2000",
    }
)
"""Settings for a topic whose segments are deleted from disks as soon as they are copied.

The remote tier keeps all records: ``retention.ms`` and ``retention.bytes`` are without limit.
"""

TIERED_BROKERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",  # default 30 s: first check for segments to delete
        "remote.log.manager.task.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
    }
)
"""Settings for the brokers of a tiered topic."""


def derived(*, keys: bool, tiered: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings for the topic, and the settings for its brokers."""
    topic = {**(COMPACTED if keys else {}), **(TIERED_TOPIC if tiered else {})}
    return topic, {**(CLEANER if keys else {}), **(TIERED_BROKERS if tiered else {})}
