"""Loops of consumers: readers of every partition, and members of a group.

Both kinds continue through every fault: an error is logged, and never ends the loop.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Final

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.fetch_sources import FetchSources
from highwater.harness.clients.groups.journal import GroupJournal
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.clients.libraries.interfaces import ReaderLibrary
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.operation_buffers import ReadBuffer
from highwater.harness.clients.read_names import Names, by_values
from highwater.harness.clients.send_rate import POLL_S, ClientLifetime, StopSignal, draws, lives
from highwater.harness.clients.tracked_consumer import TrackedConsumer
from highwater.harness.runs.history import RUN
from highwater.harness.runs.plan import Plan, rack_of
from highwater.harness.runs.recorder import Recorder

_READ_AT_ONCE: Final = 5_000
_AWAY: Final = 0.25
_STATISTICS_MS: Final = 200


class ConsumerLoop:
    """One consumer of the run, and the consumers that replace it. The consumer has its own thread.

    Without a group, the consumer reads every partition from the beginning, and its successor
    continues at the same offsets. A group member gets partitions from the group and commits
    offsets. After a crash, its successor starts some seconds later.

    Args:
        common: returns the settings of a client with the given name.
        name: the consumer's process in the history. The number at its end decides the rack.
        joins: the group that the consumer joins; None for no group.
        library: the client library.
        names: the records' names in the history.

    Attributes:
        started: partition to the next offset to fetch; only for a member with ``refresh_s``.
    """

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        common: Callable[[str], clients.Settings],
        *,
        name: str,
        isolation: str,
        joins: GroupMembership | None = None,
        library: ReaderLibrary = LIBRDKAFKA,
        names: Names = by_values,
    ) -> None:
        self._library = library
        self._names = names
        self._plan = plan
        self._recorder = recorder
        self._common = common
        self._name = name
        self._number = int(name.rpartition("-")[2]) + 1
        self._isolation = isolation
        self._joins = joins
        self._reader: TrackedConsumer | None = None
        self.started: dict[int, int] = {}
        self._leaves = threading.Event()
        self._positions = dict.fromkeys(range(plan.topic.partitions), 0)
        self._random = draws(plan, name)
        self._dies = threading.Event()

    def begin_at(self, offsets: Mapping[int, int]) -> None:
        """Let a consumer without a group begin at these offsets by partition, and not at 0."""
        self._positions |= offsets

    def die_at_work(self) -> None:
        """Let the consumer stop for ever after its next poll, before it processes the records.

        These records do not count as read.
        """
        self._dies.set()

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions that the consumer reads now."""
        return frozenset() if self._reader is None else self._reader.assigned

    @property
    def reading(self) -> frozenset[int]:
        """The assigned partitions from which the consumer has begun to fetch."""
        return self.assigned & frozenset(self.started)

    @property
    def positions(self) -> Mapping[int, int]:
        """Partition to the next offset to read, without a group and when ``run`` has returned."""
        return self._positions

    @property
    def given(self) -> dict[int, int]:
        """Partition to the next offset to read, as in ``TrackedConsumer.positions``."""
        return {} if self._reader is None else self._reader.positions()

    def run(self, stop: threading.Event, answer_limit_s: Callable[[], float]) -> None:
        """Read until ``stop`` is set. Then leave the group, unless ``answer_limit_s`` is 0.

        To leave, the member sends a request to the coordinator. librdkafka waits for the response
        without a limit.
        """
        mean_s = self._plan.workload.churn_s
        for life in lives(stop, self._random, mean_s):
            self._live(life, lambda: answer_limit_s() > 0)
            if self._leaves.is_set() or self._dies.is_set():
                break
            if self._joins is not None:
                stop.wait(self._random.random() * mean_s * _AWAY)

    def leave(self) -> None:
        """Let the consumer's thread end the loop and leave the group. Do not wait for this."""
        self._leaves.set()

    def _live(self, life: ClientLifetime, leaves: Callable[[], bool]) -> None:
        process, topic, joins = life.named(self._name), self._plan.topic, self._joins
        isolation = self._isolation
        tape = ReadBuffer(
            self._recorder,
            process=process,
            phase=RUN,
            topic=topic.name,
            isolation=isolation,
            group="" if joins is None else joins.group,
            names=self._names,
        )
        journal = self._journal(process)
        reader = TrackedConsumer(
            self._settings(process),
            topic.name,
            topic.partitions,
            tape.moved,
            journal,
            library=self._library,
        )
        self._reader = reader
        try:
            if joins is None:
                reader.assign(self._positions)
            else:
                reader.subscribe()
            self._read(reader, tape, journal, life)
            while self._dies.is_set() and not life.is_set():
                self._recorder.failed.wait(POLL_S)
            if joins is None:
                self._positions = reader.positions()
        finally:
            self._reader = None
            if leaves() and not life.crashed and not self._dies.is_set():
                reader.close()
            else:
                reader.drop()

    def _journal(self, process: str) -> GroupJournal | None:
        """Return a group member's journal; None without a group or in a plan without members."""
        if self._joins is None or not self._plan.workload.members:
            return None
        return GroupJournal(self._recorder, process=process, group=self._joins.group)

    def _settings(self, process: str) -> clients.Settings:
        common, isolation = self._common(process), self._isolation
        if self._joins is None:
            settings = clients.consumer(common, isolation=isolation)
        else:
            joins = self._joins
            settings = clients.consumer(
                common,
                isolation=isolation,
                group=joins.group,
                reset=joins.reset,
                protocol=joins.protocol,
                session_s=self._plan.session_s,
            )
            settings |= joins.settings()
        if racks := self._plan.racks:
            sources = FetchSources(self._recorder, process=process, topic=self._plan.topic.name)
            settings |= sources.settings(rack_of(self._number, racks))
        elif self._joins is not None and self._joins.refresh_s is not None:
            settings |= {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._look}
        return settings

    def _look(self, statistics: str) -> None:
        """Record the next offsets to fetch. librdkafka calls this method within a poll."""
        topic = json.loads(statistics)["topics"].get(self._plan.topic.name, {"partitions": {}})
        for partition in topic["partitions"].values():
            if partition["fetch_state"] == "active" and partition["next_offset"] >= 0:
                self.started[partition["partition"]] = partition["next_offset"]

    def _read(
        self,
        reader: TrackedConsumer,
        tape: ReadBuffer,
        journal: GroupJournal | None,
        ending: StopSignal,
    ) -> None:
        while not ending.is_set() and not self._leaves.is_set():
            invoke_ns = self._recorder.clock()
            messages = reader.poll(_READ_AT_ONCE, 2 * POLL_S)
            if messages and self._dies.is_set():
                return
            tape.read(messages, invoke_ns)
            if journal is not None and messages:
                journal.given(messages, invoke_ns)
            by_hand = self._joins is not None and self._joins.commits_every_s is None
            if by_hand and messages and not ending.is_set():
                reader.commit(messages)
