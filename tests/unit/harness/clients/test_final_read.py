"""Where the final read begins, by a reader that is not answered at first."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from highwater.harness.clients.final_read import RefusedOffsets, _first_offset, _read_range
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage, stranded
from highwater.harness.clients.read_names import by_values
from highwater.harness.runs.history import read_stream
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.recorder import Clock, Recorder
from highwater.harness.runs.store import Run

if TYPE_CHECKING:
    from highwater.harness.clients.libraries.interfaces import RecordConsumer


class SlowToAnswer:
    """A reader whose first questions time out."""

    def __init__(self, silent: int) -> None:
        self.silent = silent

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float
    ) -> tuple[int, int] | None:
        del partition, timeout
        self.silent -= 1
        if self.silent == 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return None if self.silent == 0 else (7, 12)


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_a_question_that_times_out_is_asked_again(silent: int) -> None:
    client = cast("RecordConsumer", SlowToAnswer(silent))
    assert _first_offset(client, "tiered", 0, time.monotonic() + 60) == 7


def test_a_partition_that_nobody_tells_of_begins_at_0() -> None:
    client = cast("RecordConsumer", SlowToAnswer(2))
    assert _first_offset(client, "tiered", 0, time.monotonic()) == 0


class Log:
    """A reader of one partition, whose first offset moves when the reader comes to it."""

    def __init__(self, first: int, moved: int, end: int) -> None:
        self.first, self.moved, self.end, self.position = first, moved, end, -1
        self.assigned: list[int] = []

    def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
        del timeout
        return self.first, self.end

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.position = partitions[0].offset
        self.assigned.append(self.position)

    def consume(self, _: int, __: float) -> list[ReadMessage]:
        self.first = self.moved
        if self.position < self.first:
            return [stranded(0, self.position, "expired")]
        self.position += 1
        return [ReadMessage(0, self.position - 1, b"a")]


@pytest.mark.parametrize(
    ("log", "rows"),
    [
        (Log(0, 0, 5), [("seek", 3), ("read", 3), ("read", 4), ("end", 5)]),
        (Log(0, 4, 5), [("seek", 3), ("seek", 4), ("read", 4), ("end", 5)]),
        (Log(4, 4, 5), [("seek", 4), ("read", 4), ("end", 5)]),
        (Log(0, 0, 2), [("seek", 3), ("end", 2)]),
    ],
    ids=["whole", "expires meanwhile", "expired before", "shorter than at the start"],
)
def test_the_same_offsets_are_read_again_as_far_as_they_are_there(
    tmp_path: Path, log: Log, rows: list[tuple[str, int]]
) -> None:
    run = Run(tmp_path)
    plan = Plan(kafka="4.4.0", topic=Topic(name="orders"), read_only="orders")
    client, deadline = cast("RecordConsumer", log), time.monotonic() + 60
    with Recorder(run, Clock()) as recorder:
        _read_range(plan, recorder, client, {0: 3}, {0: log.end}, by_values, deadline)
    written = [row for batch in read_stream(run.stream("history/ops")) for row in batch.to_pylist()]
    assert [(row["kind"], row["offset"]) for row in written if row["kind"] != "assign"] == rows
    assert len(log.assigned) == sum(kind == "seek" for kind, _ in rows) * (log.end > 3)


def test_a_reader_passes_over_offsets_that_a_leader_refuses_for_long() -> None:
    now = 0.0
    refused = RefusedOffsets(5.0, lambda: now)
    assert refused.next(0, 1) == 1
    now = 4.0
    assert (refused.next(0, 1), refused.next(1, 7)) == (1, 7)
    now = 5.0
    assert [refused.next(0, 1), refused.next(0, 2), refused.next(1, 7)] == [2, 3, 7]
    refused.moved(0)
    assert refused.next(0, 9) == 9
