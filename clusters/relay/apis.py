"""Kafka's requests by name: API key, releases with the request, properties that rules use.

The releases and versions come from Kafka's ``clients/src/main/resources/common/message/*.json`` at
the release tags.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

Number = tuple[int, ...]

TRANSACTIONAL_ID: Final = "transactional-id"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
EPOCH: Final = "epoch"
CORRELATION: Final = "correlation"
PROPERTIES: Final = (TRANSACTIONAL_ID, TOPIC, PARTITION, EPOCH, CORRELATION)

ANY_API: Final = -1

_ALWAYS: Final[Number] = (0,)
_TRANSACTIONS: Final[Number] = (0, 11)
"""The first release with transactions (KIP-98)."""


class KafkaApi(NamedTuple):
    """One kind of request.

    Attributes:
        key: API key, the number in the protocol.
        since: the first release that has the request.
        until: the first release that no longer has it; None if all later releases have it.
        keeper: ``zookeeper`` or ``kraft`` if only nodes of such clusters send the request.
        properties: property name to the first release whose requests have the property. ``epoch``
            is the producer epoch if the request has one, otherwise the leader epoch.
    """

    key: int
    since: Number = _ALWAYS
    until: Number | None = None
    keeper: str = ""
    properties: Mapping[str, Number] = {}


def _partitions(since: Number, *, epoch: Number | None = None) -> dict[str, Number]:
    names = {TOPIC: since, PARTITION: since}
    return names if epoch is None else {**names, EPOCH: epoch}


def _of_transaction(**more: Number) -> dict[str, Number]:
    return {TRANSACTIONAL_ID: _TRANSACTIONS, EPOCH: _TRANSACTIONS, **more}


_PLACES: Final = _partitions(_TRANSACTIONS)

APIS: Final[Mapping[str, KafkaApi]] = {
    "Produce": KafkaApi(
        0, properties={**_of_transaction(), **_partitions(_ALWAYS, epoch=_TRANSACTIONS)}
    ),
    "Fetch": KafkaApi(1, properties=_partitions(_ALWAYS, epoch=(2, 1))),
    "ListOffsets": KafkaApi(2),
    "Metadata": KafkaApi(3),
    "LeaderAndIsr": KafkaApi(
        4, (0,), (4, 0), "zookeeper", properties=_partitions(_ALWAYS, epoch=_ALWAYS)
    ),
    "StopReplica": KafkaApi(5, (0,), (4, 0), "zookeeper"),
    "UpdateMetadata": KafkaApi(6, (0,), (4, 0), "zookeeper"),
    "ControlledShutdown": KafkaApi(7, (0,), (4, 0), "zookeeper"),
    "OffsetCommit": KafkaApi(8, properties=_partitions(_ALWAYS)),
    "OffsetFetch": KafkaApi(9),
    "FindCoordinator": KafkaApi(10),
    "JoinGroup": KafkaApi(11),
    "Heartbeat": KafkaApi(12),
    "LeaveGroup": KafkaApi(13),
    "SyncGroup": KafkaApi(14),
    "ApiVersions": KafkaApi(18, (0, 10)),
    "CreateTopics": KafkaApi(19, (0, 10, 1)),
    "DeleteTopics": KafkaApi(20, (0, 10, 1)),
    "DeleteRecords": KafkaApi(21, (0, 11)),
    "InitProducerId": KafkaApi(
        22, _TRANSACTIONS, properties={TRANSACTIONAL_ID: _TRANSACTIONS, EPOCH: (2, 5)}
    ),
    "OffsetForLeaderEpoch": KafkaApi(23, (0, 11)),
    "AddPartitionsToTxn": KafkaApi(24, _TRANSACTIONS, properties={**_of_transaction(), **_PLACES}),
    "AddOffsetsToTxn": KafkaApi(25, _TRANSACTIONS, properties=_of_transaction()),
    "EndTxn": KafkaApi(26, _TRANSACTIONS, properties=_of_transaction()),
    "WriteTxnMarkers": KafkaApi(
        27, _TRANSACTIONS, properties=_partitions(_TRANSACTIONS, epoch=_TRANSACTIONS)
    ),
    "TxnOffsetCommit": KafkaApi(28, _TRANSACTIONS, properties={**_of_transaction(), **_PLACES}),
    "DescribeConfigs": KafkaApi(32, (0, 11)),
    "CreatePartitions": KafkaApi(37, (1, 0)),
    "ElectLeaders": KafkaApi(43, (2, 2)),
    "AlterPartitionReassignments": KafkaApi(45, (2, 4)),
    "Vote": KafkaApi(52, (2, 8), None, "kraft"),
    "BeginQuorumEpoch": KafkaApi(53, (2, 8), None, "kraft"),
    "EndQuorumEpoch": KafkaApi(54, (2, 8), None, "kraft"),
    "DescribeQuorum": KafkaApi(55, (2, 8), None, "kraft"),
    "AlterPartition": KafkaApi(56, (2, 7), properties=_partitions((2, 7), epoch=(2, 7))),
    "FetchSnapshot": KafkaApi(59, (2, 8), None, "kraft"),
    "BrokerRegistration": KafkaApi(62, (2, 8), None, "kraft"),
    "BrokerHeartbeat": KafkaApi(63, (2, 8), None, "kraft"),
    "AssignReplicasToDirs": KafkaApi(73, (3, 7), None, "kraft"),
    "ShareFetch": KafkaApi(78, (4, 0)),
    "InitializeShareGroupState": KafkaApi(83, (4, 0)),
}
"""Every request that a rule can name."""

NAMES: Final[Mapping[int, str]] = {api.key: name for name, api in APIS.items()}


def api_name(key: int) -> str:
    """Return the name of a request, or ``api-<key>`` if the name is not known."""
    return NAMES.get(key, f"api-{key}")
