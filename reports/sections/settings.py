"""The settings that decide which records a run may lose, each with its meaning."""

from dataclasses import dataclass
from typing import Final

from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.faults.counts import FaultCounts, Happening
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Environment

_ACKS: Final = {
    "0": "the producer waits for no response",
    "1": "the leader's own write is enough",
    "all": "every member of the ISR has the record",
}
_COORDINATION: Final = {"zookeeper": "ZooKeeper", "kraft": "KRaft"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One setting: its name, its value, and the meaning of that value."""

    name: str
    value: str
    means: str = ""


def facts(
    plan: Plan, environment: Environment | None, fault_counts: FaultCounts | None = None
) -> list[Fact]:
    """Return the key facts about a run, the most important first.

    ``environment`` or ``fault_counts`` is None if it cannot be read.
    """
    happened = Happening.of(plan, fault_counts)
    topic, work = plan.topic, plan.workload
    alone = topic.min_insync_replicas <= 1 and work.acks == "all" and not plan.read_only
    return [
        Fact(
            name="Kafka",
            value=plan.software,
            means=_coordination(plan, environment),
        ),
        Fact(name="What happened", value=happened.value, means=happened.means),
        Fact(name="Only read", value=plan.read_only, means="by readers without a group")
        if plan.read_only
        else Fact(name="acks", value=work.acks, means=_ACKS[work.acks]),
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
        *_likeness(plan.topic),
        Fact(name="Seed", value=str(plan.seed)),
        Fact(name="Driver", value=plan.driver, means=environment.platform if environment else ""),
        *_client(plan, environment),
        *(
            [Fact(name="Readers", value=plan.reader_client)]
            if plan.reader_client != LIBRDKAFKA
            else []
        ),
        *_groups(work),
        Fact(name="Truncation", value="", means=environment.truncation if environment else ""),
    ]


def _client(plan: Plan, environment: Environment | None) -> list[Fact]:
    """Return a fact about the producers' library."""
    libraries = ", ".join(environment.libraries) if environment else ""
    client = Fact(name="Client", value=plan.client, means=libraries)
    return [] if plan.client == LIBRDKAFKA else [client]


def _likeness(topic: Topic) -> list[Fact]:
    """Return a fact about the topic whose settings the run's topic copies."""
    if topic.like is None:
        return []
    means = "; ".join(topic.like.says(topic.settings()))
    return [Fact(name="Made like", value=topic.like.topic, means=means)]


def _groups(work: Workload) -> list[Fact]:
    """Return facts about the run's consumer group and share group, if it has them."""
    protocol = f"{work.group_protocol} protocol"
    group = Fact(name="Group", value=f"{work.subscribe} members", means=protocol)
    share = Fact(name="Share group", value=f"{work.share} members")
    return [*([group] if work.subscribe else []), *([share] if work.share else [])]


def _coordination(plan: Plan, environment: Environment | None) -> str:
    """Return ``KRaft``, or ``KRaft, 3 controllers``."""
    name = _COORDINATION.get(environment.coordination, "") if environment else ""
    if plan.controllers == 1:
        return name
    return ", ".join(filter(None, (name, f"{plan.controllers} controllers")))
