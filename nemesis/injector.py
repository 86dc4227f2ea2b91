"""The nemesis of a cluster, which injects faults and heals them."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol
from weakref import WeakValueDictionary

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.runs.faults.effects import FaultEffect
from highwater.harness.runs.plan import Topic
from highwater.nemesis.faults.registry import (
    Fault,
    FaultTarget,
    ProgramUnderTest,
    find_fault,
)


class FaultConflictError(HarnessError):
    """A fault cannot be injected while another fault is open."""


class FaultLog(Protocol):
    """A log of the nemesis's actions; the run's recorder implements it."""

    def fault(
        self, name: str, phase: str, says: str, broker: int | None = None, **fields: object
    ) -> None:
        """Record one row of ``events/faults``: phase is inject, heal or note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """An injected fault that is not healed yet."""

    fault: Fault
    target: str
    broker: int | None
    stack: contextlib.ExitStack


_ruling: Final = threading.Lock()
_rulers: "Final[WeakValueDictionary[int, Nemesis]]" = WeakValueDictionary()
"""The last ``Nemesis`` object that injected faults into each cluster, by the cluster's ``id``."""


class Nemesis:
    """Injects faults into one cluster, and heals them.

    An open fault is injected and not healed yet. At most one fault is open on each broker, on the
    links of each broker, on the topic, and on the coordination (ZooKeepers or controllers). A fault
    that hits every broker does not overlap with a fault of a broker. A fault with
    ``awaits_coordination`` does not overlap with a fault of the coordination or of its broker's
    links. Threads may share a nemesis.

    Args:
        topic: the topic under test.
        levels: the software levels of an upgrade, including the first.
        stopped: returns whether the run must end early.
        program: the program under test, if there is one.
        shift_clients: moves the clock of the clients' processes; see ``FaultTarget``.

    Attributes:
        missed: reasons why injected faults had no effect, so that the run proves nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        fault_log: FaultLog,
        topic: Topic | None = None,
        levels: Iterable[Level] = (),
        stopped: Callable[[], bool] = lambda: False,
        program: ProgramUnderTest | None = None,
        shift_clients: Callable[[float], None] | None = None,
    ) -> None:
        self._shift_clients = shift_clients
        self._program = program
        self._stopped = stopped
        self._levels = tuple(levels)
        self._cluster = cluster
        self._fault_log = fault_log
        self._topic = topic or Topic()
        self.missed: list[str] = []
        self._healing = False
        self._open: dict[str, _Open] = {}
        self._in_healing: set[str] = set()
        self._unhealed: dict[str, BaseException] = {}
        self._lock = threading.Lock()

    @property
    def broken_brokers(self) -> frozenset[int]:
        """The ids of the brokers that have an open fault."""
        return frozenset(opened.broker for opened in self._snapshot() if opened.broker is not None)

    def can(self, name: str, broker: int | None = None, *, message: str = "") -> bool:
        """Return whether a fault can be injected, because no open fault excludes it."""
        chosen = find_fault(name)
        with self._lock:
            return self._in_the_way(chosen, broker, _target(chosen, broker, message)) is None

    def inject(
        self,
        name: str,
        broker: int | None = None,
        *,
        controllers: Sequence[int] = (),
        partition: int = 0,
        choice: float = 0.0,
        client: str = "",
        message: str = "",
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Inject a fault into a target without an open fault, or kill a paused broker.

        Args:
            broker: the target broker, for a fault of a broker.
            controllers: the target controllers, for a fault of controllers; by default the only
                controller.
            partition: the partition of the topic that the fault hits.
            choice: a number from 0 to 1, for the fault's random decisions.
            client: name of the client, for a fault of a client.
            message: the notation of the message, for a fault of messages.
            meanwhile: called during the injection, so that a story can send records.

        Raises:
            UsageError: there is no such fault, or no such broker.
            FaultConflictError: the target already has a fault.
            HarnessError: another nemesis has faults open on this cluster.
        """
        chosen = find_fault(name)
        self._rule()
        if broker is not None and broker not in self._cluster.brokers:
            raise UsageError(
                f"there is no broker {broker}", hint=f"{[*self._cluster.brokers]} run."
            )
        opened = _Open(
            fault=chosen,
            target=_target(chosen, broker, message),
            broker=broker if chosen.scope == "broker" else None,
            stack=contextlib.ExitStack(),
        )
        before = self._occupy(opened, broker)
        aim = FaultTarget(
            broker=broker,
            controllers=self._controllers(chosen, controllers),
            topic=self._topic,
            partition=partition,
            choice=choice,
            levels=self._levels,
            client=client,
            message=message,
            program=self._program,
            shift_clients=self._shift_clients,
            miss=self.missed.append,
            meanwhile=meanwhile,
            healing=lambda: self._healing,
            stopped=self._stopped,
            note=partial(self._fault_log.fault, name, "note"),
        )
        effect = self._begin(opened, before, aim)
        if before is not None:
            before.stack.close()  # the killed process can no longer be resumed
            says = f"{before.target} is paused no more"
            self._fault_log.fault(before.fault.name, "heal", says, broker)
        self._fault_log.fault(name, "inject", effect.says, opened.broker, removed=effect.rows)

    def _occupy(self, opened: _Open, broker: int | None) -> _Open | None:
        """Register a fault as open. Return the open pause that this kill replaces, if any.

        Raises:
            FaultConflictError: an open fault excludes it.
        """
        with self._lock:
            before = self._in_the_way(opened.fault, broker, opened.target)
            names = before and (before.fault.name, opened.fault.name)
            if before and (names != ("pause", "kill") or opened.target in self._in_healing):
                raise FaultConflictError(
                    f"{opened.target} already has an open fault: {before.fault.name}"
                )
            self._open[opened.target] = opened
        return before

    def _begin(self, opened: _Open, before: _Open | None, aim: FaultTarget) -> FaultEffect:
        """Execute a fault until it has taken effect. If this fails, ``before`` is open again."""
        body = contextlib.contextmanager(opened.fault.body)
        try:
            effect = opened.stack.enter_context(body(self._cluster, aim))
        except BaseException:
            with self._lock:
                self._open.pop(opened.target)
                if before is not None:
                    self._open[before.target] = before
            raise
        return FaultEffect(effect) if isinstance(effect, str) else effect

    def _controllers(self, chosen: Fault, controllers: Sequence[int]) -> tuple[int, ...]:
        if chosen.scope != "coordination" or controllers:
            return tuple(controllers)
        every = tuple(self._cluster.controllers)
        return every if len(every) == 1 else ()

    def _rule(self) -> None:
        """Register this nemesis for its cluster, so that no other nemesis heals its faults.

        Raises:
            HarnessError: another nemesis has faults open on the cluster.
        """
        with _ruling:
            other = _rulers.get(id(self._cluster))
            rival = other is not None and other is not self
            if other is not None and rival and (opened := other._snapshot()):  # noqa: SLF001 - of us
                targets = ", ".join(fault.target for fault in opened)
                raise HarnessError(
                    f"another nemesis has faults open on this cluster: {targets}",
                    hint="Heal those faults first.",
                )
            _rulers[id(self._cluster)] = self

    def _snapshot(self) -> list[_Open]:
        """Return the faults that are open now."""
        with self._lock:
            return [*self._open.values()]

    def _in_the_way(self, chosen: Fault, broker: int | None, target: str) -> _Open | None:
        """Return an open fault that must not overlap with this fault, or None. Needs the lock."""
        for opened in self._open.values():
            both = {opened.fault.scope, chosen.scope}
            alone = "cluster" in both and both & {"cluster", "broker"} == both
            unheard = chosen.awaits_coordination and opened.fault.scope == "coordination"
            waits = chosen.awaits_coordination or opened.fault.awaits_coordination
            cut = waits and None is not opened.broker == broker
            if alone or unheard or cut or opened.target == target:
                return opened
        return None

    def heal(self, broker: int) -> None:
        """Heal the open faults of a broker, if any; return when the faults are gone."""
        for target in _targets(broker):
            self._heal(target)

    def heal_fault(self, name: str, broker: int | None = None, *, message: str = "") -> None:
        """Heal a fault, if it is open; return when the fault is gone."""
        self._heal(_target(find_fault(name), broker, message))

    def _heal(self, target: str) -> None:
        """Heal the open fault of a target.

        If healing fails, raise its error now and in later calls.
        """
        with self._lock:
            if target in self._unhealed:
                raise self._unhealed[target]
            opened = self._open.get(target)
            if opened is None or target in self._in_healing:
                return
            self._in_healing.add(target)
        name, broker = opened.fault.name, opened.broker
        try:
            opened.stack.close()
        except BaseException as error:
            with self._lock:
                self._unhealed[target] = error
            self._fault_log.fault(name, "note", f"{target} could not be healed: {error}", broker)
            raise
        with self._lock:  # only now, so that no new fault hits a starting broker
            self._open.pop(target)
            self._in_healing.discard(target)
        self._fault_log.fault(name, "heal", f"{target} is healed", broker)

    def heal_all(self, brokers: Iterable[int] | None = None) -> None:
        """Heal all open faults of these brokers in parallel; None means every open fault."""
        self._healing = brokers is None
        names = None if brokers is None else {name for id_ in brokers for name in _targets(id_)}
        opened = [fault.target for fault in self._snapshot()]
        targets = sorted(name for name in opened if names is None or name in names)
        if targets:
            with ThreadPoolExecutor(len(targets), thread_name_prefix="heal") as pool:
                list(pool.map(self._heal, targets))


def _targets(broker: int) -> tuple[str, str]:
    """Return the two target names of a broker: one for its links, one for the broker."""
    return f"the network of broker {broker}", f"broker {broker}"


def _target(chosen: Fault, broker: int | None, message: str) -> str:
    """Return the name of a fault's target, such as ``broker 1``."""
    if chosen.scope == "message":
        return f"the message {message}"
    if chosen.scope == "broker":
        return f"{'the network of ' * chosen.on_wire}broker {broker}"
    every = {"cluster": "every broker", "clients": "every client"}
    return every.get(chosen.scope, f"the {chosen.scope}")
