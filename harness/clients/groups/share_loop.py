"""Members of a share group (KIP-932): each record is delivered until a member accepts it.

A member has no position, so it gets records in any order, and some records again. The harness
writes a row ``rebalance`` to the history before each poll's records. After this row, the checkers
accept any order of offsets. They still report all other anomalies.
"""

import json
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka import IllegalStateException, KafkaException, Message, ShareConsumer

from highwater.harness.clients import client_config as clients
from highwater.harness.clients.operation_buffers import ReadBuffer
from highwater.harness.clients.send_rate import POLL_S
from highwater.harness.runs.history import READ_UNCOMMITTED, REBALANCE, RUN, SUBSCRIBE
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder

_CALL_S: Final = 2 * POLL_S
_STATISTICS_MS: Final = 200


class ShareLoop:
    """One member of a share group, in a thread of its own. It continues through every fault.

    Each poll accepts the records of the previous poll.

    Args:
        settings: settings from ``client_config.share_consumer``.
        process: the member's name in the history.

    Attributes:
        given: partition to the offset after the greatest offset that the member got.
        assigned: the partitions from which the member fetches.
    """

    def __init__(
        self, plan: Plan, recorder: Recorder, settings: clients.Settings, *, process: str
    ) -> None:
        self.given: dict[int, int] = {}
        self.assigned: frozenset[int] = frozenset()
        self._topic = plan.topic
        self._recorder = recorder
        self._settings = {
            **settings, "statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._look
        }  # fmt: skip
        self._log = settings["logger"]
        self._process = process
        self._tape = ReadBuffer(
            recorder,
            process=process,
            phase=RUN,
            topic=plan.topic.name,
            isolation=READ_UNCOMMITTED,  # share.isolation.level, by default
            group=settings["group.id"],
        )

    @property
    def reading(self) -> frozenset[int]:
        """The same as ``assigned``: a member of a share group has no positions."""
        return self.assigned

    def run(self, stop: threading.Event, answer_limit_s: Callable[[], float]) -> None:
        """Poll until ``stop`` is set. Then leave the group, unless ``answer_limit_s`` is 0.

        A member that leaves accepts the last records, and waits for the brokers' responses.
        """
        client = ShareConsumer(self._settings)
        self._tape.moved(SUBSCRIBE, dict.fromkeys(range(self._topic.partitions)), within=False)
        client.subscribe([self._topic.name])
        while not stop.is_set():
            invoke_ns = self._recorder.clock()
            try:
                messages = list(client.poll(_CALL_S))
            except (KafkaException, IllegalStateException) as error:
                self._log.warning("%s: %s", self._process, error)
                stop.wait(_CALL_S)
                continue
            self._note(messages, invoke_ns)
        if answer_limit_s() > 0:
            try:
                client.close()
            except KafkaException as error:
                self._log.warning("%s: %s", self._process, error)

    def _look(self, statistics: str) -> None:
        """Record the assigned partitions. librdkafka calls this method within a poll.

        librdkafka has no callback for a member's assignment. In its statistics, an assigned
        partition is ``desired`` and has a broker.
        """
        topic = json.loads(statistics)["topics"].get(self._topic.name, {"partitions": {}})
        self.assigned = frozenset(
            partition["partition"]
            for partition in topic["partitions"].values()
            if partition["desired"] and partition["broker"] >= 0
        )

    def _note(self, messages: list[Message], invoke_ns: int) -> None:
        for message in messages:
            if (error := message.error()) is not None:
                self._log.warning("%s: %s", self._process, error)
        sound = [message for message in messages if message.error() is None]
        if not sound:
            return
        self._tape.moved(REBALANCE, {None: None}, within=True)
        self._tape.read(sound, invoke_ns)
        for message in sound:
            partition, offset = message.partition() or 0, message.offset() or 0
            self.given[partition] = max(self.given.get(partition, 0), offset + 1)
