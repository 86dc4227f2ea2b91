"""Facts of clusters, made by hand."""

from collections.abc import Mapping

from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.cluster_facts import (
    ELR_FEATURE,
    BrokerFacts,
    ClusterFacts,
    ReleaseRange,
    TopicFacts,
)


def topic(
    name: str = "events", *, replicas: int = 3, settings: Mapping[str, str] | None = None
) -> TopicFacts:
    """A topic; min.insync.replicas is 2, and elections are clean, unless told otherwise."""
    values = {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
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
) -> ClusterFacts:
    """A cluster that began with a release of the catalogue, unless told otherwise."""
    entry = release(kafka)
    exact = ReleaseRange(first=entry.number, below=None, exact=True)
    elr = {ELR_FEATURE: int(rules_of(kafka, protocol=protocol).elr)}
    kraft = entry.coordination == "kraft"
    settings = {} if kraft else {"inter.broker.protocol.version": protocol or entry.protocol}
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
        features=(elr if features is None else features) if kraft else None,
        transactions=transactions,
        groups=groups,
        share_groups=share_groups,
        unseen=(),
        requests={},
    )
