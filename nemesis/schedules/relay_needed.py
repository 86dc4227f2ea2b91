"""The need for the relay: it is off unless something in a plan needs it."""

from typing import Final

from highwater.harness.runs.plan import Plan
from highwater.nemesis.faults.registry import find_fault
from highwater.nemesis.schedules.fault_spec import FaultSpec
from highwater.nemesis.stories.network import STORIES

_FAMILIES: Final = frozenset(("network", "clients", "messages"))


def wired(plan: Plan) -> bool:
    """Return whether the wire is to stand between the nodes of the plan's cluster.

    Raises:
        UsageError: the plan names a fault that there is not.
    """
    families = {FaultSpec.of(word).fault.family for word in plan.nemesis}
    families |= {find_fault(step.fault).family for step in plan.steps}
    wired_anyway = plan.wire or plan.wire_clients
    return wired_anyway or plan.story in STORIES or bool(_FAMILIES & families)
