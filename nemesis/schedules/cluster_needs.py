"""Find the cluster features that a plan's faults need: relay, clocks, changeable voters."""

from typing import Final

from highwater.harness.runs.plan import Plan
from highwater.nemesis.faults.registry import CLOCKS, NAMES, OWN_PROCESS, Fault, find_fault
from highwater.nemesis.schedules.fault_spec import FaultSpec
from highwater.nemesis.stories.registry import STORIES
from highwater.nemesis.stories.story import NOTHING, StoryNeeds

_FAMILIES: Final = frozenset(("network", "clients", "messages"))


def wired(plan: Plan) -> bool:
    """Return whether the plan's cluster needs the relay between its nodes.

    Raises:
        UsageError: the plan names a fault that does not exist.
    """
    families = {fault.family for fault in _faults(plan)}
    by_option = plan.wire or plan.wire_clients
    return by_option or bool(_of_story(plan).wire) or bool(_FAMILIES & families)


def dynamic_quorum(plan: Plan) -> bool:
    """Return whether the plan needs a KRaft quorum with changeable voters (KIP-853).

    Raises:
        UsageError: the plan names a fault that does not exist.
    """
    return _of_story(plan).dynamic_quorum or any(fault.changes_voters for fault in _faults(plan))


def log_dirs(plan: Plan) -> int:
    """Return the number of log directories of each of the plan's brokers."""
    return max(plan.log_dirs, _of_story(plan).log_dirs)


def clocks(plan: Plan) -> bool:
    """Return whether each broker of the plan needs its own clock.

    Raises:
        UsageError: the plan names a fault that does not exist.
    """
    by_story = _of_story(plan).machine == CLOCKS
    return by_story or any(fault.needs == CLOCKS for fault in _faults(plan))


def names(plan: Plan) -> bool:
    """Return whether brokers of the plan must reach each other by name.

    Raises:
        UsageError: the plan names a fault that does not exist.
    """
    return any(fault.needs == NAMES for fault in _faults(plan))


def client_clocks(plan: Plan) -> bool:
    """Return whether the processes of the plan's clients need their own clock.

    Raises:
        UsageError: the plan names a fault that does not exist.
    """
    return any(fault.needs == OWN_PROCESS for fault in _faults(plan))


def _of_story(plan: Plan) -> StoryNeeds:
    return STORIES[plan.story].needs if plan.story in STORIES else NOTHING


def _faults(plan: Plan) -> list[Fault]:
    named = [FaultSpec.of(word).fault for word in plan.nemesis]
    return named + [find_fault(step.fault) for step in plan.steps]
