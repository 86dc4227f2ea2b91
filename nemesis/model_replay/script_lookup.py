"""Find the script of a plan: a story (a scripted scenario), or a schedule from the model."""

from highwater.checkers.model.schedules.schedule import Schedule
from highwater.harness.runs.plan import Plan
from highwater.nemesis.model_replay.schedule_replay import Replay
from highwater.nemesis.model_replay.transaction_replay import (
    TransactionReplay,
    is_transaction_replay,
)
from highwater.nemesis.stories.registry import Story, find_story

Script = Story | Replay | TransactionReplay
"""An object that chooses the brokers of the replicas (``cast``) and executes a schedule (``play``).
"""


def find_script(plan: Plan) -> Script | None:
    """Return the story or replay of a plan; None if the plan's faults are random.

    Raises:
        UsageError: the plan names an unknown story, or its schedule is not valid.
    """
    if plan.schedule is not None and is_transaction_replay(plan):
        return TransactionReplay.of(plan.schedule)
    if plan.schedule is not None:
        return Replay(Schedule.from_plain(plan.schedule))
    return find_story(plan.story) if plan.story else None
