"""The client that connects to leaders before its first record."""

import contextlib
import gc
import weakref
from pathlib import Path

import pytest

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.clients.libraries.librdkafka import ReachingProducer


class Connected(ReachingProducer):
    """One that is connected to broker 2, and told at each question who leads."""

    def __init__(self, *answers: set[int]) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        self.answers = list(answers)

    def poll(self, timeout: float = -1) -> int:
        del timeout
        self._up = {2}
        return 0

    def _leaders(self, name: str) -> set[int]:
        assert name == "events"
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize("before", [{1}, {1, 2}, set()])
def test_a_leader_that_moves_is_reached_where_it_is(before: set[int]) -> None:
    Connected(before, before, {2}).reach("events", limit_s=60)


def test_one_that_is_not_reached_says_which_leads() -> None:
    with pytest.raises(
        WaitTimeoutError, match=r"every leader of events; .*leaders \[1\], connected \[2\]"
    ):
        Connected({1}).reach("events", limit_s=0)


def rdkafka_threads() -> int:
    """Count the threads of librdkafka's clients in this process."""
    count = 0
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # the thread has ended
            count += path.read_text().startswith("rdk:")
    return count


def test_a_producer_ends_with_its_last_reference_and_not_when_garbage_is_collected() -> None:
    """Until it ends it asks for its topic, and a broker may make that anew."""
    gc.collect()
    before = rdkafka_threads()
    gc.disable()
    try:
        producer = ReachingProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        seen = weakref.ref(producer)
        assert rdkafka_threads() > before
        del producer
        assert (seen(), rdkafka_threads()) == (None, before)
    finally:
        gc.enable()
