"""The guarantees that a run can have. Each kind of anomaly names the guarantee that it breaks.

Kafka's guarantees depend on three settings, ``acks`` (ProducerConfig), ``min.insync.replicas`` and
``unclean.leader.election.enable`` (TopicConfig), and on the faults in the cluster.
"""

from collections.abc import Callable
from typing import Final

from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Guarantee, Plan

DURABLE: Final = "durability: acks=all and clean elections (ProducerConfig acks, KIP-106)"
AGREED: Final = "agreement: every replica gives the same record at an offset (KIP-101)"
READABLE: Final = (
    "durability: a committed record, which readers receive, is kept (KIP-101, KIP-106)"
)
ISOLATED: Final = "isolation: read_committed returns only committed transactions (KIP-98)"
UNORDERED: Final = "none: transactions of several producers share a log (KIP-98)"
"""Texts about guarantees that anomalies of several modules break."""

_FENCES_MEMBERS: Final = (2, 5)

CONTROLLER_DISK_LOSS: Final = "controller-disk-loss"


def always(_plan: Plan, _faults: int) -> bool:
    """Return True, because every run has the guarantee."""
    return True


def never(_plan: Plan, _faults: int) -> bool:
    """Return False, because no run has the guarantee."""
    return False


def if_idempotent(plan: Plan, _faults: int) -> bool:
    """Return whether the run's producers are idempotent."""
    return plan.workload.idempotence


def if_acknowledged_is_kept(plan: Plan, faults: int) -> bool:
    """Return whether Kafka guarantees for this run that acknowledged records are not lost."""
    match plan.workload.acks:
        case "0":
            return False
        case "1":
            return faults == 0
        case _:
            return if_committed_is_kept(plan, faults)


def if_controllers_keep_disks(plan: Plan, _faults: int) -> bool:
    """Return whether no controller loses its disk. Raft requires this.

    A controller that restarts with an empty disk can elect a leader that lacks committed records
    (KIP-595).
    """
    words = (*plan.nemesis, *(step.fault for step in plan.steps))
    return not any(word.startswith(CONTROLLER_DISK_LOSS) for word in words)


def if_committed_is_kept(plan: Plan, faults: int) -> bool:
    """Return whether Kafka guarantees for this run that records below the HW are not lost."""
    return faults == 0 or not plan.topic.unclean_leader_election


def if_program_says(*guarantees: Guarantee) -> Callable[[Plan, int], bool]:
    """Return a condition: the guarantee of the run's program is one of these."""
    return lambda plan, _: plan.program is not None and plan.program.guarantee in guarantees


def if_program_keeps_order(plan: Plan, _faults: int) -> bool:
    """Return whether the run's program must keep the order of its inputs."""
    return plan.program is not None and plan.program.ordered


def if_members_are_fenced(plan: Plan, faults: int) -> bool:
    """Return whether only a current member can commit a group's offsets in a transaction (KIP-447).

    Before 2.5 a coordinator accepts such offsets from any former member.
    """
    if plan.external is None and release(plan.kafka).number < _FENCES_MEMBERS:
        return False
    return if_committed_is_kept(plan, faults)
