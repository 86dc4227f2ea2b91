"""Outcomes of deliveries: an error means surely not written (fail) or unknown (info).

librdkafka knows for itself whether a record may have been written (``rd_kafka_message_status``),
but its Python binding does not tell. An error code alone cannot: a delivery report bears the error
of the *last* attempt, and with retries an earlier one may have been written and its answer lost. So
an error in a delivery report is ``info``, whatever it is called, unless the client was told never
to retry and the broker refused before it appended. Only what ``produce`` itself refuses
is ``fail`` as a matter of course: such a record was never queued.

A record that was sent in a transaction has the transaction's outcome (KIP-98). Only a producer that
asks its coordinator to commit (EndTxn) can have a transaction committed. An abort, the time-out of
the transaction and the next producer of the same ``transactional.id`` (InitProducerId) abort it. So

* a transaction whose commit was never asked for is ``fail``, whether or not its abort was
  acknowledged, its producer crashed or was fenced;
* one whose commit was acknowledged is ``ok``;
* when ``commit_transaction`` has failed, EndTxn may have been sent, and its answer lost. If
  librdkafka then says that the transaction must be aborted (``txn_requires_abort``), and the abort
  is acknowledged, it is ``fail``: a coordinator aborts no transaction that it has begun to commit
  (INVALID_TXN_STATE, a fatal error). Not so after ``LOST_PRODUCER``, where an abort only takes a
  new epoch (KIP-360) and proves nothing of the old one;
* otherwise it is ``info``: a commit that timed out, or was fenced after it was sent.
"""

from typing import Final

from confluent_kafka import KafkaError

from highwater.harness.runs.history import FAIL, INFO

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
"""The client gave up waiting because we told it to: no response at all."""


def delivered(code: int, *, retries: bool) -> str:
    """Return the outcome of an error in a delivery report, by its code.

    Args:
        retries: whether the client may have sent the record more than once.
    """
    return FAIL if code in REFUSED_BEFORE_APPEND and not retries else INFO


LOST_PRODUCER: Final = frozenset(
    {KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.INVALID_PRODUCER_ID_MAPPING}
)
"""The coordinator no longer knows who asks."""


def not_committed(code: int, *, aborted: bool) -> str:
    """Return the outcome of a transaction whose commit was asked for, and failed with a code.

    Args:
        aborted: whether the transaction had to be aborted then, and the abort was acknowledged.
    """
    return FAIL if aborted and code not in LOST_PRODUCER else INFO
