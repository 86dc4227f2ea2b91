"""Where the final read begins, by a reader that is not answered at first."""

import time
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from highwater.harness.clients.final_read import _first_offset

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
