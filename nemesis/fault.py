"""What a fault is, and the nemesis that injects and heals them.

A fault is a generator: it breaks something, yields one sentence that says what, and mends it again
after the ``yield``. Write one in a file of its family and decorate it; see docs/adding-a-fault.md.
"""

import contextlib
import importlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, Protocol
from weakref import WeakValueDictionary

from clusters.cluster import Cluster
from clusters.level import Level
from clusters.release import Release
from harness.errors import HarnessError, UsageError
from harness.plan import Plan, Topic
from harness.suggest import nearest

Scope = Literal["broker", "topic", "coordination", "cluster"]
"""What a fault strikes, and so what it may not overlap with: one broker; the topic under test, by
requests to whoever runs; ZooKeeper or the KRaft controller; or every broker at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a fault is aimed at.

    Attributes:
        broker: id of the one that it strikes; None of one whose scope is no broker.
        topic: the topic under test, as the plan has it.
        partition: the one that the strike is about.
        choice: 0 up to 1, for what a fault leaves to chance.
        levels: of the upgrade under way, from where all brokers began to where they are to be.
        note: tells the run what happens to a broker before all of the fault has happened.
    """

    broker: int | None = None
    topic: Topic = field(default_factory=Topic)
    partition: int = 0
    choice: float = 0.0
    levels: tuple[Level, ...] = ()
    note: Callable[[str, int], None] = lambda _says, _broker: None

    @property
    def victim(self) -> int:
        """The broker, of a fault that strikes one.

        Raises:
            HarnessError: nobody was named.
        """
        if self.broker is None:
            raise HarnessError("the fault strikes a broker, and none was named")
        return self.broker


Needs = Literal["", "--unclean", "--to"]
Body = Callable[[Cluster, int], Iterator[str]]
AimedBody = Callable[[Cluster, Aim], Iterator[str]]
WhyNot = Callable[[Release, str], str]
"""Says of a release and a driver why a fault cannot be had there; nothing, if it can."""


class StruckError(HarnessError):
    """A fault cannot be opened because of one that is open."""


class Scribe(Protocol):
    """Writes what the nemesis does into the run; the recorder is one."""

    def fault(self, name: str, phase: str, says: str, broker: int | None = None) -> None:
        """Record one row of ``events/faults``: phase is inject, heal or note."""


def anywhere(_: Release, __: str) -> str:
    """Nothing speaks against it."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A named way to break something, and its undoing.

    Attributes:
        family: the module that has it.
        scope: what it strikes.
        why_not: why a release or driver has it not; empty where it does.
        needs: what a run has to ask for beside it: ``--unclean``, because leaders are elected from
            outside the ISR, or ``--to``, because it upgrades to what that names.
        commands: of an inventory, which it needs on a cluster that somebody else runs; None: they
            are not enough for it.
    """

    name: str
    family: str
    summary: str
    scope: Scope
    body: AimedBody
    why_not: WhyNot = anywhere
    needs: Needs = ""
    commands: frozenset[str] | None = None

    def missing(self, kafka: Release, plan: Plan) -> str:
        """Why a plan's cluster has it not; empty where it does."""
        reason = self.why_not(kafka, plan.driver)
        if reason or plan.external is None:
            return reason
        if self.commands is None:
            return _OUT_OF_REACH.get(self.family, "it needs a cluster that Highwater starts")
        lacking = sorted(self.commands - set(plan.external.commands))
        return f"the inventory has no command to {' and to '.join(lacking)}" if lacking else ""


_OUT_OF_REACH: Final[Mapping[str, str]] = {
    "storage": "the files of its brokers are out of reach",
    "network": "there is no wire between its nodes",
    "coordination": "ZooKeeper and the controllers are out of reach",
}
"""What commands are not enough for, by family."""


_FAMILIES: Final = (
    "process",
    "storage",
    "network",
    "coordination",
    "leading",
    "settings",
    "upgrades",
)
_registry: dict[str, Fault] = {}


def by_request(kafka: Release, driver: str) -> str:
    """For what is asked of brokers on KRaft, and written in ZooKeeper before."""
    if driver == "external" and kafka.coordination == "zookeeper":
        return "it is done in ZooKeeper, which is out of reach"
    return ""


def fault(
    name: str, *, why_not: WhyNot = anywhere, commands: Collection[str] | None = None
) -> Callable[[Body], Body]:
    """Register a generator as the fault ``name`` of a broker, which it is given the id of."""

    def register(body: Body) -> Body:
        def aimed_body(cluster: Cluster, aim: Aim) -> Iterator[str]:
            return body(cluster, aim.victim)

        _register(name, body, aimed_body, "broker", why_not, commands=commands)
        return body

    return register


def aimed(
    name: str,
    *,
    at: Scope = "broker",
    why_not: WhyNot = anywhere,
    needs: Needs = "",
    commands: Collection[str] | None = None,
) -> Callable[[AimedBody], AimedBody]:
    """Register a generator as the fault ``name`` that wants to know more than a broker's id."""

    def register(body: AimedBody) -> AimedBody:
        _register(name, body, body, at, why_not, needs=needs, commands=commands)
        return body

    return register


def _register(
    name: str,
    told: Callable[..., object],
    body: AimedBody,
    scope: Scope,
    why_not: WhyNot,
    *,
    needs: Needs = "",
    commands: Collection[str] | None,
) -> None:
    """The docstring's first line is the summary."""
    _registry[name] = Fault(
        name=name,
        family=told.__module__.rpartition(".")[2],
        summary=(told.__doc__ or "").partition("\n")[0],
        scope=scope,
        body=body,
        why_not=why_not,
        needs=needs,
        commands=None if commands is None else frozenset(commands),
    )


def faults() -> Mapping[str, Fault]:
    """Every fault of every family, by name."""
    for family in _FAMILIES:
        importlib.import_module(f"nemesis.{family}")
    return _registry


def find_fault(name: str) -> Fault:
    """The fault of that name.

    Raises:
        UsageError: there is none; the nearest names are in the hint.
    """
    known = faults()
    if name not in known:
        raise UsageError(f"no fault is called {name!r}", hint=nearest(name, known))
    return known[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A fault that is not healed yet."""

    fault: Fault
    target: str
    broker: int | None
    stack: contextlib.ExitStack


_ruling: Final = threading.Lock()
_rulers: "Final[WeakValueDictionary[int, Nemesis]]" = WeakValueDictionary()
"""Who struck each cluster last, by the cluster's identity, which a nemesis keeps alive."""


class Nemesis:
    """Injects faults into one cluster, knows which are open, and heals them.

    At most one fault is open on a broker at a time, one on the topic and one on the coordination;
    one that strikes every broker is alone. Safe to use from several threads.

    Args:
        topic: the topic under test.
        levels: of an upgrade, the first included.
    """

    def __init__(
        self,
        cluster: Cluster,
        scribe: Scribe,
        topic: Topic | None = None,
        levels: Iterable[Level] = (),
    ) -> None:
        self._levels = tuple(levels)
        self._cluster = cluster
        self._scribe = scribe
        self._topic = topic or Topic()
        self._open: dict[str, _Open] = {}
        self._mending: set[str] = set()
        self._lock = threading.Lock()

    @property
    def struck(self) -> frozenset[int]:
        """Ids of the brokers that a fault is open on."""
        return frozenset(one.broker for one in self._open.values() if one.broker is not None)

    def can(self, name: str, broker: int | None = None) -> bool:
        """Whether a fault could be opened now: nothing that is open is in its way."""
        chosen = find_fault(name)
        return self._in_the_way(chosen, broker) is None

    def inject(
        self, name: str, broker: int | None = None, *, partition: int = 0, choice: float = 0.0
    ) -> None:
        """Open a fault on a target that has none, or kill a broker that is paused as it is.

        Args:
            broker: whom to strike, of a fault that strikes a broker.
            partition: of the topic, that it is about.
            choice: 0 up to 1, for what the fault leaves to chance.

        Raises:
            UsageError: no such fault, or no such broker.
            StruckError: the target is struck already.
            HarnessError: another nemesis has faults open on this cluster.
        """
        chosen = find_fault(name)
        self._rule()
        if broker is not None and broker not in self._cluster.brokers:
            raise UsageError(
                f"there is no broker {broker} to strike", hint=f"{[*self._cluster.brokers]} run."
            )
        stack = contextlib.ExitStack()
        target = _target(chosen, broker)
        with self._lock:
            before = self._in_the_way(chosen, broker)
            kills = before is not None and (before.fault.name, name) == ("pause", "kill")
            if before is not None and (not kills or target in self._mending):
                raise StruckError(f"{target} is struck already, by {before.fault.name}")
            whom = broker if chosen.scope == "broker" else None
            self._open[target] = _Open(fault=chosen, target=target, broker=whom, stack=stack)
        aim = Aim(
            broker=broker,
            topic=self._topic,
            partition=partition,
            choice=choice,
            levels=self._levels,
            note=partial(self._scribe.fault, name, "note"),
        )
        try:
            says = stack.enter_context(contextlib.contextmanager(chosen.body)(self._cluster, aim))
        except BaseException:
            self._open.pop(target, None)
            raise
        if before is not None:
            before.stack.close()  # nobody is left to be woken
            self._scribe.fault(before.fault.name, "heal", f"{target} is paused no more", broker)
        self._scribe.fault(name, "inject", says, whom)

    def _rule(self) -> None:
        """Be the only nemesis of the cluster: two would heal each other's faults."""
        with _ruling:
            other = _rulers.get(id(self._cluster))
            if other is not None and other is not self and other._open:  # noqa: SLF001 - of us
                raise HarnessError(
                    f"another nemesis has faults open on this cluster: {', '.join(other._open)}",  # noqa: SLF001 - likewise
                    hint="Heal those first.",
                )
            _rulers[id(self._cluster)] = self

    def _in_the_way(self, chosen: Fault, broker: int | None) -> _Open | None:
        """What is open and overlaps with a fault."""
        for one in self._open.values():
            both = {one.fault.scope, chosen.scope}
            alone = "cluster" in both and both & {"cluster", "broker"} == both
            if alone or one.target == _target(chosen, broker):
                return one
        return None

    def heal(self, broker: int) -> None:
        """Mend what is open on a broker, if anything is; returns when it has taken effect."""
        self._heal(f"broker {broker}")

    def mend(self, name: str, broker: int | None = None) -> None:
        """Mend a fault, if it is open; returns when that has taken effect."""
        self._heal(_target(find_fault(name), broker))

    def _heal(self, target: str) -> None:
        with self._lock:
            found = self._open.get(target)
            if found is None or target in self._mending:
                return
            self._mending.add(target)
        try:
            found.stack.close()
        finally:  # only now, so that nothing strikes a broker that still starts
            with self._lock:
                self._open.pop(target)
                self._mending.discard(target)
        self._scribe.fault(found.fault.name, "heal", f"{target} is mended", found.broker)

    def heal_all(self, brokers: Iterable[int] | None = None) -> None:
        """Mend everything that is open on these brokers (all, if none are named), side by side."""
        wanted = None if brokers is None else {f"broker {one}" for one in brokers}
        targets = sorted(one for one in self._open if wanted is None or one in wanted)
        if targets:
            with ThreadPoolExecutor(len(targets), thread_name_prefix="heal") as pool:
                list(pool.map(self._heal, targets))


def _target(chosen: Fault, broker: int | None) -> str:
    """What a fault strikes, in words."""
    if chosen.scope == "broker":
        return f"broker {broker}"
    return "every broker" if chosen.scope == "cluster" else f"the {chosen.scope}"
