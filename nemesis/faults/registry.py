"""Faults, and their registry.

A fault is a generator: it injects the fault, yields one sentence about the effect, and heals the
fault after the ``yield``. Write a fault in the file of its family and decorate it; see
docs/adding-a-fault.md.
"""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Final, Literal, Protocol

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.nodes import broker_clock, packet_loss, syscall_injection
from highwater.clusters.releases.software_level import Level
from highwater.harness.base import extensions
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.release import Release
from highwater.harness.runs.faults.effects import FaultEffect
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.steps import current_fault

Scope = Literal["broker", "topic", "coordination", "cluster", "client", "message", "program"]
"""The kind of a fault's target. Two faults with the same target may not overlap. A target is one
broker; the topic under test, by requests to running brokers; one or several ZooKeepers or KRaft
controllers; all brokers; one client; messages of one kind; or the program under test."""


class NothingDoneError(HarnessError):
    """The fault has no effect at this time.

    The error is raised before the fault changes anything.
    """


class InstanceUnderTest(Protocol):
    """One instance of the program under test. Methods return after they have taken effect."""

    @property
    def number(self) -> int:
        """The number of the instance, from 0 on."""

    @property
    def client(self) -> str:
        """The instance's client name at the relay."""

    def kill(self) -> None:
        """Send SIGKILL to the instance's processes; the instance stays down until ``start``.

        Raises:
            NothingDoneError: the instance does not run.
        """

    def terminate(self) -> bool:
        """Send SIGTERM; if the instance does not end, send SIGKILL and return False.

        The instance stays down until ``start``.

        Raises:
            NothingDoneError: the instance does not run.
        """

    def start(self) -> None:
        """Restart the instance."""

    def pause(self) -> None:
        """Send SIGSTOP to the instance's processes.

        Raises:
            NothingDoneError: the instance does not run.
        """

    def resume(self) -> None:
        """Send SIGCONT to the instance's processes, if they are paused."""

    def leave(self) -> None:
        """Stop the instance with SIGTERM, if it runs. It remains down until ``start``."""


class ProgramUnderTest(Protocol):
    """The program under test of a run."""

    def running(self) -> Sequence[InstanceUnderTest]:
        """Return the instances that are running."""

    @property
    def out(self) -> str:
        """Name of the topic that the program writes to; empty if its output is elsewhere."""

    @property
    def spare(self) -> InstanceUnderTest:
        """An additional instance of the program, which runs only after ``start``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTarget:
    """The target of a fault.

    Attributes:
        broker: id of the target; None if the fault does not hit a single broker.
        topic: the topic under test, with the plan's settings.
        controllers: ids of the targets, if the scope is the coordination.
        partition: the partition of the topic that the fault hits.
        choice: a number from 0 to 1, for the fault's random decisions.
        levels: all levels of the run's upgrade, from the brokers' first level to their last.
        client: name of the target; empty if the fault hits no client, or may hit any client.
        message: a text that names the message; see ``nemesis.message_spec``.
        program: the program under test; None if the run has no such program.
        note: records a part of a fault (a text and a broker) before the fault is complete.
        miss: records why the fault had no effect, so that the run proves nothing.
        meanwhile: a story's part of a fault that waits for records.
        healing: whether the run is over, and all faults are being healed.
        stopped: whether the run must end early, so that a long fault should end, too.
    """

    broker: int | None = None
    controllers: tuple[int, ...] = ()
    topic: Topic = field(default_factory=Topic)
    partition: int = 0
    choice: float = 0.0
    levels: tuple[Level, ...] = ()
    client: str = ""
    message: str = ""
    program: ProgramUnderTest | None = None
    note: Callable[[str, int | None], None] = lambda _says, _broker: None
    miss: Callable[[str], None] = lambda _why: None
    meanwhile: Callable[[], None] = lambda: None
    healing: Callable[[], bool] = lambda: False
    stopped: Callable[[], bool] = lambda: False

    @property
    def victim(self) -> int:
        """The id of the broker that the fault hits.

        Raises:
            HarnessError: the fault has no target broker.
        """
        if self.broker is None:
            raise HarnessError("the fault needs a broker, and none was named")
        return self.broker


Needs = Literal[
    "",
    "--unclean",
    "--to",
    "--wire-clients",
    "--message",
    "--transactions",
    "--subscribe",
    "--controllers",
    "--trace-flushes",
    "--log-dirs",
    "--keys",
    "highwater app",
    "strace",
    "libfaketime",
    "iptables",
    "no groups",
    "--tiered",
]
CLIENTS: Final = "--wire-clients"
MESSAGE: Final = "--message"
CONTROLLERS: Final = "--controllers"
TRACES: Final = "--trace-flushes"
STRACE: Final = "strace"
CLOCKS: Final = "libfaketime"
IPTABLES: Final = "iptables"
LOG_DIRS: Final = "--log-dirs"
KEYS: Final = "--keys"
PROGRAM: Final = "highwater app"
NO_GROUPS: Final = "no groups"
TIERED: Final = "--tiered"
OF_MACHINE: Final[Mapping[Needs, Callable[[], str]]] = {
    STRACE: syscall_injection.why_not,
    CLOCKS: broker_clock.why_not,
    IPTABLES: packet_loss.why_not,
}
"""Needs that are programs of this machine; the function returns why a program is not usable."""

RESTART: Final = "restart"
RESTARTS: Final = frozenset({"stop", "start"})
"""The commands that together have the effect of the command ``restart``."""
Body = Callable[[Cluster, int], Iterator[str | FaultEffect]]
AimedBody = Callable[[Cluster, FaultTarget], Iterator[str | FaultEffect]]
"""A generator that yields a sentence about the fault's effect, or a ``FaultEffect`` if the fault
removed records."""
WhyNot = Callable[[Release, str], str]
"""A function that returns why a fault is not available on a release with a driver; empty if it is.
"""


def anywhere(_: Release, __: str) -> str:
    """Return an empty reason, because the fault is available everywhere."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A named fault, with the function that injects and heals it.

    Attributes:
        family: name of the module that defines the fault.
        scope: the kind of the fault's target.
        why_not: returns why the fault is not available on a release or driver; empty if it is.
        needs: the option or command that the run needs for the fault: ``--unclean``, because the
            fault elects leaders from outside the ISR; ``--to``, which names releases to upgrade to;
            ``--wire-clients``, because clients must pass the wire; ``--message``, which names a
            message; ``--transactions`` or ``--subscribe``, because the fault hits their
            coordinator; ``--controllers``, because a single controller has no quorum;
            ``--trace-flushes``, because the fault needs to know the flushed files; ``--log-dirs``,
            because one of several directories fails; ``--keys``, because the topic must be
            compacted; ``highwater app``, because the fault hits a program under test;
            ``strace``, because it changes a node's system calls; ``libfaketime``, because nodes
            need clocks of their own; ``iptables``, because it loses packets; ``--tiered``, because
            it is a fault of the remote tier; or ``no groups``, because it deletes records that a
            group may not have read.
        commands: the commands of an inventory that the fault needs on an external cluster; None if
            no commands are enough for the fault.
        awaits_coordination: whether the injection waits until ZooKeeper or a controller reports
            that a session began or ended, or assigns replicas. Such a fault is not injected while
            ZooKeeper or a controller has a fault.
        spares_majority: whether the fault may hit only a minority of the controllers, because a
            majority would not recover.
        changes_voters: whether the fault adds and removes voters of the quorum (KIP-853).
    """

    name: str
    family: str
    summary: str
    scope: Scope
    body: AimedBody
    why_not: WhyNot = anywhere
    needs: Needs = ""
    commands: frozenset[str] | None = None
    awaits_coordination: bool = False
    spares_majority: bool = False
    changes_voters: bool = False

    @property
    def on_wire(self) -> bool:
        """True if it hits a broker's links only, so that the broker may have another fault, too."""
        return self.family == "network" and self.scope == "broker"

    def missing(self, kafka: Release, plan: Plan) -> str:
        """Return why the fault is not available on a plan's cluster; empty if it is."""
        reason = self.why_not(kafka, plan.driver)
        if reason or plan.external is None:
            return reason
        if self.commands is None:
            return _OUT_OF_REACH.get(self.family, "it needs a cluster that Highwater starts")
        lacking = sorted(self.commands - _capabilities(plan.external.commands))
        return f"the inventory has no command to {' and to '.join(lacking)}" if lacking else ""


_OUT_OF_REACH: Final[Mapping[str, str]] = {
    "storage": "the files of its brokers are not accessible",
    "machine": "its brokers run on other machines",
    "network": "there is no wire between its nodes",
    "clients": "there is no wire before its clients",
    "messages": "there is no wire between its nodes",
    "coordination": "ZooKeeper and the controllers are not accessible",
}
"""Family to the reason why commands are not enough for its faults."""


def _capabilities(commands: Collection[str]) -> set[str]:
    """Return the verbs that commands make possible; ``stop`` and ``start`` imply ``restart``."""
    verbs = set(commands)
    return verbs | {RESTART} if verbs >= RESTARTS else verbs


_FAMILIES: Final = (
    "process",
    "storage",
    "machine",
    "network",
    "clients",
    "messages",
    "coordination",
    "leadership",
    "topic_config",
    "compaction",
    "upgrades",
    "program",
)
_registry: dict[str, Fault] = {}


def by_request(kafka: Release, driver: str) -> str:
    """Return why a fault that uses requests to brokers (or ZooKeeper) is not available."""
    if driver == "external" and kafka.coordination == "zookeeper":
        return "it needs ZooKeeper, which is not accessible"
    return ""


def aimed(
    name: str,
    *,
    at: Scope = "broker",
    why_not: WhyNot = anywhere,
    needs: Needs = "",
    commands: Collection[str] | None = None,
    awaits_coordination: bool = False,
    spares_majority: bool = False,
    changes_voters: bool = False,
) -> Callable[[AimedBody], AimedBody]:
    """Register a generator as the fault ``name``; it gets a ``FaultTarget``."""

    def register(body: AimedBody) -> AimedBody:
        _registry[name] = Fault(
            name=name,
            family=body.__module__.rpartition(".")[2],
            summary=(body.__doc__ or "").partition("\n")[0],
            scope=at,
            body=body,
            why_not=why_not,
            needs=needs,
            commands=None if commands is None else frozenset(commands),
            awaits_coordination=awaits_coordination,
            spares_majority=spares_majority,
            changes_voters=changes_voters,
        )
        return body

    return register


def fault(
    name: str,
    *,
    why_not: WhyNot = anywhere,
    commands: Collection[str] | None = None,
    awaits_coordination: bool = False,
) -> Callable[[Body], Body]:
    """Register a generator as the fault ``name`` of a broker; it gets the broker's id."""

    def register(body: Body) -> Body:
        @wraps(body)
        def of_victim(cluster: Cluster, target: FaultTarget) -> Iterator[str | FaultEffect]:
            return body(cluster, target.victim)

        aimed(name, why_not=why_not, commands=commands, awaits_coordination=awaits_coordination)(
            of_victim
        )
        return body

    return register


def faults() -> Mapping[str, Fault]:
    """Return every fault by name: Highwater's faults, by family, and then other packages' faults.

    Raises:
        HarnessError: a package with faults cannot be loaded.
    """
    _load()
    place = {family: number for number, family in enumerate(_FAMILIES)}
    ordered = sorted(_registry.values(), key=lambda entry: place.get(entry.family, len(place)))
    return {entry.name: entry for entry in ordered}


def _load() -> None:
    """Import every module that registers faults, including modules of other packages."""
    for family in _FAMILIES:
        importlib.import_module(f"highwater.nemesis.faults.{family}")
    extensions.load(extensions.FAULTS)


def find_fault(name: str) -> Fault:
    """Return the fault with this name, or the fault that had this name up to Highwater 0.1.

    Raises:
        UsageError: no fault has this name; the hint has the nearest names.
    """
    _load()
    name = current_fault(name)
    if name not in _registry:
        raise UsageError(f"no fault is called {name!r}", hint=nearest(name, faults()))
    return _registry[name]
