"""The catalogue of Kafka releases: everything in which one release differs from the next, as data.

A new release is one entry here and one lock file (``python -m clusters.lock NAME`` writes it).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from harness.errors import UsageError
from harness.suggest import nearest

Coordination = Literal["zookeeper", "kraft"]


class Truncation(StrEnum):
    """How a replica that becomes a follower decides where to cut its log."""

    HIGH_WATERMARK = "high-watermark"
    LEADER_EPOCH = "leader-epoch"
    LEADER_EPOCH_EXACT = "leader-epoch-exact"
    ON_FETCH = "on-fetch"

    @property
    def explanation(self) -> str:
        """One sentence for a person."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Truncation.HIGH_WATERMARK: (
        "A new follower cuts its log to its own high watermark at once, asking nobody, although "
        "records above it may be committed (before KIP-101)."
    ),
    Truncation.LEADER_EPOCH: (
        "A new follower asks the leader where the follower's latest epoch ended and cuts there "
        "(KIP-101)."
    ),
    Truncation.LEADER_EPOCH_EXACT: (
        "A new follower asks the leader for the largest epoch not above its own, and goes back "
        "epoch by epoch until both agree (KIP-279)."
    ),
    Truncation.ON_FETCH: (
        "A follower fetches with its last epoch, and the leader's answer tells where the logs "
        "diverge (KIP-595)."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Versions of the requests with which the probe asks this release.

    Attributes:
        fetch: Fetch version whose answer carries the asked replica's own high watermark.
        fetch_as: the replica id to pose as: -2 is a debugging consumer, which any replica answered
            up to 2.3; from 2.4 any replica answers a plain consumer, -1 (KIP-392).
        list_offsets: ListOffsets version that answers with a replica's LEO.
        metadata: Metadata version; from 7 on it carries leader epochs.
        create_topics: CreateTopics version.
    """

    fetch: int
    fetch_as: int
    list_offsets: int
    metadata: int
    create_topics: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of Kafka.

    Attributes:
        name: as Apache numbers it.
        coordinates: Maven ``group:artifact:version``, the broker first; a trailing ``!`` takes a
            jar without letting its own parent's version choices reach the others.
        coordination: who keeps the cluster's metadata.
        truncation: the rule by which followers cut their logs.
        magic: newest record format that the broker writes to disk (0, 1 or 2).
        wire: request versions for the probe.
        logging: generation of log4j that the jars bring, 1 or 2.
        config: broker settings that only this release's line needs or knows.
        heap_mb: heap that a broker of a test cluster needs.
        drivers: cluster drivers that can run it. Containers need two listeners for each broker,
            one inside and one outside, which came with ``inter.broker.listener.name`` in 0.10.2.
    """

    name: str
    coordinates: tuple[str, ...]
    coordination: Coordination
    truncation: Truncation
    magic: int
    wire: Wire
    logging: Literal[1, 2] = 1
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    heap_mb: int = 256
    drivers: tuple[str, ...] = ("local", "docker")

    @property
    def number(self) -> tuple[int, ...]:
        """The name as numbers, for comparison."""
        return tuple(int(part) for part in self.name.split("."))

    @property
    def idempotence(self) -> bool:
        """Whether producers can be idempotent (KIP-98); that came with record format 2, in 0.11."""
        return self.magic >= 2  # noqa: PLR2004 - record format 2, as said above

    @property
    def cuts_to_hw(self) -> bool:
        """Whether a new follower cuts its log to its own HW, so that committed records can go."""
        return self.truncation is Truncation.HIGH_WATERMARK

    @property
    def compressions(self) -> tuple[str, ...]:
        """Codecs that producers may use; zstd came with 2.1 (KIP-110)."""
        early = ("none", "gzip", "snappy", "lz4")
        return (*early, "zstd") if self.number >= (2, 1) else early

    def describe(self) -> dict[str, str]:
        """The release as a row of ``highwater versions``."""
        return {
            "kafka": self.name,
            "coordination": self.coordination,
            "truncation": self.truncation,
            "record format": f"v{self.magic}",
            "idempotence": "yes" if self.idempotence else "no",
            "compression": " ".join(self.compressions),
            "how a new follower cuts its log": self.truncation.explanation,
        }


# Java 9 dropped javax.xml.bind, which brokers before 2.0 use.
_JAXB = "javax.xml.bind:jaxb-api:2.3.1!"
_SINCE_0_10_1 = Wire(fetch=2, fetch_as=-2, list_offsets=1, metadata=1, create_topics=0)
_SINCE_2_4 = Wire(fetch=11, fetch_as=-1, list_offsets=1, metadata=7, create_topics=2)

_ENTRIES = (
    Release(
        name="0.10.2.2",
        coordinates=("org.apache.kafka:kafka_2.11:0.10.2.2", _JAXB),
        coordination="zookeeper",
        truncation=Truncation.HIGH_WATERMARK,
        magic=1,
        wire=_SINCE_0_10_1,
    ),
    Release(
        name="0.11.0.3",
        coordinates=("org.apache.kafka:kafka_2.11:0.11.0.3", _JAXB),
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH,
        magic=2,
        wire=_SINCE_0_10_1,
    ),
    Release(
        name="4.3.1",
        coordinates=(
            "org.apache.kafka:kafka_2.13:4.3.1",
            # Kafka 4 leaves the choice of a log4j binding to whoever starts it.
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4!",
        ),
        coordination="kraft",
        truncation=Truncation.ON_FETCH,
        magic=2,
        wire=_SINCE_2_4,
        logging=2,
    ),
)

CATALOGUE: Mapping[str, Release] = MappingProxyType({entry.name: entry for entry in _ENTRIES})

SAMPLE: Final[tuple[str, ...]] = ("0.10.2.2", "0.11.0.3", "4.3.1")
"""One release of each generation, for tests on real brokers that cannot run them all."""


def release(name: str) -> Release:
    """Look up a release by its number.

    Raises:
        UsageError: it is not in the catalogue; the hint names the nearest and lists all.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    raise UsageError(f"Kafka {name!r} is not in the catalogue", hint=nearest(name, CATALOGUE))
