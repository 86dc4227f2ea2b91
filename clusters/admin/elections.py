"""Request elections, like ``kafka-leader-election`` (ElectLeaders, KIP-460)."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import ElectLeadersRequest

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import LeaderKeptError
from highwater.harness.base.errors import HarnessError

PREFERRED: Final = 0
UNCLEAN: Final = 1
NOT_NEEDED: Final = 84
_ANSWER_S: Final = 10.0


def request_election(
    client: ProtocolClient, brokers: Sequence[int], topic: str, partition: int, kind: int
) -> list[int]:
    """Send ElectLeaders (version 1, since 2.4). Return the error codes in the response.

    Raises:
        UnreachableError: no broker responded.
    """
    request: Any = ElectLeadersRequest(
        version=1,
        election_type=kind,
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])],
        timeout_ms=int(client.timeout_s * 1000),
    )
    [response] = client.ask_any(brokers, request)
    partitions = [
        result
        for topic_result in response.replica_election_results
        for result in topic_result.partition_result
    ]
    return [response.error_code, *(result.error_code for result in partitions)]


def elect_unclean(brokers: Mapping[int, Address], topic: str, partition: int) -> None:
    """Request an unclean election for a partition without a leader.

    Args:
        brokers: the controller; on KRaft any brokers, because each broker forwards the request to
            the controller.

    Raises:
        LeaderKeptError: the partition has a leader.
        UnreachableError: no broker responded.
        HarnessError: the controller refuses the election.
    """
    with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
        codes = request_election(client, tuple(brokers), topic, partition, UNCLEAN)
        done = (
            {0, NOT_NEEDED} if client.repeated else {0}
        )  # an unresponsive broker may have elected
    if errors := [code for code in codes if code not in done]:
        refused = LeaderKeptError if errors[0] == NOT_NEEDED else HarnessError
        raise refused(f"the controller elects no leader for {topic}-{partition}: error {errors[0]}")
