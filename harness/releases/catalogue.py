"""The catalogue of Kafka releases.

A new release is one entry here and one lock file; see docs/adding-a-version.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest_release
from highwater.harness.releases.release import Coordination, Release, RequestVersions, Truncation

__all__ = [
    "CATALOGUE",
    "MODERN",
    "SAMPLE",
    "Coordination",
    "Release",
    "RequestVersions",
    "Truncation",
    "release",
]

# Java 9 dropped javax.xml.bind, which brokers before 2.0 use.
_JAXB = ("javax.xml.bind:jaxb-api:2.3.1!",)
# From 1.1 on the user has to choose a log4j binding.
_LOG4J = ("org.slf4j:slf4j-log4j12:1.7.30!",)
_RELOAD4J = ("org.slf4j:slf4j-reload4j:1.7.36!",)
_LOG4J_2 = ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4!",)

# The ZooKeeper 3.4.13 client, which Kafka 2.0 and 2.1 ship, resolves no address on Java 17.
_ZOOKEEPER_3_4_10 = ("org.apache.zookeeper:zookeeper:3.4.10!",)

_UP_TO_0_9 = RequestVersions(fetch=1, fetch_as=-2, list_offsets=0, metadata=0, create_topics=None)
_UP_TO_0_10_0 = RequestVersions(
    fetch=2, fetch_as=-2, list_offsets=0, metadata=1, create_topics=None
)
_UP_TO_2_3 = RequestVersions(fetch=2, fetch_as=-2, list_offsets=1, metadata=1, create_topics=1)

# ApiVersions came with 0.10.0 (KIP-35); with older brokers, librdkafka must know the version.
_BEFORE_API_VERSIONS = MappingProxyType(
    {"api.version.request": "false", "broker.version.fallback": "0.9.0"}
)

_ENTRIES = (
    Release(
        name="0.9.0.1",
        scala="2.11",
        extra_jars=_JAXB,
        coordination="zookeeper",
        truncation=Truncation.HIGH_WATERMARK,
        magic=0,
        wire=_UP_TO_0_9,
        client=_BEFORE_API_VERSIONS,
        drivers=("local",),
        note=(
            "Records have no timestamps. ApiVersions and CreateTopics do not exist, so the "
            "client is configured with the release, and topics are written in ZooKeeper."
        ),
    ),
    Release(
        name="0.10.0.1",
        scala="2.11",
        extra_jars=_JAXB,
        coordination="zookeeper",
        truncation=Truncation.HIGH_WATERMARK,
        magic=1,
        wire=_UP_TO_0_10_0,
        drivers=("local",),
        note=(
            "The first record format with timestamps. CreateTopics does not exist, so topics are "
            "written in ZooKeeper."
        ),
    ),
    Release(
        name="0.10.2.2",
        scala="2.11",
        extra_jars=_JAXB,
        coordination="zookeeper",
        truncation=Truncation.HIGH_WATERMARK,
        magic=1,
        wire=_UP_TO_2_3,
        note=(
            "The last line that truncates to the HW. While a deposed leader is paused, the new "
            "leader can hang for many seconds while it shuts down its fetcher."
        ),
    ),
    Release(
        name="0.11.0.2",
        scala="2.11",
        extra_jars=_JAXB,
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH,
        wire=_UP_TO_2_3,
        note=(
            "The first line with leader epochs (KIP-101), in record batches of format 2 (KIP-98). "
            "Has KAFKA-6857."
        ),
    ),
    Release(
        name="0.11.0.3",
        scala="2.11",
        extra_jars=_JAXB,
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH,
        wire=_UP_TO_2_3,
        note="KAFKA-6857 is fixed.",
    ),
    Release(
        name="1.0.2",
        scala="2.11",
        extra_jars=_JAXB,
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH,
        wire=_UP_TO_2_3,
        note="Like 0.11.0.3. Releases 1.0.0, 1.0.1 and 1.1.0 have KAFKA-6857.",
    ),
    Release(
        name="1.1.1",
        scala="2.12",
        extra_jars=(*_LOG4J, *_JAXB),
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH,
        wire=_UP_TO_2_3,
        note=(
            "A follower that diverged inside a batch gets UnexpectedAppendOffsetException, and "
            "its fetcher stops permanently."
        ),
    ),
    Release(
        name="2.0.0",
        scala="2.12",
        extra_jars=(*_LOG4J, *_ZOOKEEPER_3_4_10),
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH_EXACT,
        wire=_UP_TO_2_3,
        note=(
            "The first line with KIP-279. Like all earlier lines, it has KAFKA-7128, KAFKA-7164 "
            "and KAFKA-7415."
        ),
    ),
    Release(
        name="2.0.1",
        scala="2.12",
        extra_jars=(*_LOG4J, *_ZOOKEEPER_3_4_10),
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH_EXACT,
        wire=_UP_TO_2_3,
        note=(
            "KAFKA-7128, KAFKA-7164 and KAFKA-7415 are fixed. A fetch out of range no longer stops "
            "a follower (KAFKA-7414)."
        ),
    ),
    Release(
        name="2.1.1",
        scala="2.12",
        extra_jars=(*_LOG4J, *_ZOOKEEPER_3_4_10),
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH_EXACT,
        wire=_UP_TO_2_3,
        note=(
            "The first line that fences fetches with another leader epoch (KIP-320), but up to 2.4 "
            "only the first fetch of a fetch session (KAFKA-9338). The first line with zstd."
        ),
    ),
    Release(
        name="2.4.1",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH_EXACT,
        window_widens=False,
        note=(
            "Leaders answer a follower with an older HW at once (2.4.0 to 2.5.1 only), so "
            "the HW-lag window of an idle partition closes in milliseconds."
        ),
    ),
    Release(
        name="2.8.0",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        note=(
            "The first line that truncates on fetch. Has KAFKA-13141, KAFKA-13207 and, like all"
            " releases up to 3.9.0, KAFKA-18991."
        ),
    ),
    Release(
        name="2.8.2",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        note="KAFKA-13141 and KAFKA-13207 are fixed since 2.8.1.",
    ),
    Release(
        name="3.3.2",
        extra_jars=_RELOAD4J,
        coordination="zookeeper",
        note=(
            "On ZooKeeper: a KRaft controller of this line does not report its quorum's leader "
            "(KIP-919 came with 3.7)."
        ),
    ),
    Release(
        name="3.3.2-kraft",
        extra_jars=_RELOAD4J,
        note=(
            "The same jars as 3.3.2, on KRaft: the first line whose KRaft is ready for production."
            " Has KAFKA-14139."
        ),
    ),
    Release(
        name="3.4.1",
        extra_jars=_RELOAD4J,
        note=(
            "The last KRaft line in which the controller enlarges an ISR without checking broker"
            " epochs (KIP-903). Has KAFKA-14139."
        ),
    ),
    Release(
        name="3.6.2",
        extra_jars=_RELOAD4J,
        note=(
            "The first line in the catalogue with KIP-890's first part and with KIP-903; but a"
            " fetch from before a broker's restart still counts (KAFKA-15221)."
        ),
    ),
    Release(
        name="3.7.0",
        extra_jars=_RELOAD4J,
        note="The only release whose brokers die of an empty partition.metadata (KAFKA-16814).",
    ),
    Release(
        name="3.7.2",
        extra_jars=_RELOAD4J,
        note="The first line whose KRaft controllers answer DescribeCluster (KIP-919).",
    ),
    Release(
        name="3.9.0",
        extra_jars=_RELOAD4J,
        note="The last release with KAFKA-18991, except 4.0.0.",
    ),
    Release(
        name="3.9.2",
        extra_jars=_RELOAD4J,
        note="The last line that runs on ZooKeeper and on KRaft; here on KRaft.",
    ),
    Release(
        name="3.9.2-zk",
        extra_jars=_RELOAD4J,
        coordination="zookeeper",
        note="The same jars as 3.9.2, on ZooKeeper.",
    ),
    Release(
        name="4.0.0",
        extra_jars=_LOG4J_2,
        logging=2,
        note=("The first line without ZooKeeper. Has KAFKA-18991, and KAFKA-19522, like 4.0.1."),
    ),
    Release(
        name="4.0.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "Eligible leader replicas (KIP-966) exist and are off by default. Has "
            "KAFKA-19522: where they are on, the last known leader is elected although it is "
            "fenced."
        ),
    ),
    Release(
        name="4.0.2",
        extra_jars=_LOG4J_2,
        logging=2,
        note="Like 4.0.1: all releases of this line have KAFKA-19522.",
    ),
    Release(
        name="4.1.2",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "Eligible leader replicas (KIP-966) are on in new clusters: an ISR may become empty. "
            "KAFKA-19522 is fixed since 4.1.0."
        ),
    ),
    Release(
        name="4.2.0",
        extra_jars=_LOG4J_2,
        logging=2,
        note="Like 4.1. Has KAFKA-20254, of groups of Kafka Streams.",
    ),
    Release(
        name="4.2.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note="Like 4.1: leaders, followers and the controller decide by the same code.",
    ),
    Release(
        name="4.3.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note="Like 4.1. When an ISR shrinks, the leader epoch is not bumped.",
    ),
    Release(
        name="4.4.0",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "Like 4.3. Its StorageTool writes a new cluster's features as the first snapshot of "
            "the metadata log, no longer as bootstrap.checkpoint (KAFKA-19648)."
        ),
    ),
)

CATALOGUE: Mapping[str, Release] = MappingProxyType({entry.name: entry for entry in _ENTRIES})

MODERN: Final = "4.4.0"
"""The newest release, in the demo, the sample, benchmarks and examples."""

SAMPLE: Final = ("0.9.0.1", "0.10.2.2", "0.11.0.3", "2.1.1", "2.8.2", MODERN)
"""One release for each combination of coordination, truncation rule and record format. Tests on
real brokers use these if all releases would take too long."""


def metadata_release(version: str) -> Release:
    """Return the newest KRaft release that has this metadata.version, such as ``3.9``."""
    releases = {entry.protocol: entry for entry in _ENTRIES if entry.coordination == "kraft"}
    if version in releases:
        return releases[version]
    raise UsageError(
        f"no release of the catalogue has the metadata.version {version!r}",
        hint=f"There are {', '.join(releases)}.",
    )


def release(name: str) -> Release:
    """Look up a release by its number; the error names the nearest release and lists all."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    raise UsageError(
        f"Kafka {name!r} is not in the catalogue", hint=nearest_release(name, CATALOGUE)
    )
