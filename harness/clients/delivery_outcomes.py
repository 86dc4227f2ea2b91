"""Outcomes of deliveries after an error: the record is not in the log (fail), or may be (info).

librdkafka knows whether a record may have been written (``rd_kafka_message_status``), but its
Python binding does not return this status. An error code is not enough: a delivery report has the
error of the *last* attempt. With retries, the broker may have written an earlier attempt. So a
delivery report with an error is ``info``. It is ``fail`` only if the client does not retry and the
broker returned the error before it appended the record. A record that ``produce`` itself refuses is
always ``fail``, because it was never queued.

A record in a transaction has the transaction's outcome (KIP-98). A transaction is committed only if
its producer requests the commit from the coordinator (EndTxn). A transaction is aborted by its
producer, by its timeout, or by the next producer with the same ``transactional.id``
(InitProducerId). So the outcomes are:

* If the commit was never requested, the transaction is ``fail``, even if its abort was not
  acknowledged, or its producer crashed or was fenced.
* If the commit was acknowledged, the transaction is ``ok``.
* If ``commit_transaction`` failed, the client may have sent EndTxn and not got the response. If
  librdkafka then requires an abort (``txn_requires_abort``), and the abort is acknowledged, the
  transaction is ``fail``: a coordinator does not abort a transaction whose commit it has begun
  (INVALID_TXN_STATE, a fatal error). After a ``LOST_PRODUCER`` error this is not true: such an
  abort only gets a new epoch (KIP-360), and proves nothing about the old epoch.
* Otherwise the transaction is ``info``: the commit timed out, or was fenced after it was sent.
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
"""Errors that Kafka returns only before it appends (``Partition.appendRecordsToLeader``,
``LogValidator``, ``ProducerAppendInfo``). Other errors are not in the set:
NOT_ENOUGH_REPLICAS_AFTER_APPEND; REQUEST_TIMED_OUT, if the ISR did not follow in time;
NOT_LEADER_FOR_PARTITION and UNKNOWN_TOPIC_OR_PART, which ``DelayedProduce.tryComplete`` also
returns for an acks=all record that a deposed leader *has* appended; and the client's own errors
(codes below zero) without a response."""

REFUSED_LOCALLY: Final = FAIL
"""The outcome if ``produce`` raised an error: the client neither queued nor sent the record."""


PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - that is their public name
"""Errors of records for whose responses the client stopped waiting, because the harness purged the
client's queue."""


def delivered(code: int, *, retries: bool) -> str:
    """Return the outcome of a record with this error code in its delivery report.

    Args:
        retries: whether the client may have sent the record more than once.
    """
    return FAIL if code in REFUSED_BEFORE_APPEND and not retries else INFO


LOST_PRODUCER: Final = frozenset(
    {KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.INVALID_PRODUCER_ID_MAPPING}
)
"""Errors with which the coordinator says that it no longer knows the producer."""


def not_committed(code: int, *, aborted: bool) -> str:
    """Return the outcome of a transaction whose commit request failed with an error code.

    Args:
        aborted: whether the client then aborted the transaction, and got an acknowledgement.
    """
    return FAIL if aborted and code not in LOST_PRODUCER else INFO
