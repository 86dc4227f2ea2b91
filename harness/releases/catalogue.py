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

# The client of ZooKeeper 3.4.13, which 2.0 and 2.1 ship, resolves no address on Java 17.
_ZOOKEEPER_3_4_10 = ("org.apache.zookeeper:zookeeper:3.4.10!",)

_UP_TO_0_9 = RequestVersions(fetch=1, fetch_as=-2, list_offsets=0, metadata=0, create_topics=None)
_UP_TO_0_10_0 = RequestVersions(
    fetch=2, fetch_as=-2, list_offsets=0, metadata=1, create_topics=None
)
_UP_TO_2_3 = RequestVersions(fetch=2, fetch_as=-2, list_offsets=1, metadata=1, create_topics=1)

# ApiVersions came with 0.10.0 (KIP-35); before, librdkafka needs the broker's version.
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
            "Records have no timestamps. Neither ApiVersions nor CreateTopics is there, so the "
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
            "The first record format with timestamps. CreateTopics is not there, so topics are "
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
            "The last line that cuts to the HW. While a deposed leader is paused, the new "
            "leader can hang for many seconds as it shuts its fetcher down."
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
        note="As 0.11.0.3. 1.0.0, 1.0.1 and 1.1.0 have KAFKA-6857.",
    ),
    Release(
        name="1.1.1",
        scala="2.12",
        extra_jars=(*_LOG4J, *_JAXB),
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH,
        wire=_UP_TO_2_3,
        note=(
            "A follower that forked inside a batch gets UnexpectedAppendOffsetException, and "
            "its fetcher stops for good."
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
            "The first line with KIP-279. Has, as all before it, KAFKA-7128, KAFKA-7164 and "
            "KAFKA-7415."
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
            "KAFKA-7128, KAFKA-7164 and KAFKA-7415 are fixed. A fetch out of range no longer ends "
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
            "The first line that fences fetches of another leader epoch (KIP-320), up to 2.4 only "
            "the first of each fetch session (KAFKA-9338), and the first with zstd."
        ),
    ),
    Release(
        name="2.4.1",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        truncation=Truncation.LEADER_EPOCH_EXACT,
        window_widens=False,
        note=(
            "Answers a follower that has an older HW at once (2.4.0 to 2.5.1 only), so "
            "that the HW-lag window of an idle partition closes in milliseconds."
        ),
    ),
    Release(
        name="2.8.0",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        note="The first line that cuts on fetch. Has KAFKA-13141, KAFKA-13207 and KAFKA-18991.",
    ),
    Release(
        name="2.8.2",
        extra_jars=_LOG4J,
        coordination="zookeeper",
        note="KAFKA-13141 and KAFKA-13207 are fixed, since 2.8.1. Has KAFKA-18991.",
    ),
    Release(
        name="3.3.2",
        extra_jars=_RELOAD4J,
        coordination="zookeeper",
        note=(
            "On ZooKeeper: a KRaft controller of this line does not report its quorum's leader "
            "(KIP-919 came with 3.7). Has KAFKA-18991."
        ),
    ),
    Release(
        name="3.3.2-kraft",
        extra_jars=_RELOAD4J,
        note=(
            "The same jars as 3.3.2, on KRaft: the first line of KRaft that is meant for use. Has"
            " KAFKA-14139 and KAFKA-18991."
        ),
    ),
    Release(
        name="3.4.1",
        extra_jars=_RELOAD4J,
        note=(
            "The last line on KRaft in which an ISR is enlarged without a look at broker epochs"
            " (KIP-903): has KAFKA-14139, and KAFKA-18991."
        ),
    ),
    Release(
        name="3.6.2",
        extra_jars=_RELOAD4J,
        note=(
            "The first line of the catalogue with KIP-903, though a fetch from before a broker's"
            " restart still counts (KAFKA-15221), and with KIP-890's first part. Has KAFKA-18991."
        ),
    ),
    Release(
        name="3.7.2",
        extra_jars=_RELOAD4J,
        note=(
            "The first line whose KRaft controllers answer DescribeCluster (KIP-919). Has "
            "KAFKA-18991."
        ),
    ),
    Release(
        name="3.9.0",
        extra_jars=_RELOAD4J,
        note="Has KAFKA-18991, as all since 2.8.0 and, after it, 4.0.0 alone.",
    ),
    Release(
        name="3.9.2",
        extra_jars=_RELOAD4J,
        note=(
            "The last line with both coordinations, here on KRaft. KAFKA-18991 is fixed, since "
            "3.9.1."
        ),
    ),
    Release(
        name="3.9.2-zk",
        extra_jars=_RELOAD4J,
        coordination="zookeeper",
        note="The same jars as 3.9.2, on ZooKeeper. KAFKA-18991 is fixed.",
    ),
    Release(
        name="4.0.0",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "The first line without ZooKeeper. Has KAFKA-18991, as 3.9.0 before it; has KAFKA-19522"
            " as 4.0.1."
        ),
    ),
    Release(
        name="4.0.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "KRaft only. Eligible leader replicas (KIP-966) are there and off by default. Has "
            "KAFKA-19522: where they are on, the last known leader is elected although it is "
            "fenced."
        ),
    ),
    Release(
        name="4.0.2",
        extra_jars=_LOG4J_2,
        logging=2,
        note="As 4.0.1: KAFKA-19522 is in all of this line.",
    ),
    Release(
        name="4.1.2",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "Eligible leader replicas (KIP-966) are on in new clusters: an ISR may become empty. "
            "KAFKA-19522 is fixed, since 4.1.0."
        ),
    ),
    Release(
        name="4.2.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note="As 4.1: leaders, followers and the controller decide by the same code.",
    ),
    Release(
        name="4.3.1",
        extra_jars=_LOG4J_2,
        logging=2,
        note="As 4.1. An ISR that shrinks does not bump the leader epoch.",
    ),
    Release(
        name="4.4.0",
        extra_jars=_LOG4J_2,
        logging=2,
        note=(
            "As 4.3. Its StorageTool writes the features of a new cluster as the first snapshot of "
            "the metadata log, no longer as bootstrap.checkpoint (KAFKA-19648)."
        ),
    ),
)

CATALOGUE: Mapping[str, Release] = MappingProxyType({entry.name: entry for entry in _ENTRIES})

MODERN: Final = "4.4.0"
"""The release that stands for today's Kafka: in the demo, the sample, benchmarks and examples."""

SAMPLE: Final = ("0.9.0.1", "0.10.2.2", "0.11.0.3", "2.1.1", "2.8.2", MODERN)
"""One release for each combination of coordination, truncation rule and record format, for tests on
real brokers that are too slow for all releases."""


def metadata_release(version: str) -> Release:
    """Return the newest release on KRaft with this metadata.version, such as ``3.9``."""
    releases = {entry.protocol: entry for entry in _ENTRIES if entry.coordination == "kraft"}
    if version in releases:
        return releases[version]
    raise UsageError(
        f"no release of the catalogue has the metadata.version {version!r}",
        hint=f"There are {', '.join(releases)}.",
    )


def release(name: str) -> Release:
    """Look up a release by its number; the error names the nearest and lists all."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    raise UsageError(
        f"Kafka {name!r} is not in the catalogue", hint=nearest_release(name, CATALOGUE)
    )
