"""Read one topic of an external cluster: its settings, and the brokers of each partition."""

import contextlib
from difflib import get_close_matches
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from highwater.clusters.admin.kafka_protocol import ProtocolClient, Request, Response
from highwater.clusters.external.metadata import ClusterIdentity
from highwater.harness.base.errors import UsageError
from highwater.harness.base.wording import count
from highwater.harness.releases.cluster_facts import OWN_TOPICS
from highwater.harness.releases.release import Release
from highwater.harness.runs.topics.existing_topic import ALWAYS, ExistingTopic

_ANSWER_S: Final = 10.0
_METADATA: Final = 2
_TOPIC: Final = 2
_DESCRIBED: Final = (0, 11)
_WITH_SOURCES: Final = (1, 1)
"""The first releases with DescribeConfigs (KIP-133) and with its version 1 (KIP-226)."""

_OF_TOPIC, _KAFKAS_DEFAULT = 1, 5
"""Two sources of a setting's value (``DescribeConfigsResponse.ConfigSource``)."""


def read_topic(kafka: Release, identity: ClusterIdentity, name: str) -> ExistingTopic:
    """Return a topic's settings and replicas. Nothing is changed.

    Raises:
        UsageError: the topic does not exist, is an internal topic of Kafka, or the user is not
            authorized to describe it.
        UnreachableError: no broker responds.
    """
    if kafka.number < _DESCRIBED:
        raise UsageError(
            f"brokers of Kafka {kafka.name} do not return a topic's settings",
            hint="This needs 0.11 or later; without --like, give the settings as options.",
        )
    described = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=name, configuration_keys=None
    )
    with contextlib.closing(ProtocolClient(identity.addresses, timeout_s=_ANSWER_S)) as client:
        nodes = sorted(identity.addresses)
        [metadata] = client.ask_any(nodes, MetadataRequest(version=_METADATA, topics=None))
        replicas = _replicas(metadata, name)
        version = int(kafka.number >= _WITH_SOURCES)
        request: Request = DescribeConfigsRequest(
            version=version, resources=[described], include_synonyms=False
        )
        [response] = client.ask_any(nodes, request)
    [result] = response.results
    if result.error_code:
        why = result.error_message or f"error {result.error_code}"
        raise UsageError(
            f"the settings of topic {name} cannot be read: {why}",
            hint="The inventory's user needs the permission DescribeConfigs on that topic.",
        )
    entries = {entry.name: entry for entry in result.configs if entry.value is not None}
    overrides = frozenset(
        key
        for key, entry in entries.items()
        if (entry.config_source == _OF_TOPIC if version else not entry.is_default)
    )
    return ExistingTopic(
        name=name,
        replicas=replicas,
        settings={
            key: entry.value
            for key, entry in entries.items()
            if key in ALWAYS or not version or entry.config_source != _KAFKAS_DEFAULT
        },
        overrides=overrides,
    )


def _replicas(metadata: Response, name: str) -> tuple[tuple[int, ...], ...]:
    topics = {topic.name: topic for topic in metadata.topics}
    if name in OWN_TOPICS or (name in topics and topics[name].is_internal):
        raise UsageError(
            f"{name} is an internal topic of Kafka",
            hint="Choose a topic that clients write to.",
        )
    if name not in topics:
        visible = [other for other, topic in topics.items() if not topic.is_internal]
        near = get_close_matches(name, visible, n=3, cutoff=0.4)
        raise UsageError(
            f"there is no topic {name}, or the user is not authorized to see it",
            hint=f"Did you mean {' or '.join(near)}?"
            if near
            else f"The user is authorized to see {count(len(visible), 'topic')}.",
        )
    topic = topics[name]
    if topic.error_code:
        raise UsageError(f"topic {name} cannot be read: error {topic.error_code}")
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return tuple(tuple(partition.replica_nodes) for partition in partitions)
