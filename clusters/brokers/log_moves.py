"""Move a replica between log directories of a broker (KIP-113), as kafka-reassign-partitions does.

The broker copies the replica to the other directory, and then replaces the replica by the copy.
"""

import contextlib
from pathlib import Path
from typing import Any, Final

from kafka.protocol.admin import AlterReplicaLogDirsRequest

from highwater.clusters.admin import topic_config
from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.core.addresses import Address
from highwater.harness.base.errors import HarnessError

_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_VERSION: Final = 1
_ANSWER_S: Final = 10.0


def move(
    broker: int, address: Address, topic: str, partition: int, target: Path, *, bytes_per_s: int
) -> None:
    """Limit the speed of all moves of a broker, and then request a move. Do not wait for its end.

    Args:
        target: the log directory that gets the replica.

    Raises:
        UnreachableError: the broker does not respond.
        HarnessError: the broker refuses.
    """
    place = {broker: address}
    limit = {_RATE: str(bytes_per_s)}
    topic_config.request(place, str(broker), limit, kind=topic_config.BROKER)
    folder = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    moved = folder.AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request: Any = AlterReplicaLogDirsRequest(
        version=_VERSION, dirs=[folder(path=str(target), topics=[moved])]
    )
    with contextlib.closing(ProtocolClient(place, timeout_s=_ANSWER_S)) as client:
        [response] = client.ask_any((broker,), request)
    for result in (part for moved in response.results for part in moved.partitions):
        if result.error_code:
            raise HarnessError(
                f"broker {broker} refuses to move {topic}-{partition} to {target}: "
                f"error {result.error_code}"
            )
