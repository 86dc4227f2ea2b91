"""Settings of topics and brokers that follow from a workload's keys and from a remote tier."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DELETE_RETENTION: Final = "delete.retention.ms"
DELETE_RETENTION_MS: Final = 15_000
"""Longer than a random fault, so that no replica misses a tombstone; shorter than a run."""

COMPACTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.ms": "2000",  # only what is no longer written to is cleaned
        "segment.bytes": str(1 << 20),  # the smallest since 4.0 (KIP-1030)
        "min.cleanable.dirty.ratio": "0.01",
        DELETE_RETENTION: str(DELETE_RETENTION_MS),
    }
)
"""Settings of a topic that is cleaned every few seconds."""

CLEANER: Final[Mapping[str, str]] = MappingProxyType({"log.cleaner.backoff.ms": "200"})
"""Settings of its brokers."""

TIERED_TOPIC: Final[Mapping[str, str]] = MappingProxyType(
    {
        "remote.storage.enable": "true",
        "segment.ms": "2000",  # only what is no longer written to is copied
        "segment.bytes": str(1 << 20),  # the smallest since 4.0 (KIP-1030)
        "local.retention.ms": "2000",
    }
)
"""Settings of a topic whose segments are deleted from disks as soon as they are copied.

Nothing is ever deleted from both tiers: ``retention.ms`` and ``retention.bytes`` are without limit.
"""

TIERED_BROKERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",  # 30 s: when a broker first looks what to delete
        "remote.log.manager.task.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
    }
)
"""Settings of its brokers."""


def derived(*, keys: bool, tiered: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of the topic, and those of its brokers."""
    topic = {**(COMPACTED if keys else {}), **(TIERED_TOPIC if tiered else {})}
    return topic, {**(CLEANER if keys else {}), **(TIERED_BROKERS if tiered else {})}
