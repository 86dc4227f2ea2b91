"""Helpers of stories: settle some records, send the one that the story is about."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    CheckpointError,
    parse_offsets,
)
from highwater.clusters.core.interfaces import ReplicaState, UnreachableError
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.nemesis.context import RecordsClient, ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.story import CHECKPOINT_S

SETTLED: Final = ("m0", "m1", "m2")
VICTIM: Final = "m3"
SUCCESSOR: Final = "m4"
_ALONE_S: Final = 30
_ANSWERS_S: Final = 15.0
_POLL_S: Final = 0.01


@contextlib.contextmanager
def missed_if_late() -> Iterator[None]:
    """Take what has not come in good time for a schedule that was not followed."""
    try:
        yield
    except WaitTimeoutError as error:
        raise ScheduleNotFollowedError(error.message) from error


def settle(scene: ScheduleContext) -> int:
    """Send the first records and wait until every replica holds them, committed.

    The followers' own HW lags behind until the next record brings it; nothing waits for that.

    Returns:
        The LEO of every replica, which is the HW of A.
    """
    a, *followers = scene.replicas
    for value in SETTLED:
        leo = scene.send(value, leader=a) + 1
    await_replicas(
        scene,
        lambda seen: (
            seen[a] == _at(leo) and all(seen[follower].leo == leo for follower in followers)
        ),
        what=f"every replica to hold {len(SETTLED)} records, and broker {a} to have committed them",
        limit_s=10,
    )
    scene.note(f"every replica holds {', '.join(SETTLED)}, committed: LEO {leo}")
    return leo


def await_alone(scene: ScheduleContext, broker: int) -> None:
    """Wait until a broker is the only member of partition 0's ISR, and note it.

    Raises:
        WaitTimeoutError: it was not within the limit.
    """
    await_condition(
        lambda: scene.probe.partition(scene.topic, 0).isr,
        lambda isr: isr == (broker,),
        what=f"the ISR of {scene.topic}-0 to be broker {broker} alone",
        limit_s=_ALONE_S,
        passing=(UnreachableError,),
    )
    scene.note(f"broker {broker} is the only member of the ISR", broker)


def await_replicas(
    scene: ScheduleContext,
    until: Callable[[dict[int, ReplicaState]], bool],
    *,
    what: str,
    limit_s: float,
    brokers: tuple[int, ...] = (),
) -> dict[int, ReplicaState]:
    """Wait until the replicas of partition 0 (all, unless named) are seen in some state.

    Raises:
        ScheduleNotFollowedError: they were not within the limit.
    """
    try:
        return await_condition(
            lambda: {
                broker: scene.probe.replica(broker, scene.topic, 0)
                for broker in brokers or scene.replicas
            },
            until,
            what=what,
            limit_s=limit_s,
            every_s=_POLL_S,
            passing=(UnreachableError,),
        )
    except WaitTimeoutError as error:
        raise ScheduleNotFollowedError(error.message) from error


def await_true(condition: Callable[[], bool], what: str, *, limit_s: float) -> None:
    """Wait until a condition holds, and look often; raise if it does not."""
    with missed_if_late():
        await_condition(
            condition, bool, what=what, limit_s=limit_s, every_s=0.01, passing=(UnreachableError,)
        )


def await_leo(scene: ScheduleContext, leo: int, what: str, *brokers: int, limit_s: float) -> None:
    """Wait until these replicas have this log end offset; raise if they do not."""
    await_replicas(
        scene,
        lambda seen: all(state.leo == leo for state in seen.values()),
        what=what,
        limit_s=limit_s,
        brokers=brokers,
    )


def await_answers(writer: RecordsClient, what: str) -> None:
    """Wait until a client has an answer about every record; else the schedule is not followed."""
    if writer.await_answers(limit_s=_ANSWERS_S):
        raise ScheduleNotFollowedError(f"the client has no answer about {what}")


def hw_on_disk(scene: ScheduleContext, broker: int) -> int:
    """Return the HW of partition 0 that a broker has written to its disk; 0 when it has none."""
    try:
        text = scene.cluster.brokers[broker].read(HIGH_WATERMARK)
    except FileNotFoundError:
        return 0
    return parse_offsets(text, Path(HIGH_WATERMARK)).get((scene.topic, scene.partition), 0)


def await_hw_on_disk(scene: ScheduleContext, broker: int, hw: int) -> None:
    """Wait until a broker has written its HW to replication-offset-checkpoint.

    Raises:
        ScheduleNotFollowedError: it did not in good time.
    """
    try:
        await_condition(
            lambda: hw_on_disk(scene, broker),
            lambda high_watermark: high_watermark >= hw,
            what=f"broker {broker} to have HW {hw} of {scene.topic}-0 on disk",
            limit_s=CHECKPOINT_S + 1.0,
            every_s=_POLL_S,
            passing=(CheckpointError,),
        )
    except WaitTimeoutError as error:
        raise ScheduleNotFollowedError(error.message) from error
    scene.note(f"broker {broker} has HW {hw} on disk", broker)


def _at(leo: int) -> ReplicaState:
    return ReplicaState(leo=leo, hw=leo)
