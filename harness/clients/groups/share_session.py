"""A share group member's client, which writes its records to the history and to a journal."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaException

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.groups.share_journal import ACCEPT, ShareJournal
from highwater.harness.clients.libraries.interfaces import ReaderLibrary, SharedRecord
from highwater.harness.clients.operation_buffers import ReadBuffer
from highwater.harness.clients.send_rate import POLL_S
from highwater.harness.runs.history import READ_UNCOMMITTED, REBALANCE, RUN, SUBSCRIBE
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder

_CALL_S: Final = 2 * POLL_S
_ANSWERS_S: Final = 60.0


class ShareSession:
    """A share group member's client, from its start to its end or crash.

    Args:
        settings: settings from ``client_config.share_consumer``.
        process: the member's name in the history.
        warn: is called with each error of a record.
    """

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        settings: clients.Settings,
        *,
        process: str,
        library: ReaderLibrary,
        warn: Callable[[object], None],
    ) -> None:
        group, topic = settings["group.id"], plan.topic
        self.client = library.share_consumer(settings)
        self.journal = ShareJournal(recorder, process=process, group=group)
        self._clock = recorder.clock
        self._warn = warn
        self._tape = ReadBuffer(
            recorder,
            process=process,
            phase=RUN,
            topic=topic.name,
            isolation=READ_UNCOMMITTED,  # share.isolation.level, by default
            group=group,
        )
        self.client.set_acknowledgement_commit_callback(self.journal.answered)
        self._tape.moved(SUBSCRIBE, dict.fromkeys(range(topic.partitions)), within=False)
        self.client.subscribe([topic.name])

    def poll(self) -> list[SharedRecord]:
        """Return the records of one poll. Pass errors that a poll returns as records to ``warn``.

        Raises:
            KafkaException, IllegalStateException: from the client.
        """
        invoke_ns = self._clock()
        messages = list(self.client.poll(_CALL_S))
        sound = [message for message in messages if message.error() is None]
        for message in messages:
            if message.error() is not None:
                self._warn(message.error())
        if sound:
            self._tape.moved(REBALANCE, {None: None}, within=True)
            self._tape.read(sound, invoke_ns)
            self.journal.given(sound, invoke_ns)
        return sound

    def end(self, *, crashed: bool) -> None:
        """Leave the group. If ``crashed``, end without a request to the group."""
        begun_ns = self._clock()
        if crashed:
            self.client.drop()
        else:
            try:
                self.client.close()
            except KafkaException as error:
                self._warn(error)
        del self.client  # this ends a dropped client
        self.journal.ended(begun_ns, crashed=crashed)


class SteeredShareMember:
    """A member of a share group that polls and accepts only when a story calls its methods.

    Its client is not thread-safe, and has a thread of its own.
    """

    def __init__(self, session: Callable[[], ShareSession], warn: Callable[[object], None]) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._session = self._thread.submit(session)
        self._warn = warn
        self._left = False
        self._records: dict[int, SharedRecord] = {}

    def poll(self) -> tuple[int, ...]:
        """Poll once; return the offsets of the records in partition 0."""
        return self._thread.submit(self._poll).result()

    def accept(self, offset: int) -> Future[None]:
        """Accept a record; return a Future that is done when the brokers have responded."""
        return self._thread.submit(self._accept, offset)

    def leave(self) -> None:
        """Leave the group. Brokers may then deliver its unacknowledged records to other members."""
        if self._left:
            return
        self._left = True
        self._thread.submit(lambda: self._session.result().end(crashed=False)).result()
        self._thread.shutdown()

    def _poll(self) -> tuple[int, ...]:
        try:
            records = self._session.result().poll()
        except (KafkaException, IllegalStateException) as error:
            self._warn(error)
            return ()
        offsets = {record.offset() or 0: record for record in records}
        self._records |= offsets
        return tuple(offsets)

    def _accept(self, offset: int) -> None:
        session, record = self._session.result(), self._records[offset]
        session.journal.answers(ACCEPT, [record])
        session.client.acknowledge(record, AcknowledgeType.ACCEPT)
        session.client.commit_sync(_ANSWERS_S)
