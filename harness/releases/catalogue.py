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
# From 1.1 on, the jars of a broker do not include a log4j binding.
_LOG4J = ("org.slf4j:slf4j-log4j12:1.7.30!",)
_RELOAD4J = ("org.slf4j:slf4j-reload4j:1.7.36!",)
_LOG4J_2 = ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4!",)

# Kafka 2.0 and 2.1 ship the ZooKeeper 3.4.13 client, which resolves no address on Java 17.
_ZOOKEEPER_3_4_10 = ("org.apache.zookeeper:zookeeper:3.4.10!",)

_UP_TO_0_9 = RequestVersions(fetch=1, fetch_as=-2, list_offsets=0, metadata=0, create_topics=None)
_UP_TO_0_10_0 = RequestVersions(
    fetch=2, fetch_as=-2, list_offsets=0, metadata=1, create_topics=None
)
_UP_TO_2_3 = RequestVersions(fetch=2, fetch_as=-2, list_offsets=1, metadata=1, create_topics=1)

# ApiVersions came with 0.10.0 (KIP-35). For older brokers, librdkafka needs the release.
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
            "Records have no timestamps. ApiVersions and CreateTopics do not exist, so clients "
            "need the release as a setting, and the harness creates topics in ZooKeeper."
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
            "The first record format with timestamps. CreateTopics does not exist, so the harness "
            "creates topics in ZooKeeper."
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
            "The last release line in which followers truncate to their high watermark. A new "
            "leader shuts down its fetcher: if the old leader is paused, this can take many "
            "seconds."
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
            "The first release line with leader epochs (KIP-101), in record batches of format 2 "
            "(KIP-98). This release has KAFKA-6857."
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
            "The first release line with KIP-279. Like all earlier lines, it has KAFKA-7128, "
            "KAFKA-7164 and KAFKA-7415."
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
            "KAFKA-7128, KAFKA-7164 and KAFKA-7415 are fixed. A fetch out of range no longer "
            "stops a follower (KAFKA-7414)."
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
            "The first release line that fences fetches with another leader epoch (KIP-320). Up "
            "to 2.4, it checks only the first fetch of a fetch session (KAFKA-9338). The first "
            "release line with zstd."
        ),
    ),
    Release(
        name="2.4.1",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH_EXACT,
        window_widens=False,
        note=(
            "If a follower's high watermark is old, the leader responds at once (2.4.0 to 2.5.1 "
            "only). So in an idle partition, that high watermark is old for milliseconds only."
        ),
    ),
    Release(
        name="2.8.0",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        note=(
            "The first release line whose followers truncate on fetch. This release has "
            "KAFKA-13141 and KAFKA-13207. Like all releases up to 3.9.0, it has KAFKA-18991."
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
            "On ZooKeeper: a KRaft controller of this release line does not report its quorum's "
            "leader (KIP-919 came with 3.7)."
        ),
    ),
    Release(
        name="3.3.2-kraft",
        extra_jars=_RELOAD4J,
        note=(
            "The same jars as 3.3.2, on KRaft: the first release line whose KRaft is ready for "
            "production. This release has KAFKA-14139."
        ),
    ),
    Release(
        name="3.4.1",
        extra_jars=_RELOAD4J,
        note=(
            "The last KRaft release line whose controller adds a replica to an ISR without "
            "checking the broker epoch (KIP-903). This release has KAFKA-14139."
        ),
    ),
    Release(
        name="3.6.2",
        extra_jars=_RELOAD4J,
        note=(
            "The first release line in the catalogue with KIP-890's first part and with KIP-903; "
            "but the leader still counts a fetch that a broker sent before its restart "
            "(KAFKA-15221)."
        ),
    ),
    Release(
        name="3.7.0",
        extra_jars=_RELOAD4J,
        note="A broker does not start if a partition.metadata file is missing (KAFKA-16814).",
    ),
    Release(
        name="3.7.2",
        extra_jars=_RELOAD4J,
        note="The first release line whose KRaft controllers answer DescribeCluster (KIP-919).",
    ),
    Release(
        name="3.9.0",
        extra_jars=_RELOAD4J,
        note="KAFKA-18991 is in this release and in 4.0.0; later releases have the fix.",
    ),
    Release(
        name="3.9.2",
        extra_jars=_RELOAD4J,
        note="The last release line that runs on ZooKeeper and on KRaft; here on KRaft.",
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
        note=(
            "The first release line without ZooKeeper. This release has KAFKA-18991. Like 4.0.1, "
            "it has KAFKA-19522."
        ),
    ),
    Release(
        name="4.0.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "Eligible leader replicas (KIP-966) exist and are off by default. If they are on, the "
            "controller elects the last known leader although it is fenced (KAFKA-19522)."
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
        note="Like 4.1. This release has KAFKA-20254, a bug in groups of Kafka Streams.",
    ),
    Release(
        name="4.2.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note="Like 4.1: leaders, followers and the controller have the same code.",
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
            "Like 4.3. StorageTool writes a new cluster's features into the first snapshot of the "
            "metadata log, no longer into bootstrap.checkpoint (KAFKA-19648)."
        ),
    ),
)

CATALOGUE: Mapping[str, Release] = MappingProxyType({entry.name: entry for entry in _ENTRIES})

MODERN: Final = "4.4.0"
"""The newest release, in the demo, the sample, benchmarks and examples."""

SAMPLE: Final = ("0.9.0.1", "0.10.2.2", "0.11.0.3", "2.1.1", "2.8.2", MODERN)
"""One release for each combination of coordination (ZooKeeper or KRaft), truncation rule and record
format. Tests with real brokers use these if all releases would take too long."""


def metadata_release(version: str) -> Release:
    """Return the newest KRaft release that has this metadata.version, such as ``3.9``."""
    releases = {entry.protocol: entry for entry in _ENTRIES if entry.coordination == "kraft"}
    if version in releases:
        return releases[version]
    raise UsageError(
        f"no release in the catalogue has the metadata.version {version!r}",
        hint=f"Choose from {', '.join(releases)}.",
    )


def release(name: str) -> Release:
    """Return a release by its name. The error for an unknown name lists all names."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    raise UsageError(
        f"Kafka {name!r} is not in the catalogue", hint=nearest_release(name, CATALOGUE)
    )
