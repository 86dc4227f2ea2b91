"""Faults, and their registry.

A fault is a generator function. It injects the fault, yields one sentence about the effect, and
heals the fault after the ``yield``. To add a fault, see docs/adding-a-fault.md.
"""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Final, Literal, Protocol

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.nodes import (
    broker_clock,
    broker_names,
    packet_loss,
    syscall_injection,
)
from highwater.clusters.releases.software_level import Level
from highwater.harness.base import extensions
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.release import Release
from highwater.harness.runs.faults.effects import FaultEffect
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.steps import current_fault

Scope = Literal[
    "broker", "topic", "coordination", "cluster", "client", "clients", "message", "program"
]
"""The kind of a fault's target: one broker; the topic under test, changed by requests to running
brokers; ZooKeepers or KRaft controllers; all brokers; one client; the processes of all clients;
messages of one kind; or the program under test. Two faults with the same target must not overlap.
"""


class NothingDoneError(HarnessError):
    """The fault can have no effect at this time.

    The error is raised before the fault changes anything.
    """


class InstanceUnderTest(Protocol):
    """One instance of the program under test. Methods return when the processes have changed."""

    @property
    def number(self) -> int:
        """The number of the instance, counted from 0."""

    @property
    def client(self) -> str:
        """The name by which the relay identifies the instance's connections."""

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
        """Stop the instance with SIGTERM, if it runs. The instance stays down until ``start``."""


class ProgramUnderTest(Protocol):
    """The program under test of a run."""

    def running(self) -> Sequence[InstanceUnderTest]:
        """Return the instances that are running."""

    @property
    def out(self) -> str:
        """Name of the run's topic that the program writes to; empty if it writes to none."""

    @property
    def spare(self) -> InstanceUnderTest:
        """An additional instance of the program, which runs only after ``start``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTarget:
    """The target of a fault.

    Attributes:
        broker: id of the target; None if the fault does not hit a single broker.
        topic: the topic under test, with the plan's settings.
        controllers: ids of the target ZooKeepers or controllers, for a fault of the coordination.
        partition: the partition of the topic that the fault hits.
        choice: a number from 0 to 1, for the fault's random decisions.
        levels: all software levels of the run's upgrade, from first to last.
        client: name of the target client; empty if the fault hits no client, or may hit any client.
        message: the notation of the target message; see ``nemesis.message_spec``.
        program: the program under test; None if the run has no such program.
        shift_clients: sets the difference, in seconds, between the clock of the clients' processes
            and this machine's clock; None outside of a run.
        note: records an event during the injection; the arguments are a text and a broker.
        miss: records why the fault had no effect; then the run proves nothing.
        meanwhile: called during the injection, so that a story can send records.
        healing: returns whether the run is over, so that all faults are being healed.
        stopped: returns whether the run must end early; a long fault should then end.
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
    shift_clients: Callable[[float], None] | None = None
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
            raise HarnessError("the fault needs a target broker, but the step names none")
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
    "names",
    "--client",
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
NAMES: Final = "names"
OWN_PROCESS: Final = "--client"
LOG_DIRS: Final = "--log-dirs"
KEYS: Final = "--keys"
PROGRAM: Final = "highwater app"
NO_GROUPS: Final = "no groups"
TIERED: Final = "--tiered"
OF_MACHINE: Final[Mapping[Needs, Callable[[], str]]] = {
    STRACE: syscall_injection.why_not,
    CLOCKS: broker_clock.why_not,
    IPTABLES: packet_loss.why_not,
    NAMES: broker_names.why_not,
}
"""For each need that depends on this machine: a function that returns why it is not met."""

RESTART: Final = "restart"
RESTARTS: Final = frozenset({"stop", "start"})
"""The two commands that together replace the command ``restart``."""
Body = Callable[[Cluster, int], Iterator[str | FaultEffect]]
AimedBody = Callable[[Cluster, FaultTarget], Iterator[str | FaultEffect]]
"""The generator of a fault. It yields a sentence about the effect, or a ``FaultEffect`` if the
fault removed records."""
WhyNot = Callable[[Release, str], str]
"""A function of a Kafka release and a cluster driver. It returns why they do not support a fault;
empty if they support the fault."""


def anywhere(_: Release, __: str) -> str:
    """Return an empty text: the fault is available on every release and driver."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A named fault, with the function that injects and heals it.

    Attributes:
        family: name of the module that defines the fault.
        scope: the kind of the fault's target.
        why_not: returns why the fault is not available on a release and driver; empty if it is
            available.
        needs: the option or program that a run with this fault must have; empty if none.
            ``--unclean``: unclean elections. ``--to``: the releases of an upgrade.
            ``--wire-clients``: clients behind the relay. ``--message``: the target message.
            ``--transactions``, ``--subscribe``: a coordinator. ``--controllers``: a quorum of
            several controllers. ``--trace-flushes``: knowledge of the flushed files.
            ``--log-dirs``: several log directories. ``--keys``: a compacted topic.
            ``--tiered``: a remote tier. ``highwater app``: a program under test. ``strace``,
            ``libfaketime``, ``iptables``: programs that change system calls, clocks or the
            network. ``names``: brokers that reach each other by name. ``--client``: producers
            in a process of their own. ``no groups``: the fault deletes records that a group may
            not have read.
        commands: the commands that the fault needs in an external cluster's inventory; None if
            commands cannot inject the fault.
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
        """True for a network fault of one broker. The broker itself may have a fault, too."""
        return self.family == "network" and self.scope == "broker"

    def missing(self, kafka: Release, plan: Plan) -> str:
        """Return why the fault is not available on a plan's cluster; empty if it is available."""
        reason = self.why_not(kafka, plan.driver)
        if reason or plan.external is None:
            return reason
        if self.commands is None:
            return _OUT_OF_REACH.get(self.family, "the fault needs a cluster that Highwater starts")
        lacking = sorted(self.commands - _capabilities(plan.external.commands))
        return f"the inventory has no command to {' and to '.join(lacking)}" if lacking else ""


_OUT_OF_REACH: Final[Mapping[str, str]] = {
    "storage": "the files of its brokers are not accessible",
    "machine": "its brokers run on other machines",
    "network": "there is no relay between its nodes",
    "clients": "there is no relay between its clients and brokers",
    "messages": "there is no relay between its nodes",
    "coordination": "ZooKeeper and the controllers are not accessible",
}
"""For each family of faults, the reason why commands of an inventory cannot inject it."""


def _capabilities(commands: Collection[str]) -> set[str]:
    """Return the names of the commands, and ``restart`` if they include ``stop`` and ``start``."""
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
    """Return why a fault that sends requests to brokers or ZooKeeper is not available, or ""."""
    if driver == "external" and kafka.coordination == "zookeeper":
        return "the fault needs ZooKeeper, which is not accessible"
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
    """Register a generator as the fault ``name``; the generator receives a ``FaultTarget``."""

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
    needs: Needs = "",
    commands: Collection[str] | None = None,
    awaits_coordination: bool = False,
) -> Callable[[Body], Body]:
    """Register a generator, which receives a broker's id, as the fault ``name``."""

    def register(body: Body) -> Body:
        @wraps(body)
        def of_victim(cluster: Cluster, target: FaultTarget) -> Iterator[str | FaultEffect]:
            return body(cluster, target.victim)

        aimed(
            name,
            why_not=why_not,
            needs=needs,
            commands=commands,
            awaits_coordination=awaits_coordination,
        )(of_victim)
        return body

    return register


def faults() -> Mapping[str, Fault]:
    """Return every fault by name: Highwater's faults first, then those of other packages.

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
    """Return the fault with this name; names from Highwater 0.1 work, too.

    Raises:
        UsageError: no fault has this name; the hint has the nearest names.
    """
    _load()
    name = current_fault(name)
    if name not in _registry:
        raise UsageError(f"no fault is called {name!r}", hint=nearest(name, faults()))
    return _registry[name]
