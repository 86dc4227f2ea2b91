"""Helpers of stories: settle some records, send the one that the story is about."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    CheckpointError,
    parse_offsets,
)
from highwater.clusters.core.interfaces import ReplicaState
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import NotYetError
from highwater.harness.runs.history import OK
from highwater.nemesis.context import (
    Acknowledgement,
    RecordsClient,
    ScheduleContext,
    ScheduleNotFollowedError,
)
from highwater.nemesis.stories.story import CHECKPOINT_S

SETTLED: Final = ("m0", "m1", "m2")
VICTIM: Final = "m3"
SUCCESSOR: Final = "m4"
_ALONE_S: Final = 30
_ANSWERS_S: Final = 15.0
_LEADS_S: Final = 30.0
_SESSIONS_S: Final = 60.0


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
        ScheduleNotFollowedError: it was not within the limit.
    """
    scene.until(
        lambda: scene.probe.partition(scene.topic, 0),
        lambda state: state.isr == (broker,),
        what=f"the ISR of {scene.topic}-0 to be broker {broker} alone",
        limit_s=_ALONE_S,
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
    return scene.until(
        lambda: {
            broker: scene.probe.replica(broker, scene.topic, 0)
            for broker in brokers or scene.replicas
        },
        until,
        what=what,
        limit_s=limit_s,
    )


def await_leads(
    scene: ScheduleContext, broker: int, *, leads: bool = True, limit_s: float = _LEADS_S
) -> None:
    """Wait until a broker takes itself for the leader of the partition under test, or no more."""

    def look() -> None:
        if scene.probe.leads(broker, scene.topic, scene.partition) != leads:
            state = scene.probe.partition(scene.topic, scene.partition)
            raise NotYetError(f"the opposite; by the controller {state}")

    scene.until(
        look,
        what=f"broker {broker} to know that it {'leads' if leads else 'does not lead'}",
        limit_s=limit_s,
    )


def await_leader(scene: ScheduleContext, *brokers: int, limit_s: float = _LEADS_S) -> None:
    """Wait until one of these brokers leads partition 0 by the controller's word, and note it."""
    state = scene.until(
        lambda: scene.probe.partition(scene.topic, 0),
        lambda state: state.leader in brokers,
        what=f"broker {' or '.join(map(str, brokers))} to lead {scene.topic}-0",
        limit_s=limit_s,
    )
    scene.note(f"broker {state.leader} leads in epoch {state.leader_epoch}", state.leader)


def await_others(scene: ScheduleContext, a: int, others: Collection[int]) -> None:
    """Wait until every broker but A has a session: who may be elected then, would be."""
    scene.until(
        scene.probe.live_brokers,
        lambda live: live == set(others),
        what=f"brokers {others} to have sessions again, and broker {a} to have none",
        limit_s=_SESSIONS_S,
    )


def await_answer(scene: ScheduleContext, value: str, *, limit_s: float) -> Acknowledgement:
    """Return the answer about a record that was sent to one broker, once it has come."""
    answer = scene.until(
        lambda: scene.direct.answers[value],
        lambda answer: answer is not None,
        what=f"an answer about {value}",
        limit_s=limit_s,
    )
    if answer is None or answer.outcome != OK:
        raise ScheduleNotFollowedError(f"{value} was to be acknowledged, but got {answer}")
    return answer


def move_leader(scene: ScheduleContext, broker: int) -> int:
    """Move leadership of partition 0 by plan; return the leader epoch."""
    with missed_if_late():
        scene.cluster.move_leader(scene.topic, 0, broker)
    return scene.state().leader_epoch or 0


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

    def look() -> int:
        try:
            return hw_on_disk(scene, broker)
        except CheckpointError as error:
            raise NotYetError(str(error)) from error

    scene.until(
        look,
        lambda high_watermark: high_watermark >= hw,
        what=f"broker {broker} to have HW {hw} of {scene.topic}-0 on disk",
        limit_s=CHECKPOINT_S + 1.0,
    )
    scene.note(f"broker {broker} has HW {hw} on disk", broker)


def _at(leo: int) -> ReplicaState:
    return ReplicaState(leo=leo, hw=leo)
