"""Stories of a replica that its broker moves to another log directory.

A broker copies the replica to the other directory. When the copy has every record, the broker
requests that the controller assigns the replica to this directory (AssignReplicasToDirs, KIP-858).
After the response it waits until the copy has every record again, and then replaces the replica by
the copy. If the broker learns of the assignment before this, it requests the old directory again.

But if it restarts before this, it finds a copy in the assigned directory. It then deletes the
replica, although the copy may lack records (``LogManager.recoverAbandonedFutureLogs``,
KAFKA-16082). In these stories a limit for moves, as in ``kafka-reassign-partitions
--replica-alter-log-dirs-throttle``, keeps the copy behind.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from highwater.clusters.relay.network import CaughtMessages
from highwater.harness.releases.release import Release
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.helpers import (
    VICTIM,
    await_alone,
    await_event,
    await_isr,
    await_leader,
    await_replicas,
    settle,
)
from highwater.nemesis.stories.story import HazardEnding, Prediction, StoryNeeds, story

INTERRUPTED_MOVE: Final = "interrupted-move"
"""The id of the problem that the stories show, in the catalogue of hazards."""

_NEEDS: Final = StoryNeeds(wire="nodes", log_dirs=2, spoils=True)
_LIMIT_S: Final = 30.0
_FIRST_S: Final = 1.5
"""The time in which a broker reports the first directory of a new replica. Up to 3.7 the broker
waits 0.5 s before each report, and sends a later one only after the response."""
_ASSIGNS: Final = "AssignReplicasToDirs"


def _assigns_nothing(release: Release) -> str:
    if release.coordination == "kraft" and release.number >= (3, 7):
        return ""
    return "its controller does not know a replica's log directory (KIP-858)"


@story(
    "interrupted-move",
    HazardEnding(hazard=INTERRUPTED_MOVE, ending=Prediction(lost=frozenset({VICTIM}))),
    needs=_NEEDS,
    outcome="Since 3.7.1 a committed record is lost, although no broker fails.",
    min_isr_most=3,
    why_not=_assigns_nothing,
)
def interrupted_move(context: ScheduleContext) -> None:
    """Shut all brokers down in order while a response about a moved replica is late."""
    with _assigned_to_copy(context):
        _shut_down(context)
    _start(context)


@story(
    "answered-move",
    HazardEnding(hazard=INTERRUPTED_MOVE, ending=Prediction()),
    needs=_NEEDS,
    outcome="No record is lost.",
    min_isr_most=3,
    why_not=_assigns_nothing,
)
def answered_move(context: ScheduleContext) -> None:
    """Repeat interrupted-move, but the response arrives before the brokers are shut down."""
    a = context.replicas[0]
    with (
        _assigned_to_copy(context) as answers,
        context.intercept(f"hold {_ASSIGNS} broker-{a}>*") as requests,
    ):
        answers.release("schedule")
        await_event(requests, "caught", limit_s=_LIMIT_S)
        requests.let_pass()
        await_event(requests, "answered", limit_s=_LIMIT_S)
        context.note(f"broker {a} has the response, and requests the old directory again", a)
        _shut_down(context)
    _start(context)


@contextlib.contextmanager
def _assigned_to_copy(context: ScheduleContext) -> Iterator[CaughtMessages]:
    """Assign A's replica to a copy that lacks a committed record; yield the held responses."""
    a = context.replicas[0]
    broker, place = context.cluster.brokers[a], f"{context.topic}-0"
    settled = settle(context)
    context.hold(_FIRST_S)
    [old] = [folder for folder in broker.log_directories if (folder / place).is_dir()]
    new = next(folder for folder in broker.log_directories if folder != old)
    with context.intercept(f"hold {_ASSIGNS}.answer *>broker-{a} times=0") as answers:
        broker.move_log(context.topic, 0, new, bytes_per_s=1)
        await_event(answers, "caught", limit_s=_LIMIT_S)
        context.note(f"a copy on broker {a} has {settled} records; the controller assigned it", a)
        context.send(VICTIM, leader=a)
        await_replicas(
            context,
            lambda seen: all(state.leo > settled for state in seen.values()),
            what=f"every replica to have {VICTIM}",
            limit_s=_LIMIT_S,
        )
        [copy] = new.glob(f"{place}.*-future")
        if _size(copy) >= _size(old / place):
            raise ScheduleNotFollowedError(f"the copy on broker {a} already has {VICTIM}")
        context.note(f"every replica has {VICTIM}, but the copy lacks it", a)
        yield answers


def _size(folder: Path) -> int:
    return sum(segment.stat().st_size for segment in folder.glob("*.log"))


def _shut_down(context: ScheduleContext) -> None:
    """Shut the brokers down in order, A last."""
    a, b, c = context.replicas
    context.nemesis.inject("stop", c)
    await_isr(context, a, b)
    context.nemesis.inject("stop", b)
    await_alone(context, a)
    context.nemesis.inject("stop", a)


def _start(context: ScheduleContext) -> None:
    """Start A, the last leader, and then the other brokers."""
    a, b, c = context.replicas
    context.nemesis.heal(a)
    await_leader(context, a)
    state = context.replica(a)
    context.note(f"broker {a} leads; its log ends at offset {state.leo}", a)
    context.nemesis.heal_all([b, c])
    await_isr(context, a, b, c)
