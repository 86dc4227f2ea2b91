"""Outcomes of deliveries: after an error a record is not written (fail), or unknown (info).

librdkafka knows whether a record may have been written (``rd_kafka_message_status``), but its
Python binding does not return that. An error code is not enough: a delivery report has the error of
the *last* attempt, and with retries an earlier attempt may have been written. So an error in a
delivery report is ``info``. It is ``fail`` only if the client does not retry and the broker
returned an error before it appended. A record that ``produce`` itself refuses is always ``fail``,
because it was never queued.

A record that was sent in a transaction has the transaction's outcome (KIP-98). A transaction is
committed only if its producer requests the commit from the coordinator (EndTxn). It is aborted by
an abort, by its timeout, or by the next producer with the same ``transactional.id``
(InitProducerId). So

* a transaction whose commit was never requested is ``fail``, even if its abort was not
  acknowledged, or its producer crashed or was fenced;
* a transaction whose commit was acknowledged is ``ok``;
* when ``commit_transaction`` has failed, EndTxn may have been sent, and its response lost. If
  librdkafka then requires an abort (``txn_requires_abort``), and the abort is acknowledged, it is
  ``fail``: a coordinator does not abort a transaction whose commit it has begun (INVALID_TXN_STATE,
  a fatal error). This does not hold after ``LOST_PRODUCER``: there an abort only takes a new epoch
  (KIP-360) and proves nothing about the old epoch;
* otherwise it is ``info``: a commit that timed out, or that was fenced after it was sent.
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
``LogValidator``, ``ProducerAppendInfo``). These errors are not in the set:
NOT_ENOUGH_REPLICAS_AFTER_APPEND; REQUEST_TIMED_OUT, if the ISR did not follow in time;
NOT_LEADER_FOR_PARTITION and UNKNOWN_TOPIC_OR_PART, which ``DelayedProduce.tryComplete`` also
returns for an acks=all record that a deposed leader *has* appended; and the client's own errors
(codes below zero) without a response."""

REFUSED_LOCALLY: Final = FAIL
"""The outcome if ``produce`` raised an error: the record was neither queued nor sent."""


PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - that is their public name
"""The client stopped waiting for responses because the harness purged its queue."""


def delivered(code: int, *, retries: bool) -> str:
    """Return the outcome of an error in a delivery report, by its code.

    Args:
        retries: whether the client may have sent the record more than once.
    """
    return FAIL if code in REFUSED_BEFORE_APPEND and not retries else INFO


LOST_PRODUCER: Final = frozenset(
    {KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.INVALID_PRODUCER_ID_MAPPING}
)
"""The coordinator no longer knows the producer."""


def not_committed(code: int, *, aborted: bool) -> str:
    """Return the outcome of a transaction whose requested commit failed with an error code.

    Args:
        aborted: whether the client then aborted the transaction, and the abort was acknowledged.
    """
    return FAIL if aborted and code not in LOST_PRODUCER else INFO
