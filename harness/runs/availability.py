"""The availability of a run: the longest time without an acknowledgement, a leader or a full ISR.

``checkers.availability`` computes these times from observations. If the end of an outage was not
observed, the outage may have been longer.
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
"""For each field of ``Outages`` that a user limits: the name of the option, and the limit in
seconds."""


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """The longest outage of any partition.

    Attributes:
        seconds: length of the outage, rounded to 1 ms; 0 if there was no outage.
        where: the partition, such as ``events-0``; empty without an outage.
        since_s: start of the outage, in seconds of the run; None without an outage.
        least: whether the outage may have been longer, because its end was not observed.
    """

    seconds: float
    where: str = ""
    since_s: float | None = None
    least: bool = False

    @property
    def says(self) -> str:
        """The length, the partition and the start: ``2.1 s (events-0, from 3.0 s after …)``."""
        length = f"{'at least ' * self.least}{self.seconds:.1f} s"
        if not self.where:
            return length
        return f"{length} ({self.where}, from {self.since_s:.1f} s after the run's start)"


def says(outage: Outage | None) -> str:
    """Return an outage as text, or ``not observed``."""
    return NOT_OBSERVED if outage is None else outage.says


def longest(outages: Iterable[Outage | None]) -> Outage | None:
    """Return the longest outage. Of two equal outages, return the one with ``least``."""
    observed = [outage for outage in outages if outage is not None]
    return max(observed, key=lambda outage: (outage.seconds, outage.least), default=None)


class Outages(msgspec.Struct, frozen=True, kw_only=True):
    """The longest outages of a run, or around one of its faults. None means not observed.

    Attributes:
        unacknowledged: time in which a send to a partition waited, and the partition acknowledged
            no send (``history/ops``). Pauses of up to 0.1 s do not count.
        leaderless: time in which a partition had no leader according to the observed metadata, or
            its leader did not respond to the observer (``events/partitions``, ``events/replicas``).
        unsynced: time from the start of a fault's healing until every replica was in its ISR again,
            by the observed metadata (``events/partitions``, ``events/steps``). A story's steps do
            not contain the start of a healing. So in a story, the time counts from the story's end.
            If the next fault begins earlier, the time is a lower bound.
    """

    unacknowledged: Outage | None = None
    leaderless: Outage | None = None
    unsynced: Outage | None = None

    @property
    def lengths_s(self) -> dict[str, float | None]:
        """``{"unacknowledged_s": 2.1, …}``: the columns of the three outages in tables."""
        outages: dict[str, Outage | None] = {name: getattr(self, name) for name in MEASURES}
        return {f"{n}_s": None if out is None else out.seconds for n, out in outages.items()}

    @property
    def says(self) -> str:
        """The three outages as one line of text."""
        return "; ".join(f"{text} {says(getattr(self, name))}" for name, text in MEASURES.items())


class FaultOutages(Outages, frozen=True, kw_only=True):
    """The longest outages around one fault.

    A fault's time is from its start until all replicas are in sync after its healing, or until the
    next fault begins. An outage counts if it overlaps this time. Its length is from the fault's
    start to the outage's end, which may be later. Faults that overlap may have the same outage.

    Attributes:
        broker: None for a fault without a broker.
        at_s: start of the fault, in seconds of the run.
        healed_s: time of the healing, in seconds of the run; None if the fault was never healed.
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
    """The longest outages of the complete run and of each of its faults.

    The ``unsynced`` outage of the run is the longest ``unsynced`` outage of its faults.
    """

    faults: tuple[FaultOutages, ...] = ()

    def exceeded(self, limits: Limits) -> Iterator[str]:
        """Yield a sentence for each limit that an outage has certainly exceeded."""
        for name, (option, limit_s) in limits.items():
            outage: Outage | None = getattr(self, name)
            if outage is not None and outage.seconds > limit_s:
                yield f"Time {MEASURES[name]}: {outage.says}. {option} allows {exact(limit_s)} s."

    def untested(self, limits: Limits) -> Iterator[str]:
        """Yield a sentence for each limit that an outage may have exceeded, or that was not tested.

        A recovery that the next fault interrupted gives no sentence: until then, it was within the
        limit.
        """
        for name, (option, _) in limits.items():
            whole: Outage | None = getattr(self, name)
            parts = self.faults[-1:] if name == "unsynced" else (self, *self.faults)
            open_ = [o for part in parts if (o := getattr(part, name)) is not None and o.least]
            if whole is None and (name != "unsynced" or self.faults):
                yield f"{option} was not tested: the time {MEASURES[name]} was not observed."
            elif open_:
                yield (
                    f"{option} may have been exceeded: the time {MEASURES[name]} was"
                    f" {open_[0].says}, and its end was not observed."
                )
