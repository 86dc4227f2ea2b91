"""Create topics and partitions with given replicas, and wait until they are ready.

The harness creates a topic with CreateTopics. Up to 0.10.0 that request does not exist: the harness
writes the topic to ZooKeeper, and the controller reads the topic from ZooKeeper. The harness adds
partitions in ZooKeeper, as ``kafka-topics --alter`` does, or on KRaft with CreatePartitions.
"""

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import METADATA_WITH_IDS, CoordinationView, ZooKeeperView
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import PartitionState, Probe, UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.releases.catalogue import Release

_LIMIT_S = 30.0
_ANSWER_S = 10.0
_NONE, _TIMED_OUT, _EXISTS, _NOT_CONTROLLER = 0, 7, 36, 41
_INVALID_PARTITIONS = 37
_DELETE_VERSION = 1
_UNKNOWN_TOPIC = 3


def create_topic(
    release: Release,
    brokers: Mapping[int, Address],
    probe: Probe,
    name: str,
    assignment: Sequence[Sequence[int]],
    settings: Mapping[str, str],
    *,
    coordination: Mapping[int, Address] | None = None,
) -> None:
    """Create a topic. Wait until each partition has its leader, a full ISR and live replicas.

    Args:
        assignment: for each partition, the broker ids of its replicas; the leader is first.
        coordination: ZooKeeper id to address; only releases without CreateTopics need this.

    Raises:
        HarnessError: Kafka refuses the topic; the message has the reason.
        WaitTimeoutError: the topic was not ready in time.
    """
    if release.wire.create_topics is None:
        assert coordination is not None, f"{release.name} creates topics in ZooKeeper"
        _write(release, coordination, name, assignment, settings)
    else:
        request = _request(release, name, assignment, settings)
        with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
            _send(release, client, tuple(brokers), probe, request)
    _await_ready(probe, name, dict(enumerate(assignment)))


def add_partitions(
    view: CoordinationView,
    brokers: Mapping[int, Address],
    probe: Probe,
    name: str,
    added: Mapping[int, Sequence[int]],
) -> None:
    """Add partitions to a topic, and wait until they are ready, as for a new topic.

    Args:
        brokers: the running brokers.
        added: partition number to the broker ids of its replicas. The first number follows the
            topic's last partition.

    Raises:
        HarnessError: Kafka refuses the partitions; the message has the reason.
        UnreachableError: no node that can add partitions responds.
        WaitTimeoutError: the partitions were not ready in time.
    """
    if isinstance(view, ZooKeeperView):
        more = {str(number): [*replicas] for number, replicas in added.items()}
        view.update(f"/brokers/topics/{name}", lambda node: node["partitions"].update(more))
    else:
        with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
            [response] = client.ask_any(tuple(brokers), _addition(name, added))
            done = {_NONE, _INVALID_PARTITIONS} if client.repeated else {_NONE}
        [result] = response.results
        if result.error_code not in done:  # an unresponsive broker may have added them
            raise HarnessError(
                f"Kafka refuses to add partitions to topic {name!r}:"
                f" {result.error_message or f'error {result.error_code}'}"
            )
    _await_ready(probe, name, added)


def delete_topic(brokers: Mapping[int, Address], name: str) -> None:
    """Delete a topic, and wait until brokers no longer report it. KRaft only.

    Args:
        brokers: the running brokers, which forward the request to the controller.

    Raises:
        HarnessError: the controller refuses.
        WaitTimeoutError: the topic still existed after the limit.
    """
    request = DeleteTopicsRequest(
        version=_DELETE_VERSION, topic_names=[name], timeout_ms=int(_ANSWER_S * 1000)
    )
    place = MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)
    metadata = MetadataRequest(
        version=METADATA_WITH_IDS, topics=[place], allow_auto_topic_creation=False
    )
    with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
        [response] = client.ask_any(tuple(brokers), request)
        [result] = response.responses
        if result.error_code not in {_NONE, _UNKNOWN_TOPIC}:
            raise HarnessError(f"Kafka refuses to delete topic {name!r}: error {result.error_code}")
        await_condition(
            lambda: {client.ask(broker, metadata)[0].topics[0].error_code for broker in brokers},
            lambda errors: errors == {_UNKNOWN_TOPIC},
            what=f"topic {name} to be deleted",
            limit_s=_LIMIT_S,
            passing=(UnreachableError,),
        )


def delete_records(
    brokers: Mapping[int, Address], leader: int, name: str, partition: int, before: int
) -> None:
    """Delete the records of a partition before an offset (KIP-107).

    Raises:
        HarnessError: the leader refuses, or a replica did not delete the records in time.
        UnreachableError: the leader does not run, or does not respond.
    """
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    place = topic.DeleteRecordsPartition(partition_index=partition, offset=before)
    request = DeleteRecordsRequest(
        version=0,
        topics=[topic(name=name, partitions=[place])],
        timeout_ms=int(_ANSWER_S * 1000),
    )
    if leader not in brokers:
        raise UnreachableError(f"the leader of {name}-{partition} does not run")
    with contextlib.closing(ProtocolClient(brokers, timeout_s=2 * _ANSWER_S)) as client:
        [response] = client.ask(leader, request)
    [result] = response.topics[0].partitions
    if result.error_code:
        raise HarnessError(
            f"Kafka refuses to delete records of {name}-{partition}: error {result.error_code}"
        )


def _addition(name: str, added: Mapping[int, Sequence[int]]) -> Any:  # noqa: ANN401 - as below
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    return CreatePartitionsRequest(
        version=0,
        topics=[
            topic(
                name=name,
                count=max(added) + 1,
                assignments=[
                    topic.CreatePartitionsAssignment(broker_ids=[*added[number]])
                    for number in sorted(added)
                ],
            )
        ],
        timeout_ms=int(_ANSWER_S * 1000),
        validate_only=False,
    )


def _await_ready(probe: Probe, name: str, partitions: Mapping[int, Sequence[int]]) -> None:
    for partition, replicas in partitions.items():
        await_condition(
            partial(_served, probe, name, partition, replicas),
            lambda state, order=replicas: (  # type: ignore[misc]
                state.leader == order[0] and set(state.isr) == set(order)
            ),
            what=f"{name}-{partition} to have leader {replicas[0]} and ISR {list(replicas)}",
            limit_s=_LIMIT_S,
            passing=(UnreachableError,),
        )


def _write(
    release: Release,
    zookeeper: Mapping[int, Address],
    name: str,
    assignment: Sequence[Sequence[int]],
    settings: Mapping[str, str],
) -> None:
    """Write a topic like ``AdminUtils.createOrUpdateTopicPartitionAssignmentPathInZK``.

    The function writes the settings first, because a broker reads them when it creates a replica.
    Neither this function nor Kafka validates the settings.
    """
    partitions = {str(index): list(replicas) for index, replicas in enumerate(assignment)}
    with contextlib.closing(ZooKeeperView(zookeeper, timeout_s=_ANSWER_S)) as view:
        view.create(f"/config/topics/{name}", {"version": 1, "config": dict(settings)})
        if not view.create(f"/brokers/topics/{name}", {"version": 1, "partitions": partitions}):
            raise HarnessError(
                f"Kafka {release.name} cannot create topic {name!r}: the topic exists in ZooKeeper",
                hint="Give every topic its own name.",
            )


def _request(
    release: Release,
    name: str,
    assignment: Sequence[Sequence[int]],
    settings: Mapping[str, str],
) -> Any:  # noqa: ANN401 - kafka-python creates these classes at run time
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        version=release.wire.create_topics,
        topics=[
            topic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=index, broker_ids=[*replicas])
                    for index, replicas in enumerate(assignment)
                ],
                configs=[
                    topic.CreatableTopicConfig(name=key, value=value)
                    for key, value in settings.items()
                ],
            )
        ],
        timeout_ms=int(_ANSWER_S * 1000),
        validate_only=False,
    )


def _send(
    release: Release,
    client: ProtocolClient,
    brokers: Sequence[int],
    probe: Probe,
    request: Any,  # noqa: ANN401 - for the same reason
) -> None:
    """Send the request to the controller (on KRaft to any broker) until Kafka has a result."""
    may_exist = False

    def create() -> None:
        nonlocal may_exist
        # On ZooKeeper only the controller creates topics. On KRaft every broker forwards requests.
        nodes = brokers if release.coordination == "kraft" else [probe.controller()]
        try:
            [response] = client.ask_any(nodes, request)
        except UnreachableError:
            may_exist = True  # an unresponsive node may have created the topic
            raise
        [result] = response.topics
        if result.error_code == _NONE or (result.error_code == _EXISTS and may_exist):
            return
        may_exist = may_exist or result.error_code == _TIMED_OUT
        if result.error_code in {_NOT_CONTROLLER, _TIMED_OUT}:
            raise NotYetError(f"error {result.error_code} from one of the nodes {nodes}")
        raise HarnessError(
            f"Kafka {release.name} refuses to create topic {result.name!r}: "
            f"{getattr(result, 'error_message', None) or f'error {result.error_code}'}",
            hint="Check the topic's settings and its replicas.",
        )

    await_condition(
        create,
        what="a controller to create the topic",
        limit_s=_LIMIT_S,
        passing=(UnreachableError,),
    )


def _served(probe: Probe, topic: str, partition: int, replicas: Sequence[int]) -> PartitionState:
    """Return the partition's state; raise UnreachableError if a replica does not respond yet."""
    state = probe.partition(topic, partition)
    for broker in replicas:
        probe.replica(broker, topic, partition)
    return state
