"""Add the topic and broker settings for a workload with keys or a remote tier."""

from msgspec.structs import replace

from highwater.harness.runs.derived_settings import derived
from highwater.harness.runs.plan import Plan


def with_settings(plan: Plan) -> Plan:
    """Return the plan with the topic and broker settings that its workload needs."""
    tiered = plan.tiered and plan.story is None
    topic, brokers = derived(keys=plan.workload.keys > 0, tiered=tiered)
    return replace(
        plan,
        topic=replace(plan.topic, config=topic | plan.topic.config),
        broker_config=brokers | plan.broker_config,
    )
