"""A coordinator's last answer counts when it has stood still, with the end of its log."""

from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.clients.groups import final_offsets
from highwater.harness.clients.groups.final_offsets import read_group_offsets
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.recorder import Recorder  # noqa: TC001


class Brokers:
    """A coordinator and its log: an end and an offset for each question; the last ones stay."""

    def __init__(self, *looks: tuple[int | None, int]) -> None:
        self._looks = list(looks)
        self.rows: list[dict[str, Any]] = []
        self.closed = False

    def clock(self) -> int:
        return 0

    def group(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        assert (place.topic, timeout) == ("__consumer_offsets", 5.0)
        end, _ = self._looks[0]
        if end is None:
            self._looks.pop(0)
            raise KafkaException("no answer")
        return 0, end

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout == 5.0
        _, offset = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        return [TopicPartition(place.topic, place.partition, offset) for place in places]

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("looks", "limit_s", "expected"),
    [
        ([(7, 3)], 5.0, (3, 7)),
        ([(None, 0), (5, 1), (6, 1), (6, 2), (6, 2)], 5.0, (2, 6)),
        ([(7, -1001)], 5.0, (None, 7)),
        ([(7, 3)], 0.01, (3, None)),  # it has not stood still for long enough
    ],
)
def test_the_answer_that_stands_still_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
    looks: list[tuple[int | None, int]],
    limit_s: float,
    expected: tuple[int | None, int | None],
) -> None:
    brokers = Brokers(*looks)
    monkeypatch.setattr(final_offsets, "Consumer", lambda _: brokers)
    monkeypatch.setattr(final_offsets, "_LIMIT_S", limit_s)
    monkeypatch.setattr(final_offsets, "_SETTLES_S", 0.2)
    plan = Plan(kafka="4.4.0", topic=Topic(partitions=1))
    read_group_offsets(plan, cast("Recorder", brokers), {"group.id": "g"})
    [row] = brokers.rows
    assert (row["offset"], row["end"]) == expected
    assert brokers.closed
