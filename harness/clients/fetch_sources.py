"""The brokers from which a reader fetches: the leader, or a follower in its own rack (KIP-392).

A record does not contain the id of the broker that sent it. But librdkafka's statistics contain for
each partition: the broker from which the client fetches now, the leader, and the number of records
received so far.
"""

import json
from typing import Any, Final

from highwater.harness.runs.recorder import Recorder

STATISTICS_MS: Final = 500


class FetchSources:
    """Records a reader's source broker when records arrive, and when the source broker changes."""

    def __init__(self, recorder: Recorder, *, process: str, topic: str) -> None:
        self._recorder = recorder
        self._process = process
        self._topic = topic
        self._before: dict[int, tuple[int, int, int]] = {}

    def settings(self, rack: str) -> dict[str, Any]:
        """Return settings for a client in a rack. The client passes its statistics to ``note``."""
        return {
            "client.rack": rack,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": self.note,
        }

    def note(self, statistics: str) -> None:
        """Record librdkafka's statistics. librdkafka calls this method within a poll."""
        topic = json.loads(statistics)["topics"].get(self._topic, {"partitions": {}})
        for partition in topic["partitions"].values():
            number, broker = partition["partition"], partition["broker"]
            state = broker, partition["leader"], partition["rxmsgs"]
            before = self._before.get(number, (-1, -1, 0))
            if number < 0 or state == before:
                continue
            self._before[number] = state
            self._recorder.fetch(
                process=self._process,
                partition=number,
                broker=broker,
                leader=state[1],
                records=state[2] - before[2],
                moved=broker != before[0],
            )
