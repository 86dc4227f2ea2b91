"""One release of Kafka as data, with all its differences from other releases."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

Coordination = Literal["zookeeper", "kraft"]


class Truncation(StrEnum):
    """The rule by which a replica that becomes a follower truncates its log."""

    HIGH_WATERMARK = "high-watermark"
    LEADER_EPOCH = "leader-epoch"
    LEADER_EPOCH_EXACT = "leader-epoch-exact"
    ON_FETCH = "on-fetch"

    @property
    def explanation(self) -> str:
        """One sentence about the rule, for users."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Truncation.HIGH_WATERMARK: (
        "A new follower truncates its log to its own high watermark, although records above it "
        "may be committed (before KIP-101)."
    ),
    Truncation.LEADER_EPOCH: (
        "A new follower asks the leader for the end offset of the follower's latest leader "
        "epoch, and truncates to that offset (KIP-101)."
    ),
    Truncation.LEADER_EPOCH_EXACT: (
        "A new follower asks the leader for the leader's largest epoch that is not above the "
        "follower's, and steps back, epoch by epoch, until both have the same epoch (KIP-279)."
    ),
    Truncation.ON_FETCH: (
        "If a follower's log diverges, the leader's response to its fetch has the offset to "
        "truncate to (KIP-595)."
    ),
}


def version_order(name: str) -> tuple[tuple[int, ...], bool, str]:
    """Return a sort key for release names. A release candidate comes before its release."""
    version, _, suffix = name.partition("-")
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    return numbers, not suffix.startswith("rc"), suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestVersions:
    """The versions of the probe's requests for a release. The defaults are for 2.4 and later.

    Attributes:
        fetch: Fetch version whose response has the high watermark of the broker's own replica.
        fetch_as: replica id in the Fetch, with which leaders and followers both respond: up to 2.3
            the id of a debugging consumer (-2), from 2.4 the id of a plain consumer (-1, KIP-392).
        list_offsets: ListOffsets version whose response has a replica's log end offset. Version 0
            returns a list of offsets, later versions return one offset.
        metadata: Metadata version; from 7 on the response has leader epochs.
        create_topics: CreateTopics version. None up to 0.10.0, which has no such request: the
            harness creates its topics in ZooKeeper.
    """

    fetch: int = 11
    fetch_as: int = -1
    list_offsets: int = 1
    metadata: int = 7
    create_topics: int | None = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of Kafka. The attributes' defaults are for the newest release line.

    Attributes:
        name: Apache's number; with ``-zk`` or ``-kraft`` if the catalogue has both.
        scala: Scala version of the jars.
        extra_jars: Maven ``group:artifact:version`` of jars in addition to the broker's own. These
            jars replace the broker's dependencies. After a trailing ``!``, the jar's parent POM
            does not choose versions of other jars.
        coordination: the system that keeps the cluster's metadata: ``zookeeper`` or ``kraft``.
        truncation: the rule by which followers truncate their logs.
        magic: newest record format that the broker writes to disk (0, 1 or 2).
        wire: request versions for the probe.
        logging: major version of log4j in the jars, 1 or 2.
        config: broker settings that only this release line needs or accepts.
        client: librdkafka settings that clients need with the release.
        heap_mb: heap that a broker of a test cluster needs.
        drivers: cluster drivers that can run the release. In containers, each broker needs an
            inside and an outside listener, and so ``inter.broker.listener.name`` (since 0.10.2).
        window_widens: whether ``replica.fetch.wait.max.ms`` delays a follower's high watermark in
            an idle partition. Leaders of 2.4.0 to 2.5.1 respond at once to a follower with an older
            high watermark (``ReplicaManager.fetchMessages``, ``followerNeedsHwUpdate``).
        note: other facts about the release.
    """

    name: str
    scala: str = "2.13"
    extra_jars: tuple[str, ...] = ()
    coordination: Coordination = "kraft"
    truncation: Truncation = Truncation.ON_FETCH
    magic: int = 2
    wire: RequestVersions = RequestVersions()
    logging: Literal[1, 2] = 1
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    client: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    heap_mb: int = 256
    drivers: tuple[str, ...] = ("local", "docker")
    window_widens: bool = True
    note: str

    @property
    def version(self) -> str:
        """Apache's number, without ``-zk`` or ``-kraft``."""
        return self.name.partition("-")[0]

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers, for comparison."""
        return version_order(self.name)[0]

    @property
    def protocol(self) -> str:
        """The release's newest inter.broker.protocol.version: ``0.10.2``, ``2.8``."""
        return ".".join(self.version.split(".")[: 2 if self.number >= (1,) else 3])

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Maven coordinates of the jars, the broker first."""
        return (f"org.apache.kafka:kafka_{self.scala}:{self.version}", *self.extra_jars)

    @property
    def idempotence(self) -> bool:
        """True if producers can be idempotent (KIP-98, with record format 2 in 0.11)."""
        return self.magic >= 2  # noqa: PLR2004 - record format 2, see above

    @property
    def cuts_to_hw(self) -> bool:
        """True if a new follower truncates to its high watermark: committed records can be lost."""
        return self.truncation is Truncation.HIGH_WATERMARK

    @property
    def elects_unclean(self) -> bool:
        """True if unclean.leader.election.enable takes effect; on KRaft since 3.9 (KAFKA-12670)."""
        return self.coordination == "zookeeper" or self.number >= (3, 9)

    @property
    def elects_by_hand(self) -> bool:
        """True if an operator may request an unclean election, from 2.4 on (KIP-460)."""
        return self.number >= (2, 4)

    @property
    def interrupts_reassignments(self) -> bool:
        """True if an operator may cancel or replace a reassignment, from 2.4 on (KIP-455)."""
        return self.number >= (2, 4)

    @property
    def compressions(self) -> tuple[str, ...]:
        """Compressions that producers may use; zstd came with 2.1 (KIP-110)."""
        early = ("none", "gzip", "snappy", "lz4")
        return (*early, "zstd") if self.number >= (2, 1) else early

    def row(self) -> dict[str, str]:
        """Return the release as a row of ``highwater versions``, for a terminal of 80 columns."""
        return {
            "kafka": self.name,
            "metadata": self.coordination,
            "follower cuts by": self.truncation,
            "records": f"v{self.magic}",
            "zstd": "yes" if "zstd" in self.compressions else "no",
            "drivers": " ".join(self.drivers),
        }

    def describe(self) -> dict[str, object]:
        """Return the complete entry as an object of ``highwater versions --json``."""
        facts: dict[str, object] = {
            attribute.name: getattr(self, attribute.name) for attribute in fields(self)
        }
        facts |= {"wire": asdict(self.wire), "version": self.version}
        facts |= {"config": dict(self.config), "client": dict(self.client)}
        facts |= {"coordinates": self.coordinates, "compressions": self.compressions}
        facts |= {"idempotence": self.idempotence, "explanation": self.truncation.explanation}
        return facts
