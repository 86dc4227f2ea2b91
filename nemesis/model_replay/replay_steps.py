"""The loop over the steps of a replay, for the replication and the transaction model."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.runs.missed_step import MissedStep, StateDifferences
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError

_Step = TypeVar("_Step")


def replay_steps(
    context: ScheduleContext,
    steps: Sequence[_Step],
    take: Callable[[_Step], None],
    *,
    title: Callable[[_Step], str],
    broker: Callable[[_Step], int | None] = lambda _: None,
) -> None:
    """Execute every step, and record its number and title.

    Raises:
        ScheduleNotFollowedError: a step could not be executed, or had an unexpected effect.
        HarnessError: the run must end early.
    """
    for number, step in enumerate(steps, start=1):
        context.check()
        says = f"step {number} of {len(steps)}: {title(step)}"
        try:
            take(step)
        except HarnessError as error:
            context.check()  # an early end of the run is no failed step
            seen = error.seen if isinstance(error, WaitTimeoutError) else None
            differences = seen if isinstance(seen, StateDifferences) else ()
            missed = MissedStep(number=number, differences=differences)
            raise ScheduleNotFollowedError(f"{says}: {error.message}", missed) from error
        context.note(says, broker(step), step=number)
