"""The items of ``--nemesis``: a fault, its target, and its weight.

Examples: ``kill``, ``kill@leader``, ``power-failure@all=3``. A target may be a word such as
``leader``. The executor finds the leader when it injects the fault.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeVar

from highwater.clusters.core.addresses import controller_ids
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import UsageError, WaitTimeoutError
from highwater.harness.base.limits import WEIGHT
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.catalogue import Release
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import FaultStep
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults.coordinators import COORDINATORS
from highwater.nemesis.faults.registry import (
    CLIENTS,
    CONTROLLERS,
    KEYS,
    LOG_DIRS,
    NO_GROUPS,
    OF_MACHINE,
    OWN_PROCESS,
    PROGRAM,
    STRACE,
    TIERED,
    TRACES,
    Fault,
    Needs,
    find_fault,
)

TARGETS: Final = {
    "leader": "a partition's leader",
    "follower": "another broker",
    "controller": "the active controller (on ZooKeeper; see controller-kill for KRaft)",
    **{
        name: f"the coordinator of {kind.serves}, which leads `{kind.topic}`"
        for name, kind in COORDINATORS.items()
    },
    "isr": "every member of a partition's ISR",
    "any": "any one broker",
    "minority": "fewer than half the brokers",
    "majority": "more than half the brokers",
    "all": "every broker",
}
"""Targets of a broker's fault; a broker's id is also a target."""

CONTROLLER_TARGETS: Final = {
    "leader": "the leader of the KRaft quorum or ZooKeepers; any if there is none",
    "follower": "a node that does not lead",
    "any": "any one node",
    "minority": "fewer than half the nodes",
    "majority": "more than half the nodes",
    "all": "every node",
}
"""Targets of a fault of the coordination; the id of a controller or ZooKeeper is also a target."""

_Seen = TypeVar("_Seen")
_Other = TypeVar("_Other")
_WORD: Final = re.compile(r"(?P<name>[a-z][a-z\d-]*)(?:@(?P<target>[\w.-]+))?(?:=(?P<weight>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One item of ``--nemesis``.

    Attributes:
        target: a key of ``TARGETS`` or a broker's id; for a fault of the coordination, a key of
            ``CONTROLLER_TARGETS`` or a controller's id. None: the target is random.
        weight: the relative frequency of the fault in random schedules.
    """

    fault: Fault
    target: str | None = None
    weight: int = 1

    @classmethod
    def of(cls, word: str) -> Self:
        """Parse an item of ``--nemesis``.

        Raises:
            UsageError: the item has a wrong form, or names an unknown fault or target.
        """
        match = _WORD.fullmatch(word)
        if match is None:
            raise UsageError(
                f"{word!r} does not have the form fault@target=weight",
                hint="Write kill, kill@leader or kill@leader=3.",
            )
        fault = find_fault(match["name"])
        target, weight = match["target"], int(match["weight"] or 1)
        of_client = fault.scope == "client"
        if of_client and target in TARGETS:
            raise UsageError(
                f"{fault.name} hits a client, not a broker",
                hint=f"Write {fault.name}, or {fault.name}@producer-0.",
            )
        aims = target is not None and not of_client
        if target is not None and aims and target not in TARGETS and not target.isdecimal():
            raise UsageError(
                f"{target!r} is not a target of a fault", hint=nearest(target, TARGETS)
            )
        of_controller = fault.scope == "coordination" and (
            target in CONTROLLER_TARGETS or (target or "").isdecimal()
        )
        if aims and fault.scope != "broker" and not of_controller:
            raise UsageError(
                f"{fault.name} hits the {fault.scope}, not a broker",
                hint=f"Write {fault.name} alone.",
            )
        if not WEIGHT.least <= weight <= WEIGHT.most:
            raise UsageError(f"the weight {weight} is out of range", hint=f"{WEIGHT.says}.")
        return cls(fault=fault, target=target, weight=weight)

    def require(self, plan: Plan, kafka: Release) -> None:
        """Raise an error if the plan's release, driver or brokers do not support the fault.

        Raises:
            UsageError: the message states the reason.
        """
        if reason := self.fault.missing(kafka, plan):
            raise UsageError(
                f"{self.fault.name} is not available on Kafka {kafka.name} by {plan.driver}:"
                f" {reason}",
                hint="docs/faults.md lists where faults are not available.",
            )
        _require_option(self.fault.name, self.fault.needs, plan)
        if self.fault.scope == "coordination":
            self._require_controllers(plan)
        if self.target in COORDINATORS:
            name = f"{self.fault.name}@{self.target}"
            _require_option(name, COORDINATORS[self.target].needs, plan)
            if plan.external is not None:
                raise UsageError(
                    f"{name} is not possible: an external cluster has many coordinators",
                    hint="Name a broker by its id.",
                )
        if self.target == "controller" and kafka.coordination == "kraft":
            raise UsageError(
                f"{self.fault.name}@controller is not possible: on KRaft the controller is no "
                "broker",
                hint="Use controller-kill or controller-pause.",
            )
        ids = plan.broker_ids
        aims = self.fault.scope == "broker" and self.target and self.target.isdecimal()
        if self.target and aims and int(self.target) not in ids:
            known_ids = ", ".join(map(str, ids)) if plan.external else f"1 to {plan.brokers}"
            raise UsageError(f"there is no broker {self.target}", hint=f"Brokers are {known_ids}.")

    def _require_controllers(self, plan: Plan) -> None:
        """Raise an error if the plan does not have the target controllers.

        Raises:
            UsageError: the message states the reason.
        """
        name, ids = self.fault.name, controller_ids(plan.controllers)
        if self.target and self.target.isdecimal() and int(self.target) not in ids:
            raise UsageError(
                f"{name} hits a ZooKeeper or controller, but the run has no node {self.target}",
                hint=f"Write {name} alone, or aim it at {' or '.join(map(str, ids))}.",
            )
        if self.target == "minority" and len(ids) == 1:
            raise UsageError(
                f"{name}@minority is not possible: one controller has no minority",
                hint="Add --controllers 3.",
            )
        if self.fault.spares_majority and self.target in {"majority", "all"}:
            raise UsageError(
                f"{name}@{self.target} is not possible: a majority cannot recover its lost records",
                hint=f"Aim it at fewer: {name}@minority.",
            )


def resolve_controllers(context: ScheduleContext, target: str, choice: float) -> list[int]:
    """Return the controllers or ZooKeepers that a target means at this moment.

    Args:
        choice: a number from 0 to 1, which decides among candidates.
    """
    ids = sorted(context.cluster.controllers)
    if target.isdecimal():
        return [id_ for id_ in ids if id_ == int(target)]
    if target in {"minority", "majority", "all"}:
        return _portion(ids, len(ids), target, choice)
    candidates = ids
    if target in {"leader", "follower"}:
        leader = _answer(context.probe.quorum_leader, -1)
        candidates = [id_ for id_ in ids if (id_ == leader) == (target == "leader")] or ids
    return [candidates[int(choice * len(candidates))]]


def _require_option(name: str, needs: Needs, plan: Plan) -> None:
    """Raise an error if the plan lacks the option that a fault or target needs.

    Raises:
        UsageError: the message states why the option is needed.
    """
    workload = plan.workload
    options: dict[Needs, tuple[object, str, str]] = {
        "--unclean": (
            plan.topic.unclean_leader_election,
            "elects leaders that lack records, but this run allows only clean elections",
            "Add --unclean.",
        ),
        "--to": (
            plan.to,
            "needs releases to upgrade to",
            "Name releases: --to 0.11.0.3,1.1.1.",
        ),
        CLIENTS: (
            plan.wire_clients,
            "needs clients that connect through the relay",
            "Add --wire-clients.",
        ),
        CONTROLLERS: (
            plan.controllers > 1,
            "needs a quorum, but this run has one controller",
            "Add --controllers 3.",
        ),
        TRACES: (plan.trace_flushes, "needs a trace of flushes", "Add --trace-flushes."),
        LOG_DIRS: (
            plan.log_dirs > 1,
            "needs several log directories, but this run has one",
            "Add --log-dirs 2.",
        ),
        KEYS: (workload.keys, "needs a compacted topic", "Add --keys 100."),
        STRACE: (
            not plan.trace_flushes,
            "needs strace, but this run already traces flushes by strace",
            "Leave out the fault, or --trace-flushes.",
        ),
        PROGRAM: (plan.program, "hits a program under test", "Use highwater app."),
        NO_GROUPS: (
            not (workload.members or workload.transform or plan.program),
            "deletes records that a group may not have read",
            "Leave out the fault, or the group.",
        ),
        OWN_PROCESS: (
            plan.client != LIBRDKAFKA,
            "moves the clock of the producers, but librdkafka's run in Highwater's own process",
            "Add --client java, or another client with a process of its own.",
        ),
        TIERED: (plan.tiered, "needs a remote tier", "Add --tiered."),
        "--transactions": (workload.transactions, "needs transactions", "Add --transactions."),
        "--subscribe": (
            workload.members or workload.transform,
            "needs members of a group",
            "Add --subscribe 2.",
        ),
    }
    if needs in OF_MACHINE and (reason := OF_MACHINE[needs]()):
        raise UsageError(f"{name} {reason}", hint="Leave out the fault.")
    if needs in options:
        is_set, reason, hint = options[needs]
        if not is_set:
            raise UsageError(f"{name} {reason}", hint=hint)


def resolve(context: ScheduleContext, step: FaultStep) -> list[int]:
    """Return the brokers that a step's target means at this moment, without an open fault.

    With overlapping steps, a broker may have an open fault that does not exclude the step's fault.
    If no healthy broker matches ``leader`` or ``follower``, another healthy broker is used. No
    broker replaces a controller or coordinator.
    """
    target, partition, choice = step.target, step.partition, step.choice
    healthy = sorted(set(context.cluster.brokers) - context.nemesis.broken_brokers)
    if context.plan.overlap > 1:
        every = sorted(context.cluster.brokers)
        healthy = [broker for broker in every if context.nemesis.can(step.fault, broker)]
    if target.isdecimal():
        return [broker for broker in healthy if broker == int(target)]
    if target in {"minority", "majority", "all"}:
        return _share(context, healthy, target, choice)
    if target in COORDINATORS:
        leader, _ = _state(context, 0, COORDINATORS[target].topic)
        return [broker for broker in healthy if broker == leader]
    if target == "isr":
        isr = _state(context, partition)[1]
        return [broker for broker in healthy if broker in isr]
    candidates = healthy
    if target == "controller":
        controller = _answer(context.probe.controller, -1)
        candidates = [broker for broker in healthy if broker == controller]
    elif target != "any":
        leader = _state(context, partition)[0]
        preferred = [broker for broker in healthy if (broker == leader) == (target == "leader")]
        candidates = preferred or healthy
    return [candidates[int(choice * len(candidates))]] if candidates else []


def _share(context: ScheduleContext, healthy: list[int], target: str, choice: float) -> list[int]:
    """Return a minority, a majority or all of the brokers; ``choice`` decides which brokers."""
    return _portion(healthy, len(context.cluster.brokers), target, choice)


def _portion(candidates: list[int], total: int, target: str, choice: float) -> list[int]:
    """Return a minority, a majority or all of ``total`` nodes, as far as candidates suffice."""
    count = {"minority": (total - 1) // 2, "majority": total // 2 + 1, "all": total}[target]
    first = int(choice * len(candidates))
    return sorted([*candidates[first:], *candidates[:first]][:count])


def _state(
    context: ScheduleContext, partition: int, topic: str = ""
) -> tuple[int, tuple[int, ...]]:
    """Return a partition's leader and ISR, by default of the tested topic; -1 and () if unknown."""
    look = partial(context.probe.partition, topic or context.topic, partition)
    state = _answer(look, None)
    return (-1, ()) if state is None else (state.leader, state.isr)


def _answer(look: Callable[[], _Seen], otherwise: _Other) -> _Seen | _Other:
    """Return a probe's response, or ``otherwise`` if no node responds."""
    try:
        return look()
    except (UnreachableError, WaitTimeoutError):
        return otherwise
