"""Where a partition begins is asked again until somebody says so."""

import threading
import time
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaException

from highwater.harness.clients.final_read import _first_offset


class Slow:
    """A client whose first answers time out, or are none."""

    def __init__(self, *answers: tuple[int, int] | None) -> None:
        self.answers = list(answers)

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int] | None:
        if not self.answers:
            raise KafkaException("timed out")
        answer = self.answers.pop(0)
        if answer == (-1, -1):
            raise KafkaException("timed out")
        return answer


def first(client: Slow, limit_s: float) -> int:
    recorder: Any = SimpleNamespace(failed=threading.Event())
    given: Any = client
    return _first_offset(given, recorder, "events", 0, time.monotonic() + limit_s)


def test_a_partition_whose_first_offset_is_late_begins_where_it_does() -> None:
    assert first(Slow((-1, -1), None, (40, 90)), 30.0) == 40


def test_without_an_answer_it_begins_at_the_start() -> None:
    assert first(Slow(), 0.3) == 0
