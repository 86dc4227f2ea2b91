"""Consumers: readers of every partition, and members of a group.

Both go on through every fault: an error is logged, never fatal.
"""

import threading
from collections.abc import Callable
from typing import Final

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.fetch_sources import FetchSources
from highwater.harness.clients.operation_buffers import ReadBuffer
from highwater.harness.clients.send_rate import POLL_S, ClientLifetime, StopSignal, draws, lives
from highwater.harness.clients.tracked_consumer import TrackedConsumer
from highwater.harness.runs.history import RUN
from highwater.harness.runs.plan import Plan, rack_of
from highwater.harness.runs.recorder import Recorder

_READ_AT_ONCE: Final = 5_000
_AWAY: Final = 0.25


class ConsumerLoop:
    """One consumer of the run, life after life. Runs in its own thread.

    By itself it is assigned every partition, from the beginning, and its successor goes
    on where it was. As a member of a group it is given partitions, and commits what it has read; it
    stays away for a while between two lives.

    Args:
        common: settings of a client of that name.
        name: its process in the history, which ends in a number; that decides its rack.
        group: which it is a member of; None for none.
    """

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        common: Callable[[str], clients.Settings],
        *,
        name: str,
        isolation: str,
        group: str | None = None,
    ) -> None:
        self._plan = plan
        self._recorder = recorder
        self._common = common
        self._name = name
        self._number = int(name.rpartition("-")[2]) + 1
        self._isolation = isolation
        self._group = group
        self._positions = dict.fromkeys(range(plan.topic.partitions), 0)
        self._random = draws(plan, name)

    def run(self, stop: threading.Event, answer_limit_s: Callable[[], float]) -> None:
        """Read until ``stop`` is set; then leave, if answers are waited for at all.

        A member leaves its group by asking the coordinator, and librdkafka waits for that answer
        for as long as it takes.
        """
        mean_s = self._plan.workload.churn_s
        for life in lives(stop, self._random, mean_s):
            self._live(life, lambda: answer_limit_s() > 0)
            if self._group is not None:
                stop.wait(self._random.random() * mean_s * _AWAY)

    def _live(self, life: ClientLifetime, leaves: Callable[[], bool]) -> None:
        process, topic = life.named(self._name), self._plan.topic
        isolation = self._isolation
        tape = ReadBuffer(
            self._recorder, process=process, phase=RUN, topic=topic.name, isolation=isolation
        )
        settings = clients.consumer(self._common(process), isolation=isolation, group=self._group)
        if racks := self._plan.racks:
            sources = FetchSources(self._recorder, process=process, topic=topic.name)
            settings |= sources.settings(rack_of(self._number, racks))
        reader = TrackedConsumer(settings, topic.name, topic.partitions, tape.moved)
        try:
            if self._group is None:
                reader.assign(self._positions)
            else:
                reader.subscribe()
            self._read(reader, tape, life)
            if self._group is None:
                self._positions = reader.positions()
        finally:
            if leaves() and not life.crashed:
                reader.close()
            else:
                reader.drop()

    def _read(self, reader: TrackedConsumer, tape: ReadBuffer, ending: StopSignal) -> None:
        while not ending.is_set():
            invoke_ns = self._recorder.clock()
            messages = reader.poll(_READ_AT_ONCE, 2 * POLL_S)
            tape.read(messages, invoke_ns)
            if self._group is not None and messages and not ending.is_set():
                reader.commit(messages)
