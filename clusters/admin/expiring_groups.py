"""Commit offsets of many groups that expire at the same time. Ordinary clients cannot do this.

OffsetCommit has a retention time in versions 2 to 4. In newer versions the broker's setting
applies.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kafka.protocol.consumer.group import OffsetCommitRequest

from highwater.clusters.admin.kafka_protocol import BrokerConnection, Request
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError

_VERSION: Final = 2
_CONNECTIONS: Final = 24
_AT_ONCE: Final = 2
"""The number of requests in flight on a connection. The number is small, because the broker adds
the retention time to the time at which it reads a request."""

_ANSWERS_S: Final = 30.0


def commit_expiring(
    coordinator: str, groups: Sequence[str], topic: str, *, expires_at: float
) -> None:
    """Commit offset 0 of partition 0 for each group.

    Args:
        coordinator: ``host:port`` of the broker that coordinates all of the groups.
        expires_at: time at which all offsets expire, in seconds since 1970.

    Raises:
        UnreachableError: the broker did not respond in time, or refused a commit.
    """

    def commit(first: int) -> None:
        _commit(coordinator, groups[first::_CONNECTIONS], topic, expires_at)

    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        list(threads.map(commit, range(_CONNECTIONS)))


def _commit(coordinator: str, groups: Sequence[str], topic: str, expires_at: float) -> None:
    connection = BrokerConnection(Address.parse(coordinator), timeout_s=_ANSWERS_S)
    try:
        for first in range(0, len(groups), _AT_ONCE):
            requests = [_request(group, topic, expires_at) for group in groups[first:][:_AT_ONCE]]
            answers = connection.ask(*requests)
            codes = {answer.topics[0].partitions[0].error_code for answer in answers}
            if codes != {0}:
                raise UnreachableError(
                    f"{coordinator} refuses to commit a group's offset: errors {codes}"
                )
    finally:
        connection.close()


def _request(group: str, topic: str, expires_at: float) -> Request:
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    place = of_topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    return OffsetCommitRequest(
        version=_VERSION,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=max(1, int((expires_at - time.time()) * 1000)),
        topics=[of_topic(name=topic, partitions=[place])],
    )
