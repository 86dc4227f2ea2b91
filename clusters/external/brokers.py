"""One broker that somebody else runs: its verbs are commands, and each is seen to have worked."""

from pathlib import Path
from typing import Final, NoReturn

from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import BrokerState
from highwater.clusters.external import commands
from highwater.clusters.external.healing import ClusterHealer, unhealed_error
from highwater.clusters.external.inventory import Inventory
from highwater.clusters.external.journal import Journal
from highwater.clusters.external.metadata import answers
from highwater.clusters.releases.catalogue import release
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition

_SILENT_S: Final = 15.0


class ExternalBroker:
    """The Broker of ``clusters.core.interfaces``.

    Before it is hurt, the journal has what mends it; after it answers again, no more.

    Args:
        hold: descriptor that commands which hurt keep open, for the guard to wait for them.
    """

    def __init__(
        self,
        identity: int,
        address: Address,
        *,
        inventory: Inventory,
        journal: Journal,
        healer: ClusterHealer,
        hold: int,
    ) -> None:
        self._id = identity
        self._address = address
        self._inventory = inventory
        self._journal = journal
        self._healer = healer
        self._hold = hold
        self._state: BrokerState = "running"

    @property
    def id(self) -> int:
        """Broker id."""
        return self._id

    @property
    def address(self) -> str:
        """``host:port``, as it tells its clients."""
        return str(self._address)

    @property
    def state(self) -> BrokerState:
        """What was last done to it; that it died by itself is not seen."""
        return self._state

    @property
    def level(self) -> Level:
        """What the inventory says that it runs."""
        return Level.of(release(self._inventory.kafka))

    def install(self, level: Level) -> None:
        """Out of reach."""
        self._out_of_reach(level)

    @property
    def directory(self) -> Path:
        """Out of reach."""
        self._out_of_reach()

    def read(self, name: str) -> str:
        """Out of reach."""
        self._out_of_reach(name)

    def limit_writes(self, *, limited: bool) -> None:
        """Out of reach."""
        self._out_of_reach(limited)

    def kill(self) -> None:
        """The inventory's command; it answers no more afterwards."""
        if self._state != "down":
            self._damage("kill", "start", "down")

    def stop(self) -> None:
        """Likewise."""
        if self._state != "down":
            self._damage("stop", "start", "down")

    def pause(self) -> None:
        """Likewise."""
        if self._state == "running":
            self._damage("pause", "resume", "paused")

    def resume(self) -> None:
        """Likewise, and it answers afterwards; nothing to do for one that is down."""
        if self._state == "paused":
            self.heal()

    def start(self) -> None:
        """Likewise, once its old session has ended."""
        if self._state == "paused":
            raise HarnessError(f"broker {self._id} is paused", hint="Resume it instead.")
        self.heal()

    def heal(self) -> None:
        """Undo whatever was done to it.

        Raises:
            HarnessError: it does not come back; the hint says what to do by hand.
        """
        wound = self._journal.entry.wounds.get(self._id)
        if wound is None:
            return
        try:
            self._healer.heal(self._id, wound.cures)
        except HarnessError as error:
            raise unhealed_error(self._journal.entry, [error.message]) from error
        self._state = "running"
        self._journal.record_healed(self._id)

    def _damage(self, verb: str, cure: str, state: BrokerState) -> None:
        command = self._inventory.command(verb, self._id)
        cures = (self._inventory.command(cure, self._id),)
        before = self._journal.entry.wounds.get(self._id)
        self._journal.record_damage(self._id, (*(before.cures if before else ()), *cures))
        self._state = state  # whatever comes of it: it is to be mended from now on
        try:
            commands.run(command, hold=self._hold)
            self._await_silence(verb, command.line)
        except HarnessError as error:
            error.hint = (
                "What is hurt is healed at the end of the run. If that fails, by hand:\n"
                f"{self._journal.entry.manual_steps()}"
            )
            raise
        self._journal.record_damage(self._id, cures)

    def _await_silence(self, verb: str, line: str) -> None:
        """A command that did not do what it is for is no fault of the cluster's."""
        try:
            await_condition(
                lambda: answers(self._address),
                lambda answered: not answered,
                what="it to be silent",
                limit_s=_SILENT_S,
            )
        except WaitTimeoutError as error:
            raise HarnessError(
                f"the command to {verb} broker {self._id} ended well, and the broker still answers"
                f" {_SILENT_S:g} s later: {line}"
            ) from error

    def _out_of_reach(self, *_: object) -> NoReturn:
        raise HarnessError(
            f"the files of broker {self._id} are out of reach: somebody else runs it",
            hint="Faults of the disk and upgrades need a cluster that Highwater starts.",
        )
