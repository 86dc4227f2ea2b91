"""Settings of topics and brokers for a workload that uses keys or a remote tier."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DELETE_RETENTION: Final = "delete.retention.ms"
DELETE_RETENTION_MS: Final = 15_000
"""The time for which Kafka retains tombstones. This time is longer than a random fault, so that
every replica gets each tombstone, and shorter than a run."""

COMPACTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.ms": "2000",  # Kafka compacts closed segments only
        "segment.bytes": str(1 << 20),  # the smallest allowed value since 4.0 (KIP-1030)
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
        "segment.ms": "2000",  # Kafka copies closed segments only
        "segment.bytes": str(1 << 20),  # the smallest allowed value since 4.0 (KIP-1030)
        "local.retention.ms": "2000",
    }
)
"""Settings for a topic whose segments are deleted from disks soon after their copy to the remote
tier.

The remote tier keeps all records: ``retention.ms`` and ``retention.bytes`` are without limit."""

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
