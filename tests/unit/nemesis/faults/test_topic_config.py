"""A setting is put back even if nobody can be asked at first."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from highwater.clusters.core.interfaces import Cluster, UnreachableError
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults.topic_config import set_compression

if TYPE_CHECKING:
    from highwater.nemesis.faults.registry import FaultTarget


class Settings:
    """Of a cluster whose controllers fail to answer so many times, after the first request."""

    def __init__(self, error: type[HarnessError], times: int) -> None:
        self.error = error
        self.times = times
        self.requests: list[dict[str, str | None]] = []

    def configure(self, topic: str, changes: dict[str, str | None]) -> None:
        assert topic == "events"
        if self.requests and self.times:
            self.times -= 1
            raise self.error("ZooKeeper does not answer yet")
        self.requests.append(changes)


def healed(settings: Settings) -> None:
    aim = cast("FaultTarget", type("Aim", (), {"topic": Topic()}))
    fault: Any = set_compression
    body = fault(cast("Cluster", settings), aim)
    assert next(body) == "compression.type of events is gzip"
    with pytest.raises(StopIteration):
        next(body)


def test_who_cannot_be_asked_is_asked_again() -> None:
    settings = Settings(UnreachableError, 3)
    healed(settings)
    assert settings.requests == [{"compression.type": "gzip"}, {"compression.type": None}]


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(HarnessError, match="does not answer yet"):
        healed(Settings(HarnessError, 1))
