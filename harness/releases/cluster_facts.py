"""Facts about a running cluster that any client may read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.harness.releases.release import Coordination

Settings = Mapping[str, str]
Number = tuple[int, ...]

ELR_FEATURE: Final = "eligible.leader.replicas.version"
METADATA_FEATURE: Final = "metadata.version"
TRANSACTION_FEATURE: Final = "transaction.version"
SHARE_FEATURE: Final = "share.version"

METADATA: Final[Mapping[int, Number]] = {
    7: (3, 3), 8: (3, 4), 11: (3, 5), 14: (3, 6), 19: (3, 7), 20: (3, 8), 21: (3, 9),
    25: (4, 0), 27: (4, 1), 29: (4, 2), 30: (4, 3), 33: (4, 4),
}  # fmt: skip
"""The newest metadata.version of each line: ``MetadataVersion.LATEST_PRODUCTION`` in Kafka's
source. Up to 3.6 that name does not exist: the newest metadata.version is the last constant."""

_BEFORE_METADATA: Final = 3
"""The metadata.version of 3.2. Later lines have a feature with this name."""

BROKER_EPOCHS: Final = 10
"""From this metadata.version on, a follower sends its broker epoch in Fetch: 3.5-IV1 (KIP-903,
``MetadataVersion.fetchRequestVersion``)."""

PROTOCOL: Final = "inter.broker.protocol.version"
VERIFICATION: Final = "transaction.partition.verification.enable"
"""A broker setting since 3.6, true by default (KIP-890)."""
UNCLEAN: Final = "unclean.leader.election.enable"
GROUPS_CODEC: Final = "offsets.topic.compression.codec"
"""The broker setting for the number of the codec with which a coordinator writes; 0: none."""
POSITIONS_RETENTION: Final = "offsets.retention.minutes"
"""The broker setting for how long a coordinator stores the offsets of a group without members."""


POSITIONS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
SHARE_GROUPS: Final = "__share_group_state"
REMOTE_TIER: Final = "__remote_log_metadata"
OWN_TOPICS: Final = (POSITIONS, TRANSACTIONS, SHARE_GROUPS, REMOTE_TIER)
"""Kafka's internal topics. Kafka creates each topic for the first group, transactional client,
share group (KIP-932) or tiered topic (KIP-405)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRange:
    """The possible releases of a broker. No response of a broker contains its release.

    Attributes:
        first: the oldest release that the broker may have, such as (4, 0).
        below: the first later release that the broker cannot have. None if the broker is newer than
            the catalogue.
        exact: whether the user named the release. Then ``first`` is this release.
    """

    first: Number
    below: Number | None
    exact: bool = False

    def __str__(self) -> str:
        first = dotted(self.first)
        if self.exact:
            return first
        if self.below is None:
            return f"newer than {first}"
        if self.below == successor(self.first):
            return f"{first}.x"
        return f"from {first} to before {dotted(self.below)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """Facts about one broker.

    Attributes:
        release: None if its supported requests match no release in the catalogue.
        settings: None if they could not be read.
    """

    id: int
    address: str
    rack: str | None
    release: ReleaseRange | None
    settings: Settings | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """Facts about one topic.

    Attributes:
        replicas: the smallest number of replicas that a partition has.
        settings: the settings in force, defaults included; None if they could not be read.
        inherits: names of settings that the topic gets from a broker's file or from Kafka's
            defaults. The controllers may have other values of these settings.
    """

    name: str
    partitions: int
    replicas: int
    settings: Settings | None
    inherits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Facts about one cluster.

    Attributes:
        controllers: number of voters in the KRaft quorum; None on ZooKeeper or if it could not be
            read.
        features: the finalized levels, or the levels in the files. None before 2.7, which has no
            features.
        own_topics: the topics of ``OWN_TOPICS`` that the user is authorized to describe.
        unseen: sentences about facts that could not be read, with the reason.
        requests: API name to the number of calls.
        running: False if the facts are from files.
        defaults: Kafka's defaults of broker settings that the files do not set.
        unclean_controllers: whether a KRaft controller's own settings allow unclean elections. None
            if they were not read.
    """

    cluster_id: str
    coordination: Coordination
    brokers: tuple[BrokerFacts, ...]
    topics: tuple[TopicFacts, ...]
    controllers: int | None
    features: Mapping[str, int] | None
    own_topics: tuple[TopicFacts, ...]
    unseen: tuple[str, ...]
    requests: Mapping[str, int]
    running: bool = True
    defaults: Settings = field(default_factory=dict)
    unclean_controllers: bool | None = None

    def level(self, feature: str) -> int | None:
        """Return a feature's level: 0 if it is not finalized, None if it is unknown."""
        whole = self.features is not None and self.running
        there_are_none = self.coordination == "zookeeper"
        return (self.features or {}).get(feature, 0 if whole or there_are_none else None)

    def own_topic(self, name: str) -> TopicFacts | None:
        """Return one of Kafka's own topics; None if the user is not authorized to describe it."""
        return next((topic for topic in self.own_topics if topic.name == name), None)


def successor(line: Number) -> Number:
    """Return the next release line: (4, 0) -> (4, 1), (0, 11, 0) -> (0, 11, 1)."""
    return (*line[:-1], line[-1] + 1)


def metadata_of(protocol: str) -> dict[str, int]:
    """Return ``{"metadata.version": level}`` of ``3.4`` or ``3.5-IV1``; empty before 3.3."""
    line, _, internal = protocol.partition("-IV")
    levels = [level for level, of in METADATA.items() if of == numbers(line)]
    if levels and internal.isdecimal():
        earlier = [level for level, of in METADATA.items() if of < numbers(line)]
        levels = [max(earlier, default=_BEFORE_METADATA) + 1 + int(internal)]
    return {METADATA_FEATURE: level for level in levels}  # noqa: B035 - one line, one level


def dotted(number: Number) -> str:
    """Return a version as text: (0, 10, 2) -> ``0.10.2``."""
    return ".".join(map(str, number))


def numbers(text: str) -> Number:
    """Return the numbers at the start of a version: ``0.10.2-IV0`` -> (0, 10, 2)."""
    parts = text.partition("-")[0].split(".")
    return tuple(int(part) for part in parts if part.isdecimal())
