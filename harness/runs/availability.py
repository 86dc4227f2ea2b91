"""The availability of a run: how long partitions had no acknowledgement, no leader, no full ISR.

Every number is as long as it was observed. ``checkers.availability`` computes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from highwater.harness.base.wording import exact

NOT_OBSERVED: Final = "not observed"

MEASURES: Final = {
    "unacknowledged": "without an acknowledgement",
    "leaderless": "without a leader",
    "unsynced": "until all replicas are in sync",
}
"""The fields of ``Outages``, and their meaning in words."""

Limits: TypeAlias = Mapping[str, tuple[str, float]]
"""Field of ``Outages`` to the option that limits it, and the limit in seconds."""


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """The longest outage of any partition.

    Attributes:
        seconds: its length, rounded to 1 ms; 0: it was observed that there was none.
        where: the partition, such as ``events-0``; empty without an outage.
        since_s: when it began, in seconds of the run; None without an outage.
        least: whether it may have been longer, because its end was not observed.
    """

    seconds: float
    where: str = ""
    since_s: float | None = None
    least: bool = False

    @property
    def says(self) -> str:
        """The length as text, and the place: ``at least 3.2 s (events-0 from 1.5 s on)``."""
        length = f"{'at least ' * self.least}{self.seconds:.1f} s"
        return f"{length} ({self.where} from {self.since_s:.1f} s on)" if self.where else length


def says(outage: Outage | None) -> str:
    """Return an outage's length as text, or that it was not observed."""
    return NOT_OBSERVED if outage is None else outage.says


def longest(outages: Iterable[Outage | None]) -> Outage | None:
    """Return the longest outage, if any; of equal ones, one that may have been longer."""
    observed = [outage for outage in outages if outage is not None]
    return max(observed, key=lambda outage: (outage.seconds, outage.least), default=None)


class Outages(msgspec.Struct, frozen=True, kw_only=True):
    """The longest outages of a run, or around one of its faults. None: not observed.

    Attributes:
        unacknowledged: the time in which at least one send to a partition waited and the partition
            acknowledged none (``history/ops``); pauses of up to 0.1 s do not count.
        leaderless: the time in which a partition had no leader by the observed metadata, or its
            leader did not answer the observer (``events/partitions``, ``events/replicas``).
        unsynced: the time from the begin of a fault's healing until every replica was in its ISR
            again, by the observed metadata (``events/partitions``, ``events/steps``); for a story,
            whose steps do not say when a healing began, from its end. At least, if the next fault
            began before.
    """

    unacknowledged: Outage | None = None
    leaderless: Outage | None = None
    unsynced: Outage | None = None

    @property
    def lengths_s(self) -> dict[str, float | None]:
        """The seconds of all three, as the fields of rows and of the trend."""
        outages: dict[str, Outage | None] = {name: getattr(self, name) for name in MEASURES}
        return {f"{n}_s": None if out is None else out.seconds for n, out in outages.items()}

    @property
    def says(self) -> str:
        """All three in one line of text."""
        return "; ".join(f"{text} {says(getattr(self, name))}" for name, text in MEASURES.items())


class FaultOutages(Outages, frozen=True, kw_only=True):
    """The longest outages that were going on, or began, from a fault's begin until its end.

    Its end is when all replicas are in sync after its healing, or when the next fault begins. Each
    counts from the fault's begin on, and until its own end, even after that of the fault. Faults
    that were open at the same time may have the same outage.

    Attributes:
        broker: None for a fault without a broker.
        at_s: when it began, in seconds of the run.
        healed_s: when it was healed; None: never.
    """

    fault: str
    broker: int | None
    at_s: float
    healed_s: float | None

    @property
    def name(self) -> str:
        """The fault as text: ``kill of broker 2 at 3.1 s``."""
        of = "" if self.broker is None else f" of broker {self.broker}"
        return f"{self.fault}{of} at {self.at_s:.1f} s"


class Availability(Outages, frozen=True, kw_only=True):
    """The longest outages of the whole run, and those of each of its faults.

    The run's ``unsynced`` is the longest of its faults.
    """

    faults: tuple[FaultOutages, ...] = ()

    def exceeded(self, limits: Limits) -> Iterator[str]:
        """Yield a sentence for each limit that was certainly exceeded."""
        for name, (option, limit_s) in limits.items():
            outage: Outage | None = getattr(self, name)
            if outage is not None and outage.seconds > limit_s:
                yield f"Time {MEASURES[name]}: {outage.says}. {option} allows {exact(limit_s)} s."

    def untested(self, limits: Limits) -> Iterator[str]:
        """Yield a sentence for each limit of which it is not known whether it was kept.

        A recovery that the next fault interrupted is no reason: it was shorter than the limit.
        """
        for name, (option, _) in limits.items():
            whole: Outage | None = getattr(self, name)
            parts = self.faults[-1:] if name == "unsynced" else (self, *self.faults)
            open_ = [o for part in parts if (o := getattr(part, name)) is not None and o.least]
            if whole is None and (name != "unsynced" or self.faults):
                yield f"{option} was not tested: the time {MEASURES[name]} was not observed."
            elif open_:
                yield (
                    f"{option} may have been exceeded. Time {MEASURES[name]}: {open_[0].says},"
                    " and the end was not observed."
                )
