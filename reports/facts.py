"""The settings that decide what a run may lose, each with a word on what it means."""

from dataclasses import dataclass
from typing import Final

from harness.plan import Plan
from harness.store import Environment, Run

_ACKS: Final = {
    "0": "nothing is waited for",
    "1": "the leader's own write is enough",
    "all": "every member of the ISR has it",
}
# ReplicaManager.makeFollowers; KIP-101; KIP-279; KIP-595 (ReplicaFetcherThread at the tags).
_RULES: Final = (
    ((2, 7), "Where the leader says, in its answer to a fetch, that the two logs part (KIP-595)."),
    ((2, 0), "Where the leader says the follower's last epoch ended, epoch by epoch (KIP-279)."),
    ((0, 11), "Where the leader says the follower's last epoch ended (KIP-101)."),
    ((0,), "At its own high watermark, at once, asking nobody (before KIP-101)."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One setting: what it is called, its value, and what that means."""

    name: str
    value: str
    means: str = ""


def facts(run: Run, plan: Plan, environment: Environment | None) -> list[Fact]:
    """The key facts of a run, in the order in which a person asks for them."""
    topic, work = plan.topic, plan.workload
    alone = topic.min_insync_replicas <= 1 and work.acks == "all"
    happened = plan.story or ", ".join(plan.nemesis) or "nothing"
    return [
        Fact(name="Kafka", value=plan.kafka, means=coordination(run, plan.kafka)),
        Fact(
            name="What happened",
            value=happened,
            means="a story" if plan.story else f"at random, for {plan.duration_s:g} s",
        ),
        Fact(name="acks", value=work.acks, means=_ACKS[work.acks]),
        Fact(
            name="min.insync.replicas",
            value=str(topic.min_insync_replicas),
            means="the leader alone can satisfy acks=all" if alone else "",
        ),
        Fact(
            name="Unclean election",
            value="on" if topic.unclean_leader_election else "off",
            means="" if topic.unclean_leader_election else "only ISR members may lead",
        ),
        Fact(
            name="Replicas",
            value=str(topic.replication_factor),
            means=f"on {plan.brokers} brokers, {topic.partitions} partition"
            + ("s" if topic.partitions != 1 else ""),
        ),
        Fact(name="Seed", value=str(plan.seed)),
        Fact(name="Driver", value=plan.driver, means=environment.platform if environment else ""),
        Fact(name="A new follower cuts its log", value="", means=rule(plan.kafka)),
    ]


def numbers(kafka: str) -> tuple[int, ...]:
    """``0.10.2.2`` as numbers; what is no number ends it."""
    found: list[int] = []
    for part in kafka.split("."):
        if not part.isdecimal():
            break
        found.append(int(part))
    return tuple(found)


def rule(kafka: str) -> str:
    """By which rule this version decides where a new follower cuts its log."""
    return next((words for since, words in _RULES if numbers(kafka) >= since), "")


def coordination(run: Run, kafka: str) -> str:
    """ZooKeeper before 2.8, KRaft from 4.0; between them whichever left its log, or ""."""
    if numbers(kafka) < (2, 8):
        return "ZooKeeper"
    if numbers(kafka) >= (4,):
        return "KRaft"
    kept = {"ZooKeeper": "zookeeper*", "KRaft": "controller*"}
    return next((name for name, files in kept.items() if any(run.logs.glob(files))), "")
