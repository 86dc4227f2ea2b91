"""The habits of a program: the usual order of its commits and outputs in a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import erfc
from typing import Final, NamedTuple, Self

import numpy as np

from highwater.checkers.groups.generations import Generation, generations_on_disk
from highwater.checkers.programs.facts import Position, ProgramFacts, since_start_ns
from highwater.checkers.programs.output_log import OutputLog
from highwater.checkers.programs.output_times import OutputTimes
from highwater.checkers.run_files import RunFiles
from highwater.checkers.transactions.coordinated import (
    COMMITTED,
    FENCED,
    OPEN,
    CoordinatedTransaction,
    transactions_on_disk,
)

_LEAST_GAP_S: Final = 0.2
_ALIKE: Final = 0.5
_BY_CHANCE: Final = 0.01

_FEW: Final = 0.05
_STEADY: Final = 0.8

_CLOSING_NS: Final = 2_000_000_000

_CLOSE_MS: Final = 3000
_LONG_S: Final = 10.0

_NOT_ONE: Final = 2
_ENOUGH_COMMITS: Final = 10
_IN_FLIGHT_NS: Final = 100_000_000
_RECOVERY_NS: Final = 10_000_000_000
"""The time after a fault in which the fault may still affect a producer."""


class EarlyCommit(NamedTuple):
    """A commit of a position after an input that was not sent yet."""

    time_ns: int
    partition: int
    offset: int
    invoked_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The order of a program's commits and outputs, counted over a complete run.

    A commit *passes* the inputs from the previous committed position to its own.

    Attributes:
        ahead: the number of commits before the outputs of all inputs that they passed.
        amid: the number of commits after some of these outputs and before other outputs.
        behind: the number of commits after all of these outputs.
        newest: the number of ``amid`` commits after the output of the last input that they passed.
        late_ns: the longest time from a ``newest`` commit to an output of an input that it passed.
        interval_s: the seconds between two commits, if the program commits on a timer; else None.
        generations: the group's generations in order; times are nanoseconds since the run's start.
        in_transactions: whether all outputs are in transactions; None if no disk has outputs.
        fenced: transactions that another instance fenced while all instances were alive.
        past_the_end: commits of positions after inputs that were not sent yet, in order of time.
        aborted: the end of each transaction that was not committed.
        busy_s: the number of seconds in which outputs were written, without gaps of more than 3 s.
        reversals: how often a position was older than the previous position of its generation.
    """

    ahead: int = 0
    amid: int = 0
    behind: int = 0
    newest: int = 0
    late_ns: int = 0
    interval_s: float | None = None
    generations: Sequence[tuple[int, Generation]] = ()
    in_transactions: bool | None = None
    fenced: Sequence[CoordinatedTransaction] = ()
    past_the_end: Sequence[EarlyCommit] = ()
    aborted: Sequence[int] = ()
    busy_s: float = 0.0
    reversals: int = 0

    @classmethod
    def of(cls, case: RunFiles, facts: ProgramFacts, times: OutputTimes, log: OutputLog) -> Self:
        """Return the order of a program's commits and outputs in one run."""
        generations = [
            (since_start_ns(generation.timestamp_ms, facts.started_ms), generation)
            for generation in generations_on_disk(case, case.plan.group)
        ]
        commits = {p: of for p, of in (facts.commits or {}).items() if of}
        sides = [
            times.around(partition, before, commit)
            for partition, of in commits.items()
            for before, commit in zip([0, *(c.offset for c in of)], of, strict=False)
        ]
        newest = [side for side in sides if side.after and side.newest]
        return cls(
            ahead=sum(side.after and not side.before for side in sides),
            amid=sum(side.after and side.before for side in sides),
            behind=sum(side.before and not side.after for side in sides),
            newest=len(newest),
            late_ns=max((side.late_ns for side in newest), default=0),
            interval_s=interval_s(_gaps_s(facts, generations)),
            generations=generations,
            in_transactions=log.in_transactions,
            fenced=fenced_alive(case, facts, log),
            aborted=[
                since_start_ns(transaction.end_ms, facts.started_ms)
                for transaction in program_transactions(case, log)
                if transaction.end not in {COMMITTED, OPEN}
            ],
            busy_s=_busy_s(facts),
            reversals=sum(_reversals(of, generations) for of in commits.values()),
        )

    @property
    def never_ahead(self) -> bool:
        """True if every commit came after the outputs of all inputs before its position."""
        return self.behind >= _ENOUGH_COMMITS and not self.ahead and not self.amid

    @property
    def awaits_outputs(self) -> bool:
        """True if nearly every commit came after the outputs of all inputs before its position.

        A broker may still append an output after the client has stopped its retries and committed.
        """
        early = self.ahead + self.amid
        return self.behind >= _ENOUGH_COMMITS and early <= _FEW * self.behind

    @property
    def commits_newest(self) -> bool:
        """True if nearly all commits that are not ``behind`` are ``newest``.

        A timer commits before the output of the last input as often as after it.
        """
        early = self.ahead + self.amid
        return self.newest >= _ENOUGH_COMMITS and self.newest >= _STEADY * early

    @property
    def commits_in_two_places(self) -> bool:
        """True if positions often went back, as if two parts of the program committed positions."""
        return self.reversals >= _ENOUGH_COMMITS

    @property
    def works_long(self) -> bool:
        """True if the program ran long enough for an automatic commit at the default interval."""
        return self.busy_s >= _LONG_S

    @property
    def automatic(self) -> bool:
        """True if the program commits on a timer, also while it processes records."""
        steady = self.interval_s is not None and self.amid + self.behind >= _NOT_ONE
        return steady and self.amid + self.ahead >= _NOT_ONE


def interval_s(gaps_s: Sequence[float]) -> float | None:
    """Return the interval, in seconds, that divides nearly all gaps; None if there is none.

    A timer skips a commit if the position has not changed, and it is late on a busy machine. So a
    gap is about a multiple of the interval. The remainder of each division becomes an angle. The
    interval fits if the mean cosine of the angles is at least ``_ALIKE``, and if this is unlikely
    by chance: the V test of circular statistics (E. Batschelet, Circular Statistics in Biology,
    1981).
    """
    gaps = np.array([gap for gap in gaps_s if gap >= _LEAST_GAP_S])
    if not len(gaps):
        return None
    intervals = np.array([np.median(gaps), *gaps])
    turns = gaps / intervals[:, None]
    cosines = np.cos(2 * np.pi * turns)
    cosines[turns < 0.5] = np.minimum(cosines[turns < 0.5], 0)  # noqa: PLR2004 - no multiple is 0
    towards = cosines.mean(axis=1)
    best = towards.argmax()
    chance = erfc(towards[best] * np.sqrt(len(gaps))) / 2
    if towards[best] < _ALIKE or chance * len(intervals) > _BY_CHANCE:
        return None
    near = cosines[best] > 0
    return float(np.median(gaps[near] / turns[best][near].round()))


def fenced_alive(
    case: RunFiles, facts: ProgramFacts, log: OutputLog
) -> list[CoordinatedTransaction]:
    """Return a program's transactions that were fenced although there was no fault.

    At that time all instances were alive. Brokers and connections had no fault, because after a
    fault a producer fences itself to get a new epoch (KIP-360). The program has fewer transactional
    ids than instances.
    """
    transactions = program_transactions(case, log)
    if len({transaction.name for transaction in transactions}) >= facts.program.instances:
        return []
    return [of for of in transactions if of.end == FENCED and not _disturbed(of, facts)]


def _disturbed(transaction: CoordinatedTransaction, facts: ProgramFacts) -> bool:
    begin_ns = since_start_ns(transaction.begin_ms, facts.started_ms) - _IN_FLIGHT_NS
    end_ns = since_start_ns(transaction.end_ms, facts.started_ms)
    return any(
        event.event not in {"started", "resumed"} and begin_ns <= event.time_ns <= end_ns
        for event in facts.events
    ) or any(
        trouble.time_ns <= end_ns and begin_ns <= trouble.until_ns + _RECOVERY_NS
        for trouble in facts.troubles or ()
    )


def program_transactions(case: RunFiles, log: OutputLog) -> list[CoordinatedTransaction]:
    """Return the transactions of the producers that wrote the program's output."""
    transactions = transactions_on_disk(case)
    return [transaction for transaction in transactions if transaction.producer_id in log.producers]


def _reversals(commits: Sequence[Position], generations: Sequence[tuple[int, Generation]]) -> int:
    begun = np.array([at for at, _ in generations])
    return sum(
        0 < after.offset < before.offset
        and not ((begun > before.time_ns) & (begun <= after.time_ns)).any()
        for before, after in pairwise(commits)
    )


def _busy_s(facts: ProgramFacts) -> float:
    times_ms = np.sort(facts.outputs["timestamp_ms"].drop_null().to_numpy())
    gaps_ms = np.diff(times_ms)
    return float(gaps_ms[gaps_ms <= _CLOSE_MS].sum()) / 1000


def _gaps_s(facts: ProgramFacts, generations: Sequence[tuple[int, Generation]]) -> list[float]:
    """Return the seconds between consecutive commits, without gaps that contain an event.

    An event is the begin, end or pause of an instance, or a fault. The commit timer of a single
    instance starts when the instance gets its partitions. A commit at an instance's clean shutdown
    does not come from the timer.
    """
    assigned = [at for at, of in generations if of.members] if facts.program.instances == 1 else []
    faults = [(trouble.time_ns, trouble.until_ns) for trouble in facts.troubles or ()]
    breaks = [event.time_ns for event in facts.events] + [at for at, _ in generations]
    breaks += [at for fault in faults for at in fault]
    ends = [event.time_ns for event in facts.events if event.event in {"stopped", "closed"}]
    gaps = set[tuple[int, int]]()
    for of_partition in (facts.commits or {}).values():
        times = [commit.time_ns for commit in of_partition if not commit.transactional]
        timed = {at for at in times if not any(at <= end <= at + _CLOSING_NS for end in ends)}
        begins = {*times, *assigned}
        marks = pairwise(sorted([*times, *breaks]))
        gaps |= {(before, after) for before, after in marks if before in begins and after in timed}
    gaps = {gap for gap in gaps if not any(since <= gap[0] < until for since, until in faults)}
    return [(after - before) / 1e9 for before, after in gaps]
