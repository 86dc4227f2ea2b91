"""A transactional client and its loop (KIP-98).

A transaction sends a few records to random partitions. The seed decides whether it is committed or
aborted. With ``transform`` the client also reads as a group member, before and after its sends. It
commits its offsets within the transaction (KIP-447): consume, transform, produce.

A client that crashes leaves its transaction open. The client's successor has the same
``transactional.id``. So the successor aborts the open transaction, and fences a producer that still
runs.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from confluent_kafka import KafkaException

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import ClientLibrary, ReadRecord
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.send_rate import POLL_S, ClientLifetime, RateLimiter, draws, lives
from highwater.harness.clients.tracked_consumer import TrackedConsumer
from highwater.harness.clients.transaction_buffer import OpenTransaction, TransactionBuffer
from highwater.harness.clients.transactional_producer import (
    TransactionalProducer,
    TransactionTimeouts,
)
from highwater.harness.runs.history import FAIL, OK, READ_COMMITTED, record_value
from highwater.harness.runs.plan import Plan, transform_group_of
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.topics.record_keys import keyed_name

SENDS_MOST: Final = 7
SENDS_MEAN: Final = (1 + SENDS_MOST) / 2
"""The mean number of records in a transaction. All numbers from 1 to ``SENDS_MOST`` have the same
probability."""

_READ_AT_ONCE: Final = 50
_READ_S: Final = 0.01
"""Limits of a poll within a transaction: number of records, and seconds."""

_CRASHED: Final = "_DESTROY"
"""The name of librdkafka's error for requests of a client that was destroyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """The producer and the reader of a transactional loop between two crashes."""

    session: TransactionalProducer
    tape: TransactionBuffer
    reader: TrackedConsumer | None


class TransactionLoop:
    """One transactional client of the run, and the clients that replace it.

    The client has its own thread.

    Args:
        common: returns the settings of a client with the given name.
        library: the library of its producers, and of its consumers with ``transform``.
    """

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        common: Callable[[str], clients.Settings],
        index: int,
        library: ClientLibrary = LIBRDKAFKA,
    ) -> None:
        self._library = library
        self.sent = 0
        """Number of records sent so far."""
        self._plan = plan
        self._recorder = recorder
        self._common = common
        self._name = f"producer-{index}"
        self._named = partial(keyed_name, plan, index) if plan.workload.keys else None
        self._prefix = f"p{index}"
        self._group = transform_group_of(plan.topic.name)
        self._random = draws(plan, self._name)
        rate = plan.workload.rate / plan.workload.producers / SENDS_MEAN
        self._pace = RateLimiter(rate, recorder.clock)
        self._zombie: tuple[_Client, OpenTransaction] | None = None
        """A client that its successor has fenced, but that does not know this yet, and the client's
        open transaction."""
        self._dangling = False

    def run(self, stop: threading.Event, answer_limit_s: Callable[[], float]) -> None:
        """Run transactions until ``stop``.

        Then wait up to ``answer_limit_s`` for the last responses.
        """
        patience = TransactionTimeouts(stop, self._plan.workload.delivery_timeout_s, answer_limit_s)
        lengths = draws(self._plan, f"{self._name} lives")
        for life in lives(stop, lengths, self._plan.workload.churn_s):
            session = self._open(life.named(self._name), patience)
            if session is None:
                stop.wait(POLL_S)
                continue
            self._live(life, session)
            del session  # deleting the last reference ends the client, unless it is a zombie
        if self._dangling:  # otherwise readers wait until the open transaction times out
            self._open(f"{self._name}.end", patience)
        if self._zombie is not None:
            client, entry = self._zombie
            entry.end(FAIL, _CRASHED, answered=False)
            client.tape.close()

    def _open(self, process: str, patience: TransactionTimeouts) -> TransactionalProducer | None:
        """Open the client's successor; return None if no coordinator accepts it in time.

        If the old client is a zombie (it still runs, but is now fenced), let it try to commit.
        """
        name = f"{self._plan.topic.name}-{self._name}"
        settings = clients.transactional(self._plan, self._common(process), name)
        session = TransactionalProducer(settings, patience, self._library)
        if not session.open():
            return None
        self._dangling = False
        if self._zombie is not None:
            (client, entry), self._zombie = self._zombie, None
            end = client.session.commit()
            # The successor aborted this transaction before the zombie requested its commit.
            entry.end(OK if end.outcome == OK else FAIL, end.error)
            client.tape.close()
        return session

    def _live(self, life: ClientLifetime, session: TransactionalProducer) -> None:
        process = life.named(self._name)
        tape = TransactionBuffer(
            self._recorder,
            process=process,
            topic=self._plan.topic.name,
            isolation=READ_COMMITTED,
            group=self._group,
        )
        client = _Client(session=session, tape=tape, reader=self._reader(process, tape))
        usable = self._work(client, life)
        crashed = usable and life.crashed
        if crashed:
            self._transact(client, crash=True)
        self._dangling = crashed or not usable
        if client.reader is not None:
            if crashed:
                client.reader.drop()
            else:
                client.reader.close()
        if self._zombie is None:
            session.drop()
        tape.close()

    def _reader(self, process: str, tape: TransactionBuffer) -> TrackedConsumer | None:
        """Return the client's consumer; None if the client only produces."""
        if not self._plan.workload.transform:
            return None
        topic = self._plan.topic
        settings = clients.consumer(
            self._common(process), group=self._group, session_s=self._plan.session_s
        )
        reader = TrackedConsumer(
            settings, topic.name, topic.partitions, tape.moved, library=self._library
        )
        reader.subscribe()
        return reader

    def _work(self, client: _Client, life: ClientLifetime) -> bool:
        """Run transactions until the lifetime ends. Return False if the producer failed before."""
        while not life.is_set():
            for _ in range(self._pace.due()):
                if life.is_set():
                    break
                if not self._transact(client):
                    return False
            client.session.client.poll(self._pace.wait_s())
            client.tape.turn()
        return True

    def _transact(self, client: _Client, *, crash: bool = False) -> bool:
        """Run one transaction. Return False if the producer cannot be used any more."""
        draw, partitions = self._random, self._plan.topic.partitions
        targets = [draw.randrange(partitions) for _ in range(draw.randint(1, SENDS_MOST))]
        aborts = draw.random() < self._plan.workload.aborts
        if not client.session.begin():
            return False
        entry = client.tape.begin()
        if client.reader is not None:
            client.reader.revoked = False
        polled = self._poll(client, entry)
        whole = all(self._send(client.session, entry, partition) for partition in targets)
        client.session.flush()
        polled += self._poll(client, entry)
        ready = whole and (crash or not aborts) and self._keep_offsets(client, polled)
        if crash:
            self._crash(client, entry, ready=ready)
            return False
        end = client.session.commit() if ready else client.session.abort()
        entry.end(end.outcome, end.error, answered=end.answered)
        if end.outcome != OK and client.reader is not None:
            client.reader.seek(_first(polled))
        return end.usable

    def _poll(self, client: _Client, entry: OpenTransaction) -> list[ReadRecord]:
        if client.reader is None:
            return []
        messages = client.reader.poll(_READ_AT_ONCE, _READ_S)
        entry.read(messages)
        return messages

    def _send(self, session: TransactionalProducer, entry: OpenTransaction, partition: int) -> bool:
        """Send the next record. Return False if the client refuses the record."""
        name = self._named(self.sent) if self._named else f"{self._prefix}-{self.sent}"
        value = record_value(name, self._plan.workload.record_bytes)
        delivered = entry.send(name, partition)
        self.sent += 1
        topic = self._plan.topic.name
        try:
            session.client.queue(topic, value, partition, on_delivery=delivered)
        except KafkaException:
            return False
        return True

    def _keep_offsets(self, client: _Client, polled: list[ReadRecord]) -> bool:
        """Add the offsets after ``polled`` to the transaction. Return False if it must abort.

        It must abort after a partition was revoked, because another member reads the records again.
        """
        reader = client.reader
        if reader is None or not polled:
            return True
        group = reader.client.consumer_group_metadata()
        return not reader.revoked and client.session.offsets(reader.after(polled), group)

    def _crash(self, client: _Client, entry: OpenTransaction, *, ready: bool) -> None:
        """Choose a crash: before the commit, during it, or as a zombie that commits later.

        Args:
            ready: whether the transaction has its records and offsets, so that it may be committed.
        """
        match self._random.choice(("before", "within", "zombie")):
            case "within" if ready:
                end = client.session.crash_in_commit()
                entry.end(end.outcome, end.error, answered=end.answered)
            case "zombie" if ready:
                self._zombie = client, entry
            case _:
                entry.end(FAIL, _CRASHED, answered=False)


def _first(messages: list[ReadRecord]) -> dict[int, int]:
    """Return partition -> first offset in these messages. Offsets may repeat after a seek."""
    numbers: dict[int, int] = {}
    for message in messages:
        partition, offset = message.partition() or 0, message.offset() or 0
        numbers[partition] = min(offset, numbers.get(partition, offset))
    return numbers
