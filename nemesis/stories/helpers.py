"""Helpers of stories, which send the first records, and wait for states and responses."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final, TypeVar

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    CheckpointError,
    parse_offsets,
)
from highwater.clusters.core.interfaces import ReplicaState
from highwater.clusters.relay.network import CaughtMessages
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import NotYetError
from highwater.harness.clients.record_sender import Sender, SendOutcome
from highwater.harness.runs.history import OK
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from highwater.nemesis.stories.story import CHECKPOINT_S

SETTLED: Final = ("m0", "m1", "m2")
VICTIM: Final = "m3"
SUCCESSOR: Final = "m4"
_ALONE_S: Final = 30
_LOOK_S: Final = 1.0
_ANSWERS_S: Final = 15.0
_LEADS_S: Final = 30.0
_SESSIONS_S: Final = 60.0
_Seen = TypeVar("_Seen")


@contextlib.contextmanager
def missed_if_late() -> Iterator[None]:
    """Convert a wait's timeout error into a ``ScheduleNotFollowedError``."""
    try:
        yield
    except WaitTimeoutError as error:
        raise ScheduleNotFollowedError(error.message) from error


def await_event(messages: CaughtMessages, event: str, *, limit_s: float) -> None:
    """Wait until the relay reports an event about a message.

    Raises:
        ScheduleNotFollowedError: the event has not happened within the limit.
    """
    with missed_if_late():
        messages.await_event(event, limit_s=limit_s)


def settle(context: ScheduleContext) -> int:
    """Send the first records; wait until every replica has them and A has committed them.

    The followers learn the new HW only with the next record.

    Returns:
        The LEO of every replica, which is the HW of A.
    """
    a, *followers = context.replicas
    for value in SETTLED:
        leo = context.send(value, leader=a) + 1
    await_replicas(
        context,
        lambda seen: (
            seen[a] == _at(leo) and all(seen[follower].leo == leo for follower in followers)
        ),
        what=f"every replica to have {len(SETTLED)} records, and broker {a} to have committed them",
        limit_s=10,
    )
    context.note(f"every replica has {', '.join(SETTLED)}, committed: LEO {leo}")
    return leo


def await_alone(context: ScheduleContext, broker: int) -> None:
    """Wait until a broker is the only member of partition 0's ISR, and record a note.

    Raises:
        ScheduleNotFollowedError: the ISR still had other members at the limit.
    """
    context.until(
        lambda: context.probe.partition(context.topic, 0),
        lambda state: state.isr == (broker,),
        what=f"broker {broker} to be the only ISR member of {context.topic}-0",
        limit_s=_ALONE_S,
    )
    context.note(f"broker {broker} is the only member of the ISR", broker)


def await_isr(context: ScheduleContext, *brokers: int) -> None:
    """Wait until the members of partition 0's ISR are exactly these brokers."""
    context.until(
        lambda: context.probe.partition(context.topic, 0),
        lambda state: set(state.isr) == set(brokers),
        what=f"brokers {', '.join(map(str, brokers))} to be in sync",
        limit_s=_ALONE_S,
    )


def await_replicas(
    context: ScheduleContext,
    until: Callable[[dict[int, ReplicaState]], bool],
    *,
    what: str,
    limit_s: float,
    brokers: tuple[int, ...] = (),
) -> dict[int, ReplicaState]:
    """Wait until replicas of partition 0 meet a condition: all replicas, or those on ``brokers``.

    Raises:
        ScheduleNotFollowedError: the replicas did not meet the condition within the limit.
    """
    return context.until(
        lambda: {
            broker: context.probe.replica(broker, context.topic, 0)
            for broker in brokers or context.replicas
        },
        until,
        what=what,
        limit_s=limit_s,
    )


def await_leads(
    context: ScheduleContext, broker: int, *, leads: bool = True, limit_s: float = _LEADS_S
) -> None:
    """Wait until a broker knows that it leads the tested partition, or that it does not lead."""

    def look() -> None:
        if context.probe.leads(broker, context.topic, context.partition) != leads:
            state = context.probe.partition(context.topic, context.partition)
            raise NotYetError(f"the opposite; the controller reports {state}")

    context.until(
        look,
        what=f"broker {broker} to know that it {'leads' if leads else 'does not lead'}",
        limit_s=limit_s,
    )


def await_leader(context: ScheduleContext, *brokers: int, limit_s: float = _LEADS_S) -> None:
    """Wait until the controller has elected one of these brokers, and record a note."""
    state = context.until(
        lambda: context.probe.partition(context.topic, 0),
        lambda state: state.leader in brokers,
        what=f"broker {' or '.join(map(str, brokers))} to lead {context.topic}-0",
        limit_s=limit_s,
    )
    context.note(f"broker {state.leader} leads in epoch {state.leader_epoch}", state.leader)


def await_others(context: ScheduleContext, a: int, others: Collection[int]) -> None:
    """Wait until all brokers except A have a session, so that each of them could be elected."""
    context.until(
        context.probe.live_brokers,
        lambda live: live == set(others),
        what=f"brokers {others} to have sessions again, and broker {a} to have none",
        limit_s=_SESSIONS_S,
    )


def await_answer(context: ScheduleContext, value: str, *, limit_s: float) -> SendOutcome:
    """Wait for a broker's response about a record that was sent to it; return the response.

    Raises:
        ScheduleNotFollowedError: no response came in time, or the broker refused the record.
    """
    answer = context.until(
        lambda: context.direct.answers[value],
        lambda answer: answer is not None,
        what=f"a response about {value}",
        limit_s=limit_s,
    )
    if answer is None or answer.outcome != OK:
        raise ScheduleNotFollowedError(f"{value} must be acknowledged, but its outcome is {answer}")
    return answer


def move_leader(context: ScheduleContext, broker: int) -> int:
    """Request that a broker leads partition 0; return the new leader epoch."""
    with missed_if_late():
        context.cluster.move_leader(context.topic, 0, broker)
    return context.state().leader_epoch or 0


def await_leo(context: ScheduleContext, leo: int, what: str, *brokers: int, limit_s: float) -> None:
    """Wait until these replicas have this LEO, or raise ScheduleNotFollowedError."""
    await_replicas(
        context,
        lambda seen: all(state.leo == leo for state in seen.values()),
        what=what,
        limit_s=limit_s,
        brokers=brokers,
    )


def await_answers(writer: Sender, what: str) -> None:
    """Wait until a client has a response about every record.

    Raises:
        ScheduleNotFollowedError: responses are missing at the limit.
    """
    if writer.await_answers(limit_s=_ANSWERS_S):
        raise ScheduleNotFollowedError(f"the client got no response about {what}")


def hw_on_disk(context: ScheduleContext, broker: int) -> int:
    """Return the HW of the tested partition on a broker's disk; 0 if the disk has none."""
    try:
        text = context.cluster.brokers[broker].read(HIGH_WATERMARK)
    except FileNotFoundError:
        return 0
    return parse_offsets(text, Path(HIGH_WATERMARK)).get((context.topic, context.partition), 0)


def await_hw_on_disk(context: ScheduleContext, broker: int, hw: int) -> None:
    """Wait until a broker has written its HW to replication-offset-checkpoint.

    Raises:
        ScheduleNotFollowedError: the broker did not write the HW in time.
    """

    def look() -> int:
        try:
            return hw_on_disk(context, broker)
        except CheckpointError as error:
            raise NotYetError(str(error)) from error

    context.until(
        look,
        lambda high_watermark: high_watermark >= hw,
        what=f"broker {broker} to have HW {hw} of {context.topic}-0 on disk",
        limit_s=CHECKPOINT_S + 1.0,
    )
    context.note(f"broker {broker} has HW {hw} on disk", broker)


def _at(leo: int) -> ReplicaState:
    return ReplicaState(leo=leo, hw=leo)


def look_until(
    context: ScheduleContext,
    look: Callable[[], _Seen],
    condition: Callable[[_Seen], bool],
    *,
    limit_s: float,
) -> _Seen:
    """Wait for a condition that some releases never meet; return the last state."""
    deadline = context.clock() + limit_s
    while not condition(seen := context.until(look, what="an answer")):
        if context.clock() >= deadline:
            break
        context.hold(_LOOK_S)
    return seen
