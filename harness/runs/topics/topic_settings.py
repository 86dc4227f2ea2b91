"""Settings of topic and brokers that a workload with keys or a remote tier needs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from highwater.harness.runs.plan import Plan
from highwater.harness.runs.topics.record_keys import CLEANER, COMPACTED

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


def with_settings(plan: Plan) -> Plan:
    """Return a plan whose topic and brokers have the settings that its workload needs."""
    keys, tiered = plan.workload.keys > 0, plan.tiered and plan.story is None
    topic = {**(COMPACTED if keys else {}), **(TIERED_TOPIC if tiered else {})}
    brokers = {**(CLEANER if keys else {}), **(TIERED_BROKERS if tiered else {})}
    return replace(
        plan,
        topic=replace(plan.topic, config=topic | plan.topic.config),
        broker_config=brokers | plan.broker_config,
    )
