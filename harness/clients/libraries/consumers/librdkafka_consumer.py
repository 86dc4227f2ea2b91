"""The librdkafka consumer for readers and group members."""

from typing import Final

import confluent_kafka

_MAGIC: Final = b"CGMDv2:"
_EPOCH_BYTES: Final = 4


class Consumer(confluent_kafka.Consumer):
    """A consumer that returns its generation or epoch in the group, and can end as in a crash."""

    def epoch(self) -> int | None:
        """Return the generation of a classic group, or the member's epoch; None if unknown."""
        return epoch_of(bytes(self.consumer_group_metadata() or b""))

    def drop(self) -> None:
        """Do nothing. Python destroys the consumer when its last reference is deleted.

        The binding destroys an unclosed consumer with ``RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE``.
        """


def epoch_of(metadata: bytes) -> int | None:
    """Return the epoch in a group's metadata; None if the metadata has no epoch.

    librdkafka writes the metadata as bytes (``rd_kafka_consumer_group_metadata_write``).
    """
    if not metadata.startswith(_MAGIC):
        return None
    data = metadata[len(_MAGIC) : len(_MAGIC) + _EPOCH_BYTES]
    epoch = int.from_bytes(data, "little", signed=True)
    return epoch if epoch > 0 else None
