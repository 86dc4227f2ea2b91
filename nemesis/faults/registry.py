"""Faults, and their registry.

A fault is a generator: it breaks something, yields one sentence about that, and heals it again
after the ``yield``. Write one in a file of its family and decorate it; see docs/adding-a-fault.md.
"""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Final, Literal, Protocol

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.releases.software_level import Level
from highwater.harness.base import extensions
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.releases.release import Release
from highwater.harness.runs.faults.effects import FaultEffect
from highwater.harness.runs.faults.steps import current_fault
from highwater.harness.runs.plan import Plan, Topic

Scope = Literal["broker", "topic", "coordination", "cluster", "client", "message", "program"]
"""The scope of a fault, in which no other may overlap with it: one broker; the topic under test, by
requests to running brokers; ZooKeepers or KRaft controllers, one or several; every broker at once;
one client; messages of one kind; or the program under test."""


class NothingDoneError(HarnessError):
    """There is nothing that a fault could do now; raised before it has touched anything."""


class InstanceUnderTest(Protocol):
    """One instance of the program under test; methods return once they have taken effect."""

    @property
    def number(self) -> int:
        """Its number, from 0 on."""

    @property
    def client(self) -> str:
        """Its name as a client of the wire."""

    def kill(self) -> None:
        """Send SIGKILL to its processes; it stays down until ``start``.

        Raises:
            NothingDoneError: it does not run.
        """

    def terminate(self) -> bool:
        """Send SIGTERM, and SIGKILL if it does not end: False then; as ``kill``."""

    def start(self) -> None:
        """Let it run again."""

    def pause(self) -> None:
        """Send SIGSTOP to its processes.

        Raises:
            NothingDoneError: it does not run.
        """

    def resume(self) -> None:
        """Send SIGCONT to its processes, if they are paused."""

    def leave(self) -> None:
        """End it in order, if it runs; it stays down until ``start``."""


class ProgramUnderTest(Protocol):
    """The program under test of a run."""

    def running(self) -> Sequence[InstanceUnderTest]:
        """Return the instances that run now."""

    @property
    def spare(self) -> InstanceUnderTest:
        """One instance more than it has, which does not run unless it is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTarget:
    """The target of a fault.

    Attributes:
        broker: id of its target; None if its scope is no broker.
        topic: the topic under test, as the plan has it.
        controllers: ids of its targets, if its scope is the coordination.
        partition: the one concerned.
        choice: 0 up to 1, for what a fault leaves to chance.
        levels: of the upgrade under way, from where all brokers began to where they are to be.
        client: name of its target; empty if its scope is no client, or any client will do.
        message: the kind of message that it is about, in words; see ``nemesis.message_spec``.
        program: the program under test; None if the run has none.
        note: records what happens to a broker before all of the fault has happened.
        miss: records that nothing happened, so that it proves nothing, and why.
        healing: whether the run is over, and all faults are being healed.
        stopped: whether the run was told to end early, so that a long fault should not go on.
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
    healing: Callable[[], bool] = lambda: False
    stopped: Callable[[], bool] = lambda: False

    @property
    def victim(self) -> int:
        """The broker of a fault that has one.

        Raises:
            HarnessError: no broker was named.
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
]
CLIENTS: Final = "--wire-clients"
MESSAGE: Final = "--message"
CONTROLLERS: Final = "--controllers"
TRACES: Final = "--trace-flushes"
LOG_DIRS: Final = "--log-dirs"
KEYS: Final = "--keys"
PROGRAM: Final = "highwater app"
RESTART: Final = "restart"
RESTARTS: Final = frozenset({"stop", "start"})
"""The commands that together do what the command ``restart`` does."""
Body = Callable[[Cluster, int], Iterator[str | FaultEffect]]
AimedBody = Callable[[Cluster, FaultTarget], Iterator[str | FaultEffect]]
"""Yields a sentence about its effect, or a ``FaultEffect`` if it removed records."""
WhyNot = Callable[[Release, str], str]
"""Says of a release and a driver why a fault is not available there; empty if it is."""


def anywhere(_: Release, __: str) -> str:
    """Return no reason: the fault is available anywhere."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A named fault: how to inject it, and how to heal it.

    Attributes:
        family: the module that has it.
        scope: of the fault.
        why_not: why a release or driver does not have it; empty where it does.
        needs: what a run has to ask for beside it: ``--unclean``, because leaders are elected from
            outside the ISR, ``--to``, because it upgrades to what that names, ``--wire-clients``,
            because clients must pass the wire, ``--message``, which names a message,
            ``--transactions`` or ``--subscribe``, because their coordinator is hit,
            ``--controllers``, because one alone has no quorum, ``--trace-flushes``, because it
            must be known what was flushed, ``--log-dirs``, because one of several fails,
            ``--keys``, because the topic must be compacted, or ``highwater app``, because a program
            under test is hit.
        commands: of an inventory, which it needs on an external cluster; None: they
            are not enough for it.
        awaits_coordination: its injection ends only when ZooKeeper or a controller has said
            that a session began or ended, or has assigned replicas: not while these have a fault.
        spares_majority: it hits fewer than half of the controllers: a majority would not heal.
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

    def missing(self, kafka: Release, plan: Plan) -> str:
        """Return why a plan's cluster does not have it; empty where it does."""
        reason = self.why_not(kafka, plan.driver)
        if reason or plan.external is None:
            return reason
        if self.commands is None:
            return _OUT_OF_REACH.get(self.family, "it needs a cluster that Highwater starts")
        lacking = sorted(self.commands - _capabilities(plan.external.commands))
        return f"the inventory has no command to {' and to '.join(lacking)}" if lacking else ""


_OUT_OF_REACH: Final[Mapping[str, str]] = {
    "storage": "the files of its brokers are out of reach",
    "network": "there is no wire between its nodes",
    "clients": "there is no wire before its clients",
    "messages": "there is no wire between its nodes",
    "coordination": "ZooKeeper and the controllers are out of reach",
}
"""What commands are not enough for, by family."""


def _capabilities(commands: Collection[str]) -> set[str]:
    """Return the verbs that commands make possible: who can stop and start can restart."""
    verbs = set(commands)
    return verbs | {RESTART} if verbs >= RESTARTS else verbs


_FAMILIES: Final = (
    "process",
    "storage",
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
    """Return why a request to brokers (on ZooKeeper a write there) is not available."""
    if driver == "external" and kafka.coordination == "zookeeper":
        return "it is done in ZooKeeper, which is out of reach"
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
    """Return every fault by name: ours, family by family, and then those of other packages.

    Raises:
        HarnessError: a package that has some cannot be loaded.
    """
    _load()
    place = {family: number for number, family in enumerate(_FAMILIES)}
    ordered = sorted(_registry.values(), key=lambda entry: place.get(entry.family, len(place)))
    return {entry.name: entry for entry in ordered}


def _load() -> None:
    """Import every module that registers faults, of other packages too."""
    for family in _FAMILIES:
        importlib.import_module(f"highwater.nemesis.faults.{family}")
    extensions.load(extensions.FAULTS)


def find_fault(name: str) -> Fault:
    """Return the fault of that name, or the one that had it up to 0.1.

    Raises:
        UsageError: there is none; the nearest names are in the hint.
    """
    _load()
    name = current_fault(name)
    if name not in _registry:
        raise UsageError(f"no fault is called {name!r}", hint=nearest(name, faults()))
    return _registry[name]
