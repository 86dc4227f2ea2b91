"""A broker of an external cluster. Its methods run commands and verify that they worked."""

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import BrokerState
from highwater.clusters.core.system_calls import CallRule
from highwater.clusters.external.healing import ClusterHealer, unhealed_error
from highwater.clusters.external.inventory import Inventory
from highwater.clusters.external.journal import Journal
from highwater.clusters.external.metadata import LastingConnection, answers
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.interruptions import hold_signals
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.releases.catalogue import release

_SILENT_S: Final = 15.0


@dataclass(slots=True, kw_only=True)
class ExternalBroker:
    """A broker that an inventory describes. It implements Broker of ``clusters.core.interfaces``.

    Before a fault, the commands that heal the broker are written to the journal. When the broker
    responds again, they are removed from the journal.

    Attributes:
        hold: file descriptor that a fault's command keeps open until the command exits. The guard
            waits for the exit.
    """

    id: int
    host: Address
    inventory: Inventory
    journal: Journal
    healer: ClusterHealer
    hold: int
    state: BrokerState = "running"

    @property
    def address(self) -> str:
        return str(self.host)

    @property
    def level(self) -> Level:
        return Level.of(release(self.inventory.kafka))

    def install(self, level: Level) -> None:
        self._out_of_reach(level)

    @property
    def directory(self) -> Path:
        self._out_of_reach()

    @property
    def log_directories(self) -> tuple[Path, ...]:
        self._out_of_reach()

    def read(self, name: str) -> str:
        self._out_of_reach(name)

    def take_unflushed(self) -> Mapping[Path, float]:
        self._out_of_reach()

    def limit_writes(self, *, limited: bool) -> None:
        self._out_of_reach(limited)

    def limit_descriptors(self, *, limited: bool) -> None:
        self._out_of_reach(limited)

    def limit_memory(self, spare_mb: int | None) -> None:
        self._out_of_reach(spare_mb)

    def limit_container(self, *, cpus: float | None = None, spare_mb: int | None = None) -> None:
        self._out_of_reach(cpus, spare_mb)

    def lose_packets(self, share: float) -> None:
        self._out_of_reach(share)

    def hold_jvm(self) -> AbstractContextManager[None]:
        self._out_of_reach()

    def inject_calls(self, rule: CallRule) -> AbstractContextManager[Callable[[], int]]:
        self._out_of_reach(rule)

    def shift_clock(self, offset_s: float) -> None:
        self._out_of_reach(offset_s)

    def resolve(self, names: Mapping[int, int | None]) -> None:
        self._out_of_reach(names)

    def move_log(self, topic: str, partition: int, target: Path, *, bytes_per_s: int) -> None:
        self._out_of_reach(topic, partition, target, bytes_per_s)

    def kill(self) -> None:
        if self.state != "down":
            self._damage("kill", "start", "down")

    def stop(self) -> None:
        if self.state != "down":
            self._damage("stop", "start", "down")

    def restart(self) -> None:
        """Restart the broker with the inventory's restart command, or with stop and start.

        A restart may be so quick that the harness does not notice it. So the method also checks
        that an earlier connection has ended.
        """
        if not self.inventory.can("restart"):
            try:
                self.stop()
            finally:
                self.start()
            return
        with contextlib.closing(LastingConnection(self.host)) as before:
            self._damage("restart", "restart", "down", before.answers)
        self.heal()

    def pause(self) -> None:
        if self.state == "running":
            self._damage("pause", "resume", "paused")

    def resume(self) -> None:
        if self.state == "paused":
            self.heal()

    def start(self) -> None:
        if self.state == "paused":
            raise HarnessError(f"broker {self.id} is paused", hint="Resume it instead.")
        self.heal()

    def heal(self) -> None:
        """Heal all faults of the broker.

        The method delays signals until its end. Otherwise, after an interruption, the next process
        would run the healing commands again.
        """
        damage = self.journal.entry.wounds.get(self.id)
        if damage is None:
            return
        with hold_signals():
            try:
                self.healer.heal(self.id, damage.cures)
            except HarnessError as error:
                raise unhealed_error(self.journal.entry, [error.message]) from error
            self.state = "running"
            self.journal.record_healed(self.id)

    def _damage(
        self,
        verb: str,
        healing_verb: str,
        state: BrokerState,
        alive: Callable[[], bool] | None = None,
    ) -> None:
        """Run the command of a fault, and wait until the broker is no longer ``alive``."""
        command = self.inventory.command(verb, self.id)
        cures = (self.inventory.command(healing_verb, self.id),)
        before = self.journal.entry.wounds.get(self.id)
        self.journal.record_damage(self.id, (*(before.cures if before else ()), *cures))
        self.state = state  # also if the command fails: it may have had an effect
        try:
            command.run(hold=self.hold)
            self._await_silence(verb, command.line, alive or (lambda: answers(self.host)))
        except HarnessError as error:
            error.hint = (
                "The run heals the broker at its end. If that fails, run these commands:\n"
                f"{self.journal.entry.manual_steps()}"
            )
            raise
        self.journal.record_damage(self.id, cures)

    def _await_silence(self, verb: str, line: str, alive: Callable[[], bool]) -> None:
        """Wait until the broker does not respond. If it still responds, raise an error."""

        def silent() -> None:
            if alive():
                raise NotYetError("it responds")

        try:
            await_condition(silent, what="the broker to stop responding", limit_s=_SILENT_S)
        except WaitTimeoutError as error:
            raise HarnessError(
                f"the command to {verb} broker {self.id} ended with status 0, but the broker still"
                f" responds {_SILENT_S:g} s later: {line}"
            ) from error

    def _out_of_reach(self, *_: object) -> NoReturn:
        raise HarnessError(
            f"this fault is not possible on broker {self.id}: the cluster is external",
            hint="Use this fault on a cluster that Highwater starts.",
        )
