"""Compare the facts about a cluster with the catalogue of hazards: pure functions."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.checkers.hazards.catalogue import HAZARDS
from highwater.checkers.hazards.conditions import (
    END,
    FEATURES,
    NEWEST,
    ConditionAnswer,
    JavaReleases,
    Situation,
    TransactionalClients,
    Unclean,
    absent,
    decisive,
    of_release_alone,
)
from highwater.checkers.hazards.hazard import Hazard
from highwater.harness.base.wording import count
from highwater.harness.releases.catalogue import CATALOGUE, Release
from highwater.harness.releases.client_choice import ClientChoice
from highwater.harness.releases.cluster_facts import (
    OWN_TOPICS,
    BrokerFacts,
    ClusterFacts,
    ReleaseRange,
    TopicFacts,
    dotted,
    metadata_of,
)

Status = Literal["can lose", "cannot tell", "guarded", "not affected"]

ORDER: Final[tuple[Status, ...]] = ("can lose", "cannot tell", "guarded", "not affected")
"""The statuses, in the order from the worst to the best."""

NAMED_MAX: Final = 5
"""The greatest number of topics that a sentence names. The sentence counts the other topics."""
_MENDABLE: Final = 3
"""The number of replicas that the fix needs. With fewer replicas, min.insync.replicas=2 stops
producers when a broker is down."""
_FACT: Final = re.compile(rf"{FEATURES}|--[a-z-]+ [^;(]*[^;( ]")
"""The name of a missing fact: features, or an option with its values."""
_NO_TOPICS: Final = "a topic: the cluster has no topic that this user may describe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advice about one hazard for one cluster.

    Attributes:
        topics: the topics that have this status.
        reasons: the protections, the reasons why the topics are not affected, or the missing facts.
        command: the command that shows the hazard on a laptop, on the nearest release of the
            catalogue.
        mend: the commands that apply the fix, one per topic; empty if the facts come from files.
        running: whether the facts come from a running cluster.
    """

    hazard: Hazard
    status: Status
    topics: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    command: str = ""
    mend: tuple[str, ...] = ()
    running: bool = True

    @property
    def campaign(self) -> str:
        """The command that shows the hazard on the user's cluster; empty if there is none.

        The run's topic copies the user's first affected topic that is not one of Kafka's internal
        topics, because a run cannot create those.
        """
        if not self.running:
            return ""
        if not self.hazard.campaign or not self.topics:
            return self.hazard.campaign
        like = next((topic for topic in self.topics if topic not in OWN_TOPICS), None)
        return f"{self.hazard.campaign} --like {like}" if like else self.hazard.campaign


def evaluate(
    cluster: ClusterFacts, answers: Mapping[str, str], hazards: Iterable[Hazard] = HAZARDS
) -> list[Advice]:
    """Return the advice about each hazard, in order of status (worst first) and catalogue.

    Args:
        answers: the facts that the user stated by options, by the names in
            ``conditions.CLIENT_OPTIONS``.
    """
    groups = _alike(cluster.topics)
    every = [_advise(hazard, cluster, answers, groups) for hazard in hazards]
    return sorted(every, key=lambda advice: ORDER.index(advice.status))


def worst(every: Sequence[Advice]) -> Status:
    """Return the worst status among the pieces of advice; "not affected" if there are none."""
    return min((advice.status for advice in every), key=ORDER.index, default="not affected")


def newer(
    every: Iterable[Advice], before: Mapping[str, tuple[Status, frozenset[str]]]
) -> list[Advice]:
    """Return the advice with a worse status or more affected topics than in ``before``.

    Args:
        before: the earlier status and topics of each hazard, by its id.
    """
    return [
        advice
        for advice in every
        for status, topics in [before.get(advice.hazard.id, ("not affected", frozenset()))]
        if ORDER.index(advice.status) < ORDER.index(status)
        or (advice.status == status == "can lose" and set(advice.topics) - topics)
    ]


def settles_most(every: Iterable[Advice]) -> str:
    """Return the unknown fact on which most hazards depend; empty if no fact is missing."""
    missing = Counter(
        fact
        for advice in every
        if advice.status == "cannot tell"
        for fact in set(_FACT.findall("; ".join(advice.reasons)))
    )
    return missing.most_common(1)[0][0] if missing else ""


def _alike(topics: Iterable[TopicFacts]) -> list[list[TopicFacts]]:
    """Group the topics that have the same replicas and settings."""
    groups: dict[object, list[TopicFacts]] = {}
    for topic in topics:
        settings = None if topic.settings is None else tuple(sorted(topic.settings.items()))
        groups.setdefault((topic.replicas, settings, topic.inherits), []).append(topic)
    return list(groups.values())


def _advise(
    hazard: Hazard,
    cluster: ClusterFacts,
    answers: Mapping[str, str],
    groups: Sequence[Sequence[TopicFacts]],
) -> Advice:
    topic = cluster.own_topic(hazard.topic) if hazard.topic else None
    if topic is not None:
        groups = [[topic]]
    if not groups:
        return Advice(hazard=hazard, status="cannot tell", reasons=(_NO_TOPICS,))
    if hazard.topic and topic is None:
        return Advice(hazard=hazard, status="not affected", reasons=(absent(hazard.topic).why,))
    by_status: dict[Status, list[tuple[Sequence[TopicFacts], list[ConditionAnswer]]]] = {}
    for topics in groups:
        situation = Situation(cluster=cluster, topic=topics[0], answers=answers)
        deciding = decisive([part.answer(situation) for part in hazard.conditions])
        by_status.setdefault(_status(deciding), []).append((topics, deciding))
    status = min(by_status, key=ORDER.index)
    hit = [facts for topics, _ in by_status[status] for facts in topics]
    return Advice(
        hazard=hazard,
        status=status,
        topics=tuple(sorted(facts.name for facts in hit)),
        reasons=_reasons(by_status[status]),
        command=command(hazard, cluster) if status == "can lose" else "",
        mend=_mend(hazard, cluster, hit) if status == "can lose" else (),
        running=cluster.running,
    )


def _mend(hazard: Hazard, cluster: ClusterFacts, topics: Iterable[TopicFacts]) -> tuple[str, ...]:
    """Return the commands of Kafka's tools that apply the hazard's fix to a running cluster."""
    if not (hazard.alter and cluster.running):
        return ()
    start = f"kafka-configs.sh --bootstrap-server {cluster.brokers[0].address} --alter"
    return tuple(
        f"{start} --entity-type topics --entity-name {topic} --add-config {hazard.alter}"
        for topic in sorted(facts.name for facts in topics if facts.replicas >= _MENDABLE)
    )


def _status(deciding: Sequence[ConditionAnswer]) -> Status:
    if not deciding:
        return "can lose"
    if deciding[0].holds == "unknown":
        return "cannot tell"
    return "not affected" if deciding[0].fixed else "guarded"


def _reasons(
    answered: Sequence[tuple[Sequence[TopicFacts], Sequence[ConditionAnswer]]],
) -> tuple[str, ...]:
    """Return the reasons for a status. A reason names its topics if it does not apply to all."""
    topics_by_why: dict[str, list[str]] = {}
    for topics, deciding in answered:
        for answer in deciding:
            topics_by_why.setdefault(answer.why, []).extend(topic.name for topic in topics)
    every = sum(len(topics) for topics, _ in answered)
    return tuple(
        why if len(topics) == every else f"{why} ({named(sorted(topics))})"
        for why, topics in topics_by_why.items()
    )


def headline(every: Sequence[Advice]) -> str:
    """Return the most important result as one sentence."""
    statuses = Counter(advice.status for advice in every)
    total = count(len(every), "hazard")
    if statuses["can lose"]:
        applies = "applies" if statuses["can lose"] == 1 else "apply"
        return f"{statuses['can lose']} of {total} {applies} to this cluster."
    if statuses["cannot tell"]:
        return f"More facts are needed to judge {statuses['cannot tell']} of {total}."
    return f"None of {total} applies to this cluster."


def by_reason(every: Iterable[Advice], status: Status) -> dict[str, list[str]]:
    """Return the ids of the hazards that have a status, by the reason."""
    hazards: dict[str, list[str]] = {}
    for advice in every:
        if advice.status == status:
            hazards.setdefault("; ".join(advice.reasons), []).append(advice.hazard.id)
    return hazards


def by_topic(every: Iterable[Advice]) -> dict[tuple[str, ...], list[str]]:
    """Return the topics that can lose records, by the ids of their hazards."""
    of_topic: dict[str, list[str]] = {}
    for advice in every:
        for topic in advice.topics if advice.status == "can lose" else ():
            of_topic.setdefault(topic, []).append(advice.hazard.id)
    alike: dict[tuple[str, ...], list[str]] = {}
    for topic in sorted(of_topic):
        alike.setdefault(tuple(of_topic[topic]), []).append(topic)
    return alike


def named(topics: Sequence[str]) -> str:
    """Return the first topics as text, such as ``a, b and 3 more``."""
    more = f" and {len(topics) - NAMED_MAX:,} more" if len(topics) > NAMED_MAX else ""
    return f"{', '.join(topics[:NAMED_MAX])}{more}"


def command(hazard: Hazard, cluster: ClusterFacts) -> str:
    """Return the command that shows a hazard, on the release nearest to the cluster's releases."""
    affected = [entry for entry in CATALOGUE.values() if of_release(hazard, entry)]
    ranges = [broker.release for broker in cluster.brokers if broker.release is not None]
    near = [
        entry.name
        for entry in affected
        if entry.coordination == cluster.coordination
        and entry.number >= hazard.played_from
        and any(_may_be(entry, release) for release in ranges)
    ]
    return hazard.command.format(kafka=near[-1] if near else hazard.played_on)


def default_command(hazard: Hazard) -> str:
    """Return the command that shows a hazard, on the hazard's ``played_on`` release."""
    return hazard.command.format(kafka=hazard.played_on)


def unread(cluster: ClusterFacts) -> list[str]:
    """Return sentences about brokers that are too new for the catalogue."""
    newer = [
        broker
        for broker in cluster.brokers
        if broker.release
        and (broker.release.first >= END if broker.release.exact else broker.release.below is None)
    ]
    if not newer:
        return []
    sentence = (
        f"Broker {newer[0].id} is newer than the catalogue, which ends at {dotted(NEWEST)}. This"
        " broker may have fixes and hazards that the catalogue does not know."
    )
    return [sentence]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeHazards:
    """The hazards that an upgrade removes, adds, and does not change."""

    ends: tuple[Hazard, ...]
    begins: tuple[Hazard, ...]
    stays: tuple[Hazard, ...]


def upgraded(before: Release, after: Release) -> UpgradeHazards:
    """Compare the hazards of a release with those of the release after an upgrade."""
    had = [hazard for hazard in HAZARDS if of_release(hazard, before)]
    has = [hazard for hazard in HAZARDS if of_release(hazard, after)]
    return UpgradeHazards(
        ends=tuple(hazard for hazard in had if hazard not in has),
        begins=tuple(hazard for hazard in has if hazard not in had),
        stays=tuple(hazard for hazard in had if hazard in has),
    )


def _may_be(entry: Release, release: ReleaseRange) -> bool:
    if release.exact:
        return entry.number == release.first
    return entry.number >= release.first and (release.below is None or entry.number < release.below)


def of_clients(hazard: Hazard, client: ClientChoice, brokers: Release) -> bool:
    """Return whether a run's clients meet all client conditions of a hazard, on new brokers."""
    return all(
        part.holds_for(client, brokers)
        for part in hazard.conditions
        if isinstance(part, JavaReleases | TransactionalClients)
    )


def of_release(hazard: Hazard, entry: Release, protocol: str = "") -> bool:
    """Return whether a release of the catalogue has the hazard.

    Args:
        protocol: the metadata.version of a KRaft cluster, such as 3.4; empty for the default.
    """
    kraft = entry.coordination == "kraft"
    exact = ReleaseRange(first=entry.number, below=None, exact=True)
    broker = BrokerFacts(id=0, address="", rack=None, release=exact, settings=None)
    cluster = ClusterFacts(
        cluster_id="",
        coordination=entry.coordination,
        brokers=(broker,),
        topics=(),
        controllers=None,
        features=metadata_of(protocol or entry.protocol) if kraft else None,
        own_topics=(),
        unseen=(),
        requests={},
    )
    topic = TopicFacts(name="", partitions=0, replicas=0, settings=None)
    situation = Situation(cluster=cluster, topic=topic, answers={})
    if not entry.elects_unclean and any(
        isinstance(part, Unclean) and part.allowed for part in hazard.conditions
    ):
        return False
    return all(
        part.answer(situation).holds == "yes"
        for part in hazard.conditions
        if of_release_alone(part)
    )
