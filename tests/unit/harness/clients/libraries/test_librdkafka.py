"""A producer that is to reach the leaders follows them while they move."""

import pytest

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.clients.libraries.librdkafka import ReachingProducer


class Moving(ReachingProducer):
    """Connected to broker 2 alone; its topic's leader was broker 1, and moves."""

    def __init__(self, *leaders: set[int]) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        self._up = {2}
        self._seen = iter(leaders)
        self._last: set[int] = set()

    def _leaders(self, name: str) -> set[int]:
        assert name == "events"
        self._last = next(self._seen, self._last)
        return self._last

    def _stats(self, text: str) -> None: ...


def test_a_leader_that_has_moved_is_not_waited_for() -> None:
    Moving({1}, {1}, set(), {2}).reach("events", limit_s=20.0)


def test_leaders_that_are_not_reached_are_named() -> None:
    with pytest.raises(WaitTimeoutError, match=r"leaders of\s+events are \[1\]"):
        Moving({1}).reach("events", limit_s=0.2)
