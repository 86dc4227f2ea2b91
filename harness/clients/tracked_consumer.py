"""A consumer of the topic under test that reports every move of its position.

From the history, a checker must be able to distinguish a seek from records that the reader skipped.
So only this class may move a reader. The consumer's ``auto.offset.reset`` is ``error``: librdkafka
then reports an error instead of moving. For a consumer that gets partitions from its group, this
class requests the first offsets. A consumer with another ``auto.offset.reset`` behaves like an
application's: if its group has no committed offset, that setting decides its first offset.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from highwater.harness.clients.client_config import REPORTED, Settings
from highwater.harness.clients.groups.final_offsets import committed_offsets
from highwater.harness.clients.groups.journal import GroupJournal
from highwater.harness.clients.libraries.interfaces import (
    ReaderLibrary,
    ReadRecord,
    RecordConsumer,
)
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.operation_buffers import Places
from highwater.harness.runs.history import ASSIGN, REBALANCE, SEEK, SUBSCRIBE

_ASK_S: Final = 5.0
_ENDS_S: Final = 5.0
_STORED: Final = -1000
"""librdkafka's number for "the group's committed offset". librdkafka then requests that offset
itself."""


class MoveCallback(Protocol):
    """A callback for each change of a reader's position or partitions."""

    def __call__(self, kind: str, places: Places, *, within: bool) -> None:
        """Record a change of a kind in ``history``; ``within`` if it happens during a poll."""


class TrackedConsumer:
    """One consumer. Not thread-safe.

    Args:
        settings: settings from ``client_config.consumer``.
        partitions: number of the topic's partitions.
        moved: called at every change of position or partitions, before a record is read from the
            new position.
        journal: the journal of a group member. With a journal, the member commits its position when
            a partition is revoked.
        library: the consumer's library.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        partitions: int,
        moved: MoveCallback,
        journal: GroupJournal | None = None,
        library: ReaderLibrary = LIBRDKAFKA,
    ) -> None:
        self._log = settings["logger"]
        self._name = settings["client.id"]
        self._from_beginning = settings["auto.offset.reset"] == REPORTED
        self._chooses = bool(settings["enable.auto.commit"])
        self._incremental = settings.get("group.protocol") == "consumer"
        self._journal = journal
        self._topic = topic
        self._partitions = partitions
        self._moved = moved
        self._stranded: dict[int, int] = {}
        self._next: dict[int, int] = {}
        """Assigned partition to the offset that is read next."""
        self.revoked = False
        """Whether partitions were revoked or lost since the caller set this to False."""
        if journal is not None:
            settings = {**settings, "on_commit": journal.answered}
        self._client: RecordConsumer | None = library.consumer(settings)

    @property
    def client(self) -> RecordConsumer:
        """The library's consumer."""
        assert self._client is not None, "a consumer cannot be used after close or drop"
        return self._client

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets."""
        self._moved(ASSIGN, dict.fromkeys(positions), within=False)
        self._moved(SEEK, positions, within=False)
        self._next = dict(positions)
        self.client.assign(self._places())

    def subscribe(self) -> None:
        """Join the group, and read the partitions that it assigns."""
        self._moved(SUBSCRIBE, dict.fromkeys(range(self._partitions)), within=False)
        self.client.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def poll(self, most: int, wait_s: float) -> list[ReadRecord]:
        """Return the next records. Write errors of the poll to the log."""
        if self._stranded:
            self._go_on()
        messages = self.client.consume(most, wait_s)
        sound = [message for message in messages if message.error() is None]
        if len(sound) < len(messages):
            self._note_errors(messages)
        for message in sound:
            self._next[message.partition() or 0] = (message.offset() or 0) + 1
        return sound

    def seek(self, positions: Mapping[int, int]) -> None:
        """Continue at new positions. Skip partitions that the consumer no longer has."""
        numbers: dict[int, int] = {}
        for partition, offset in positions.items():
            try:
                self.client.seek(self._at(partition, offset))
            except KafkaException as error:
                self._log.info("%s: a seek failed: %s", self._name, error)
            else:
                numbers[partition] = offset
        if numbers:
            self._next |= numbers
            self._moved(SEEK, numbers, within=False)

    def positions(self) -> dict[int, int]:
        """Return partition -> next offset to read; 0 if the first offset is still unknown."""
        return {partition: max(0, offset) for partition, offset in self._next.items()}

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions that the consumer reads."""
        return frozenset(self._next)

    def commit(self, messages: Iterable[ReadRecord]) -> None:
        """Commit the positions after these records to the group. Do not wait for the response."""
        places = [place for place in self.after(messages) if place.partition in self._next]
        if not places:
            return
        if self._journal is not None:
            self._journal.commits(places)
        try:
            self.client.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            self._log.info("%s: a commit failed: %s", self._name, error)

    def after(self, messages: Iterable[ReadRecord]) -> list[TopicPartition]:
        """Return the position after the last of these records, for each partition."""
        last = {message.partition() or 0: (message.offset() or 0) + 1 for message in messages}
        return [self._at(*place) for place in last.items()]

    def close(self) -> None:
        """Leave the group, if the consumer is a member, and close the consumer."""
        begun_ns = 0 if self._journal is None else self._journal.clock()
        self.client.close()
        self._client = None
        if self._journal is not None:
            self._journal.ended(begun_ns, crashed=False)

    def drop(self) -> None:
        """Close the consumer as in a crash. The group removes it after the session timeout.

        librdkafka may wait for its own threads without end (its issues 4674 and 5434). So a
        separate thread deletes the last reference, and may hang.
        """
        if self._journal is not None:
            self._journal.ended(self._journal.clock(), crashed=True)
        self.client.drop()
        last, self._client = [self._client], None
        ending = threading.Thread(target=last.clear, name=f"{self._name} ends", daemon=True)
        ending.start()
        ending.join(_ENDS_S)
        if ending.is_alive():
            self._log.warning("%s: the library did not end the client in %g s", self._name, _ENDS_S)

    def _at(self, partition: int, offset: int) -> TopicPartition:
        return TopicPartition(self._topic, partition, offset)

    def _places(self) -> list[TopicPartition]:
        return _at_all(self._topic, self._next)

    def _note_errors(self, messages: Iterable[ReadRecord]) -> None:
        for message in messages:
            if (error := message.error()) is None:
                continue
            self._log.warning("%s: %s", self._name, error)
            if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - its public name
                self._stranded[message.partition() or 0] = message.offset() or 0

    def _go_on(self) -> None:
        """If a partition's position is out of range, continue at the nearest offset in the log.

        A member of a classic group can only replace its complete assignment. A member of a KIP-848
        group can only change a part of it.
        """
        moves: dict[int, int] = {}
        for partition, position in list(self._stranded.items()):
            try:
                place = self._at(partition, position)
                bounds = self.client.get_watermark_offsets(place, timeout=_ASK_S)
            except KafkaException as error:
                self._log.info("%s: the end of the log is not known: %s", self._name, error)
                continue
            low, high = bounds
            moves[partition] = min(max(position, low), high)
            del self._stranded[partition]
        if moves and self._replaced(moves):
            self._moved(SEEK, moves, within=False)
            if self._journal is not None:
                self._journal.note("sought", dict(moves), self._journal.clock())

    def _replaced(self, moves: Mapping[int, int]) -> bool:
        """Read partitions at new offsets. Return False if the client no longer owns them.

        This happens if the group has removed the client. The client reports it at the next poll.
        """
        places = _at_all(self._topic, moves)
        try:
            if self._incremental:
                self.client.incremental_unassign(places)
                self.client.incremental_assign(places)
            else:
                self.client.assign(_at_all(self._topic, self._next | dict(moves)))
        except KafkaException as error:
            self._log.info("%s: the partitions are revoked: %s", self._name, error)
            return False
        self._next |= moves
        return True

    def _assigned(self, client: RecordConsumer, partitions: list[TopicPartition]) -> None:
        """Record an assignment, and start to read at the first offsets.

        The library calls this in a poll, before it returns any record of the partitions.
        """
        begun_ns = 0 if self._journal is None else self._journal.clock()
        epoch = None if self._journal is None else client.epoch()
        self._moved(REBALANCE, _all(partitions), within=True)
        places = self._committed(client, partitions)
        begins = {place.partition: place.offset for place in places}
        if self._incremental:
            self._next |= begins
            client.incremental_assign(places)
        else:
            self._next = begins
            client.assign(places)
        offsets = {place.partition: None if place.offset < 0 else place.offset for place in places}
        if places:
            self._moved(SEEK, offsets, within=True)
        if self._journal is not None:
            self._journal.note("assigned", offsets, begun_ns, epoch=epoch)

    def _revoked(self, client: RecordConsumer, partitions: list[TopicPartition]) -> None:
        """Commit the positions, and record a revocation.

        The library calls this in a poll or at close.
        """
        begun_ns = 0 if self._journal is None else self._journal.clock()
        if self._journal is not None:
            self._commit_last(client, {place.partition for place in partitions}, self._journal)
        self._give_up(partitions)
        if self._journal is not None:
            self._journal.note("revoked", _unplaced(partitions), begun_ns)

    def _lost(self, client: RecordConsumer, partitions: list[TopicPartition]) -> None:
        """Record that the group has removed the member and reassigned its partitions."""
        del client
        begun_ns = 0 if self._journal is None else self._journal.clock()
        self._give_up(partitions)
        if self._journal is not None:
            self._journal.note("lost", _unplaced(partitions), begun_ns)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        self.revoked = True
        for place in partitions:
            self._stranded.pop(place.partition, None)
            self._next.pop(place.partition, None)
        if not self._incremental:
            self._stranded.clear()
            self._next.clear()
        self._moved(REBALANCE, _all(partitions), within=True)

    def _commit_last(
        self, client: RecordConsumer, partitions: set[int], journal: GroupJournal
    ) -> None:
        """Repeat commits without a response, and wait: the next owner starts at their offsets."""
        ends = {
            partition: offset
            for partition, offset in self._next.items()
            if partition in partitions & journal.unanswered
        }
        if not ends:
            return
        places = _at_all(self._topic, ends)
        journal.commits(places)
        try:
            answer = client.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            self._log.info("%s: the last commit failed: %s", self._name, error)
            journal.answered(error.args[0], places)
        else:
            journal.answered(None, answer or ())

    def _committed(
        self, client: RecordConsumer, partitions: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the offset at which to start in each partition.

        This is the group's committed offset, or 0 if there is none. The result is ``_STORED`` if
        the client must choose: always with ``enable.auto.commit``, and without a committed offset
        if ``auto.offset.reset`` is not ``error``.
        """
        if self._chooses:
            return [self._at(place.partition, _STORED) for place in partitions]
        begun_ns = 0 if self._journal is None else self._journal.clock()
        try:
            committed = client.committed(partitions, timeout=_ASK_S) if partitions else []
        except KafkaException as error:
            self._log.info("%s: the committed offsets are not known: %s", self._name, error)
            committed = []
        if self._journal is not None:
            self._journal.note("committed", committed_offsets(committed), begun_ns)
        offsets = {
            place.partition: max(0, place.offset)
            for place in committed
            if place.error is None and (place.offset >= 0 or self._from_beginning)
        }
        return [
            self._at(place.partition, offsets.get(place.partition, _STORED)) for place in partitions
        ]


def _at_all(topic: str, offsets: Mapping[int, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, *place) for place in offsets.items()]


def _unplaced(partitions: Iterable[TopicPartition]) -> dict[int, int | None]:
    return dict.fromkeys((place.partition for place in partitions), None)


def _all(partitions: list[TopicPartition]) -> Places:
    if not partitions:
        return {None: None}
    return dict.fromkeys(place.partition for place in partitions)
