"""What a schedule plays on: a cluster, its faults, and a client that can send one record."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from clusters.cluster import Cluster, PartitionState, Probe, UnreachableError
from harness.errors import HarnessError
from harness.waiting import await_condition
from nemesis.fault import Nemesis, Scribe

_CHECK_EVERY_S: Final = 0.2


class MissedError(HarnessError):
    """A schedule could not be played as written, so its run proves nothing either way."""


class Answer(Protocol):
    """What a client was told about one record."""

    @property
    def outcome(self) -> str:
        """ok, fail or info."""

    @property
    def offset(self) -> int | None:
        """Where it was appended, if that was told."""


class Client(Protocol):
    """Sends one named record and records it in the history."""

    def send(self, value: str, partition: int) -> Answer:
        """Send a record with the plan's acks; returns at the answer, or as info after a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything a schedule may touch.

    Attributes:
        probe: for this thread alone.
        topic: the topic under test.
        replicas: brokers of partition 0, preferred leader first.
        stop: set from outside to end the run early.
        checks: each raises when something that the run needs has failed.
        clock: seconds, monotonic.
    """

    cluster: Cluster
    probe: Probe
    nemesis: Nemesis
    scribe: Scribe
    client: Client
    topic: str
    replicas: tuple[int, ...]
    stop: threading.Event
    checks: tuple[Callable[[], None], ...] = ()
    clock: Callable[[], float]

    def note(self, says: str, broker: int | None = None) -> None:
        """Record what was seen or decided, for whoever reads the run."""
        self.scribe.fault("step", "note", says, broker)

    def send(self, value: str, *, expect_ok: bool = True) -> int:
        """Send one record to partition 0.

        Returns:
            Its offset.

        Raises:
            MissedError: it was not acknowledged with an offset.
        """
        answer = self.client.send(value, 0)
        if expect_ok and (answer.outcome != "ok" or answer.offset is None):
            raise MissedError(
                f"{value} was to be acknowledged, but its outcome is {answer.outcome}"
            )
        return -1 if answer.offset is None else answer.offset

    def check(self) -> None:
        """Go on, unless something that the run needs has failed or it is to end.

        Raises:
            HarnessError: what failed.
        """
        if self.stop.is_set():
            raise HarnessError("the run was ended early")
        for check in self.checks:
            check()

    def hold(self, seconds: float) -> None:
        """Let time pass, as the schedule says.

        Raises:
            HarnessError: the run has to end before that.
        """
        deadline = self.clock() + seconds
        self.check()
        while (left := deadline - self.clock()) > 0:
            self.stop.wait(min(left, _CHECK_EVERY_S))
            self.check()

    def await_in_sync(self, broker: int, *, limit_s: float) -> PartitionState:
        """Wait until a broker is in the ISR of partition 0.

        Raises:
            WaitTimeoutError: it was not within the limit.
        """
        return await_condition(
            lambda: self.probe.partition(self.topic, 0),
            lambda state: broker in state.isr,
            what=f"broker {broker} to be in the ISR of {self.topic}-0",
            limit_s=limit_s,
            passing=(UnreachableError,),
        )
