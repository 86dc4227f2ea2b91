"""What a client's error says about the record: surely not written (fail), or nobody knows (info).

librdkafka knows for itself whether a record may have been written (``rd_kafka_message_status``),
but its Python binding does not tell. An error code alone cannot: a delivery report bears the error
of the *last* attempt, and with retries an earlier one may have been written and its answer lost. So
an error in a delivery report is ``info``, whatever it is called, unless the client was told never
to retry and the broker refused before it appended. Only what ``produce`` itself refuses
is ``fail`` as a matter of course: such a record was never queued.
"""

from typing import Final

from confluent_kafka import KafkaError

from harness.history import FAIL, INFO

REFUSED_BEFORE_APPEND: Final = frozenset(
    {
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
"""Answers that Kafka gives only before it appends (``Partition.appendRecordsToLeader``,
``LogValidator``, ``ProducerAppendInfo``). Not among them are NOT_ENOUGH_REPLICAS_AFTER_APPEND, as
its name says; REQUEST_TIMED_OUT, when the ISR did not follow in time; NOT_LEADER_FOR_PARTITION and
UNKNOWN_TOPIC_OR_PART, with which ``DelayedProduce.tryComplete`` answers an acks=all record that a
leader *has* appended when it is deposed; and whatever the client makes up itself (codes below
zero), because it does so when it has no answer."""

REFUSED_LOCALLY: Final = FAIL
"""The outcome when ``produce`` itself raised: the record was never queued, so it is nowhere."""


PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - that is their public name
"""The client gave up waiting because we told it to: no answer at all."""


def delivered(code: int, *, retries: bool) -> str:
    """The outcome of an error in a delivery report.

    Args:
        code: ``KafkaError.code()``.
        retries: whether the client may have sent the record more than once.
    """
    return FAIL if code in REFUSED_BEFORE_APPEND and not retries else INFO
