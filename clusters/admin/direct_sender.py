"""Send a record once to a given broker, without waiting for the response.

An ordinary client looks up the leader and retries. But some tests must write once to a former
leader that does not know the new leader.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from confluent_kafka import KafkaError
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from highwater.clusters.admin.kafka_protocol import BrokerConnection, Request
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.clients.delivery_outcomes import delivered
from highwater.harness.clients.record_sender import SendOutcome
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.history import FAIL, INFO, OK, RUN, SEND, record_value
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder

_ACKS: Final = {"0": 0, "1": 1, "all": -1}
_PRODUCE: Final = {0: 1, 1: 2, 2: 3}
"""Version of the Produce request for each record format. Brokers of 4.x support version 3 and
later."""

_CONNECT_S: Final = 3.0
_TRANSPORT: Final = "_TRANSPORT"
_PURGED: Final = "_PURGE_INFLIGHT"
"""librdkafka's names for two errors: the connection broke, and no response came in time."""

_BATCH_BYTES_MAX: Final = 1 << 20


class DirectSender:
    """Sends every record over its own connection. Threads can share this object.

    Args:
        plan: the plan with the topic, the acks, the record size and the timeout.
        recorder: writes each send to the history. The column ``process`` is ``story``.
    """

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        self._plan = plan
        self._recorder = recorder
        self._magic = release(plan.kafka).magic
        self._answers: dict[str, SendOutcome | None] = {}
        self._waiting: list[tuple[threading.Thread, BrokerConnection]] = []
        self._closing = threading.Event()

    @property
    def sent(self) -> int:
        """Number of records sent so far."""
        return len(self._answers)

    @property
    def answers(self) -> Mapping[str, SendOutcome | None]:
        """The outcome of each sent record by its id; None while the outcome is unknown."""
        return dict(self._answers)

    def send(
        self, identity: str, partition: int, *, address: str, timestamp_ms: int | None = None
    ) -> None:
        """Send a record. Return when TCP has accepted the bytes; the broker may never read them.

        Args:
            identity: the record's id.
            address: ``host:port`` of the broker.
            timestamp_ms: the record's timestamp; by default the current time.
        """
        times = () if timestamp_ms is None else (timestamp_ms,)
        self.send_batch((identity,), partition, address=address, times_ms=times)

    def send_batch(
        self,
        identities: Sequence[str],
        partition: int,
        *,
        address: str,
        times_ms: Sequence[int] = (),
    ) -> None:
        """Send several records in one batch, like ``send``.

        The broker sends one response for the batch.

        Args:
            times_ms: the records' timestamps; if empty, the current time.
        """
        invoke_ns = self._recorder.clock()
        self._answers.update(dict.fromkeys(identities))
        now_ms = time.time_ns() // 1_000_000
        request = self._request(identities, partition, times_ms or [now_ms] * len(identities))
        note = partial(self._note, identities, partition, invoke_ns)
        try:
            connection = BrokerConnection(Address.parse(address), timeout_s=_CONNECT_S)
        except UnreachableError:  # the record was never sent
            note(SendOutcome(outcome=FAIL, error=_TRANSPORT))
            return
        try:
            connection.send(request)
        except UnreachableError:
            connection.close()
            note(SendOutcome(outcome=INFO, error=_TRANSPORT))
            return
        thread = threading.Thread(
            target=self._await_response,
            args=(connection, request, note),
            name=" ".join(identities),
            daemon=True,
        )
        self._waiting.append((thread, connection))
        thread.start()

    def close(self, *, limit_s: float) -> None:
        """Wait for the responses. After the time limit, record each missing response as unknown."""
        deadline = time.monotonic() + limit_s
        for thread, _ in self._waiting:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._closing.set()
        for thread, connection in self._waiting:
            connection.shut_down()
            thread.join()
        self._waiting = []

    def _await_response(
        self, connection: BrokerConnection, request: Request, note: Callable[[SendOutcome], None]
    ) -> None:
        """Wait for the response, and pass the outcome to ``note``. With acks=0: ok at once."""
        try:
            if request.acks == 0:
                note(SendOutcome(outcome=OK))
                return
            connection.set_timeout(self._plan.workload.delivery_timeout_s)
            [response] = connection.receive(request)
        except UnreachableError:
            note(SendOutcome(outcome=INFO, error=_PURGED if self._closing.is_set() else _TRANSPORT))
        else:
            result = response.responses[0].partition_responses[0]
            code = result.error_code
            note(
                SendOutcome(outcome=delivered(code, retries=False), error=KafkaError(code).name())
                if code
                else SendOutcome(outcome=OK, offset=result.base_offset)
            )
        finally:
            connection.close()

    def _note(
        self, identities: Sequence[str], partition: int, invoke_ns: int, answer: SendOutcome
    ) -> None:
        complete_ns = None if answer.error == _PURGED else self._recorder.clock()
        for number, identity in enumerate(identities):
            offset = None if answer.offset is None else answer.offset + number
            self._recorder.operation(
                process="story",
                kind=SEND,
                phase=RUN,
                topic=self._plan.topic.name,
                acks=self._plan.workload.acks,
                outcome=answer.outcome,
                invoke_ns=invoke_ns,
                complete_ns=complete_ns,
                partition=partition,
                offset=offset,
                value=identity,
                error=answer.error,
            )
            self._answers[identity] = replace(answer, offset=offset)

    def _request(
        self, identities: Sequence[str], partition: int, times_ms: Sequence[int]
    ) -> Request:
        builder = MemoryRecordsBuilder(self._magic, 0, _BATCH_BYTES_MAX)
        for identity, time_ms in zip(identities, times_ms, strict=True):
            value = record_value(identity, self._plan.workload.record_bytes)
            builder.append(time_ms, None, value)
        builder.close()
        topic = ProduceRequest.TopicProduceData
        data = topic.PartitionProduceData(index=partition, records=bytes(builder.buffer()))
        return ProduceRequest(
            version=_PRODUCE[self._magic],
            transactional_id=None,
            acks=_ACKS[self._plan.workload.acks],
            timeout_ms=int(self._plan.workload.delivery_timeout_s * 1000),
            topic_data=[topic(name=self._plan.topic.name, partition_data=[data])],
        )
