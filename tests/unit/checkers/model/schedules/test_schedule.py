"""A schedule comes back from its file as it was, and one that means nothing is refused."""

import json
from pathlib import Path

import msgspec
import pytest

from highwater.checkers.model.schedules.schedule import Expect, Schedule, ScheduleStep
from highwater.checkers.model.search.model_file import FORMAT
from highwater.harness.base.errors import StoreError, UsageError
from tests.support.schedules import LOSS, two_moves


@pytest.mark.parametrize("schedule", [LOSS, two_moves()], ids=lambda one: one.name)
def test_a_schedule_comes_back_as_it_was(schedule: Schedule, tmp_path: Path) -> None:
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert Schedule.from_plain(schedule.plain()) == schedule
    path = tmp_path / "schedule.json"
    path.write_bytes(schedule.to_json())
    assert Schedule.load(path) == schedule


def test_an_unknown_format_is_named() -> None:
    text = msgspec.json.encode({**LOSS.plain(), "format": 7})
    with pytest.raises(UsageError, match=f"has format 7, but this Highwater reads format {FORMAT}"):
        Schedule.from_json(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "no schedule: Input data was truncated"),
        (b"[]", "no schedule: Expected `object`"),
        (b'{"kafka": "4.3.1"}', "missing required field `steps`"),
        (b'{"kafka": "4.3.1", "steps": [{"action": "pray"}]}', "Invalid enum value 'pray'"),
        (b'{"kafka": "4.3.1", "steps": [], "wings": 2}', "unknown field `wings`"),
    ],
)
def test_a_file_that_is_no_schedule_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        Schedule.from_json(text)
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (ScheduleStep(action="kill"), "step 2, kill: the step names no broker"),
        (ScheduleStep(action="kill", broker=3), "there is no replica 3"),
        (ScheduleStep(action="send"), "the step names no record"),
        (ScheduleStep(action="send", record="m1"), "an earlier step already sends record m1"),
        (ScheduleStep(action="read", held=frozenset({-1})), "there is no replica -1"),
        (ScheduleStep(action="read", expect=Expect(leo={5: 1})), "there is no replica 5"),
        (ScheduleStep(action="read", expect=Expect(leader=4)), "there is no replica 4"),
        (
            ScheduleStep(action="stop", broker=1, held=frozenset({1})),
            "replica 1 is frozen (held) in this step, so it cannot stop",
        ),
    ],
)
def test_a_step_that_means_nothing_is_refused(step: ScheduleStep, says: str) -> None:
    schedule = Schedule(kafka="4.3.1", steps=(ScheduleStep(action="send", record="m1"), step))
    with pytest.raises(UsageError) as refused:
        Schedule.from_plain(schedule.plain())
    assert says in refused.value.message


def test_nobody_may_lead() -> None:
    step = ScheduleStep(action="elect", expect=Expect(leader=-1, isr=frozenset()))
    schedule = Schedule(kafka="4.3.1", steps=(step,))
    assert Schedule.from_plain(schedule.plain()) == schedule


def test_the_order_names_every_replica_once() -> None:
    schedule = Schedule(kafka="4.3.1", replicas=2, order=(1, 1), steps=())
    with pytest.raises(UsageError, match="must name each of the 2 replicas once"):
        Schedule.from_plain(schedule.plain())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"gone\.json cannot be read"):
        Schedule.load(tmp_path / "gone.json")


def test_the_file_reads_like_the_steps() -> None:
    first = json.loads(LOSS.to_json())["steps"][0]
    assert (first["action"], first["record"], first["expect"]["acked"]) == ("send", "m1", ["m1"])
