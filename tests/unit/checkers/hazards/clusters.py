"""Facts of clusters, made by hand."""

from collections.abc import Mapping

from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.cluster_facts import (
    ELR_FEATURE,
    POSITIONS,
    SHARE_GROUPS,
    TRANSACTIONS,
    BrokerFacts,
    ClusterFacts,
    ReleaseRange,
    TopicFacts,
    metadata_of,
)


def topic(
    name: str = "events", *, replicas: int = 3, settings: Mapping[str, str] | None = None
) -> TopicFacts:
    """A safe topic unless told otherwise: two in-sync replicas, clean elections, kept a week."""
    values = {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "message.timestamp.type": "CreateTime",
        **(settings or {}),
    }
    return TopicFacts(name=name, partitions=1, replicas=replicas, settings=values)


def cluster(
    kafka: str = "4.4.0",
    *topics: TopicFacts,
    ranges: tuple[ReleaseRange | None, ...] = (),
    features: Mapping[str, int] | None = None,
    protocol: str = "",
    transactions: bool = False,
    groups: bool = False,
    share_groups: bool = False,
    own: tuple[TopicFacts, ...] = (),
) -> ClusterFacts:
    """A cluster that began with a release of the catalogue, unless told otherwise."""
    entry = release(kafka)
    exact = ReleaseRange(first=entry.number, below=None, exact=True)
    elr = {ELR_FEATURE: int(rules_of(kafka, protocol=protocol).elr)}
    metadata = metadata_of(protocol or entry.protocol)
    kraft = entry.coordination == "kraft"
    settings = {} if kraft else {"inter.broker.protocol.version": protocol or entry.protocol}
    seen_by = {POSITIONS: groups, TRANSACTIONS: transactions, SHARE_GROUPS: share_groups}
    brought = [name for name, there in seen_by.items() if there]
    brokers = tuple(
        BrokerFacts(
            id=number, address=f"b{number}:9092", rack=None, release=seen, settings=settings
        )
        for number, seen in enumerate(ranges or (exact,) * 3, start=1)
    )
    return ClusterFacts(
        cluster_id="c",
        coordination=entry.coordination,
        brokers=brokers,
        topics=topics or (topic(),),
        controllers=3 if kraft else None,
        features=metadata | dict(elr if features is None else features) if kraft else None,
        own_topics=own or tuple(topic(name) for name in brought),
        unseen=(),
        requests={},
    )
