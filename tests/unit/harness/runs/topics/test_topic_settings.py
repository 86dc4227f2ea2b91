"""Settings that a workload with keys or a remote tier adds, and those that a plan has already."""

from msgspec.structs import replace

from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.topics.topic_settings import with_settings

PLAN = Plan(kafka="4.4.0")


def test_other_plans_stay_as_they_are() -> None:
    assert with_settings(PLAN) == PLAN
    story = replace(PLAN, tiered=True, story="tiered-new-leader")
    assert with_settings(story) == story


def test_keys_have_a_compacted_topic() -> None:
    plan = with_settings(replace(PLAN, workload=Workload(keys=5)))
    assert plan.topic.settings()["cleanup.policy"] == "compact"
    assert "log.cleaner.backoff.ms" in plan.broker_settings()
    assert "--keys 5" in plan.command()
    assert with_settings(plan) == plan


def test_nothing_is_ever_deleted_from_both_tiers() -> None:
    plan = with_settings(replace(PLAN, tiered=True))
    settings = plan.topic.settings()
    assert settings["remote.storage.enable"] == "true"
    assert (settings["retention.ms"], settings["retention.bytes"]) == ("-1", "-1")
    assert int(settings["local.retention.ms"]) > 0
    assert "--tiered" in plan.command()


def test_what_a_plan_says_itself_comes_first() -> None:
    topic = Topic(config={"delete.retention.ms": "1"})
    plan = with_settings(replace(PLAN, topic=topic, workload=Workload(keys=5)))
    assert plan.topic.settings()["delete.retention.ms"] == "1"
