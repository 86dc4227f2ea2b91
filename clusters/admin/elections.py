"""Unclean leader election on request, as ``kafka-leader-election`` does it (KIP-460)."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import ElectLeadersRequest

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.core.addresses import Address
from highwater.harness.base.errors import HarnessError

_UNCLEAN: Final = 1
_NOT_NEEDED: Final = 84
_ANSWER_S: Final = 10.0


def elect_unclean(brokers: Mapping[int, Address], topic: str, partition: int) -> None:
    """Request an unclean election for a partition without a leader (ElectLeaders v1, since 2.4).

    Args:
        brokers: brokers to ask: the controller, or on KRaft any broker, which forwards the request.

    Raises:
        UnreachableError: no broker answered.
        HarnessError: the controller refuses the election.
    """
    request: Any = ElectLeadersRequest(
        version=1,
        election_type=_UNCLEAN,
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])],
        timeout_ms=int(_ANSWER_S * 1000),
    )
    with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
        [response] = client.ask_any(tuple(brokers), request)
        done = {0, _NOT_NEEDED} if client.repeated else {0}  # a silent broker may have done it
    partitions = [
        result
        for topic_result in response.replica_election_results
        for result in topic_result.partition_result
    ]
    codes = [response.error_code, *(result.error_code for result in partitions)]
    if errors := [code for code in codes if code not in done]:
        raise HarnessError(f"no leader is elected for {topic}-{partition}: error {errors[0]}")
