"""The outcome of a night: its colour, the reasons, and the changes since earlier nights."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final, Literal

from highwater.harness.base.wording import count
from highwater.harness.campaigns.nightly_cells import STATES, CellResult, State, worst
from highwater.harness.releases.release import version_order
from highwater.harness.runs.availability import MEASURES

Colour = Literal["green", "yellow", "red"]
_REASONS: Final[dict[State, str]] = {"bad": "Bad", "missing": "Missing", "unknown": "Unknown"}
_CELLS_LEAST: Final = 3
_SLOWER, _SLOWER_S = 1.5, 1.0
"""A release is slower if its median outage is longer by this factor and by this many seconds."""
EXIT_CODES: Final[dict[Colour, int]] = {"green": 0, "yellow": 3, "red": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class NightChanges:
    """Changes since the last night of each setting. The worst of a night's results counts.

    Attributes:
        new: settings with a bad result tonight, but not before.
        ongoing: settings with a bad result tonight and before.
        resolved: settings with a bad result before, but not tonight.
        waiting: settings with a bad result before that did not run tonight.
    """

    new: list[CellResult]
    ongoing: list[CellResult]
    resolved: list[CellResult]
    waiting: list[CellResult]


def compare(
    history: Iterable[CellResult], tonight: Sequence[CellResult], night: str
) -> NightChanges:
    """Compare the results of ``night`` with those of earlier nights."""
    before = latest(mark for mark in history if mark.night < night)
    now = latest(tonight)
    troubled = sorted((mark for mark in now.values() if mark.troubled), key=_gravity)
    were = {key for key, mark in before.items() if mark.troubled}
    return NightChanges(
        new=[mark for mark in troubled if mark.key not in were],
        ongoing=[mark for mark in troubled if mark.key in were],
        resolved=[mark for key, mark in now.items() if key in were and not mark.troubled],
        waiting=[mark for key, mark in before.items() if key in were and key not in now],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutages:
    """One release's outages of one kind, tonight and in the nights before.

    Attributes:
        measure: the kind of outage, from ``harness.runs.availability.MEASURES``.
        now_s: the median length in tonight's cells.
        before_s: the median over the same settings, each with its median of earlier nights. None if
            no setting ran before.
        cells: number of cells in ``now_s``: tonight's cells that also ran before; all of tonight's
            cells if none ran before.
    """

    kafka: str
    measure: str
    now_s: float
    before_s: float | None
    cells: int

    @property
    def slower(self) -> bool:
        """True if the release's outages are clearly longer than before, in enough cells."""
        if self.before_s is None or self.cells < _CELLS_LEAST:
            return False
        return self.now_s > max(self.before_s * _SLOWER, self.before_s + _SLOWER_S)


def outages(
    history: Iterable[CellResult], tonight: Sequence[CellResult], night: str
) -> list[ReleaseOutages]:
    """Return a value for each release and kind of outage in tonight's cells."""
    earlier = [mark for mark in history if mark.night < night]
    rows = []
    for name, measure in MEASURES.items():
        before: dict[str, list[float]] = defaultdict(list)
        now: dict[str, list[CellResult]] = defaultdict(list)
        for mark in earlier:
            if (seconds := getattr(mark, f"{name}_s")) is not None:
                before[mark.key].append(seconds)
        for mark in tonight:
            if getattr(mark, f"{name}_s") is not None:
                now[mark.kafka].append(mark)
        for kafka, marks in now.items():
            both = [mark for mark in marks if mark.key in before]
            rows.append(
                ReleaseOutages(
                    kafka=kafka,
                    measure=measure,
                    now_s=median(getattr(mark, f"{name}_s") for mark in both or marks),
                    before_s=median(median(before[m.key]) for m in both) if both else None,
                    cells=len(both or marks),
                )
            )
    return sorted(rows, key=lambda row: (version_order(row.kafka), row.measure))


def _gravity(mark: CellResult) -> tuple[int, str]:
    return -STATES.index(mark.state), mark.key


def latest(marks: Iterable[CellResult]) -> dict[str, CellResult]:
    """Return setting (``key``) -> its worst result in the last night in which it ran."""
    last: dict[str, CellResult] = {}
    for mark in marks:
        seen = last.get(mark.key)
        last[mark.key] = worst([seen, mark]) if seen and seen.night == mark.night else mark
    return last


def silent(marks: Iterable[CellResult], names: Iterable[str]) -> list[str]:
    """Return the names of the canaries that lost no record in any cell."""
    canaries = {mark.canary for mark in marks if mark.lost and mark.verdict != "unknown"}
    return [name for name in names if name not in canaries]


def colour(marks: Sequence[CellResult], canaries: Iterable[str]) -> Colour:
    """Return a night's colour.

    Red: there are no cells, a cell is bad or missing, or a canary lost no record. Yellow: a result
    is unknown. Green: all other nights.
    """
    states = {mark.state for mark in marks}
    if not marks or states & {"bad", "missing"} or silent(marks, canaries):
        return "red"
    return "yellow" if "unknown" in states else "green"


@dataclass(frozen=True, kw_only=True)
class NightOutcome:
    """A judged night.

    Attributes:
        history: results of earlier nights and of this night, oldest first.
        canaries: names of the canaries that must lose records.
        problems: sentences about results that could not be read. Any problem makes the night red.
        notes: sentences that do not change the colour.
    """

    night: str
    marks: Sequence[CellResult]
    history: Sequence[CellResult]
    canaries: Sequence[str]
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()

    @cached_property
    def colour(self) -> Colour:
        """The colour of the night."""
        return "red" if self.problems else colour(self.marks, self.canaries)

    @cached_property
    def changes(self) -> NightChanges:
        """The changes since earlier nights."""
        return compare(self.history, self.marks, self.night)

    @cached_property
    def outages(self) -> list[ReleaseOutages]:
        """The outages of every release, tonight and in earlier nights."""
        return outages(self.history, self.marks, self.night)

    @property
    def states(self) -> Counter[str]:
        """Number of cells by state."""
        return Counter(mark.state for mark in self.marks)

    @property
    def headline(self) -> str:
        """A sentence with the numbers of cells, releases and cells that are not good."""
        good, everything = self.states["good"], len(self.marks)
        kafkas = len({mark.kafka for mark in self.marks})
        where = f"{count(everything, 'cell')} on {count(kafkas, 'release')}"
        if not everything:
            return "There are no results at all."
        if good == everything:
            return f"All {where} ended as expected."
        return f"{everything - good:,} of {where} did not end as expected."

    @property
    def counts(self) -> str:
        """The number of cells by state, as text: ``40 good, 0 unknown, 1 missing, 0 bad``."""
        return ", ".join(f"{self.states[state]:,} {state}" for state in STATES)

    def reasons(self) -> list[str]:
        """Return the reasons why the night is not green, as sentences, worst first."""
        problems = [
            f"The canary {canary} must lose records, but none of its cells lost a record."
            for canary in silent(self.marks, self.canaries)
        ]
        for state, word in _REASONS.items():
            cells = [mark for mark in self.marks if mark.state == state]
            whys = Counter(mark.why for mark in cells).most_common()
            if cells:
                sentence = "; ".join(f"{number:,} {why}" for why, number in whys)
                problems.append(f"{word}: {sentence}.")
        return [*problems, *self.problems]

    def nights(self) -> list[tuple[str, Colour, Counter[str]]]:
        """Return each night's date, its colour and its number of cells by state, oldest first."""
        groups: dict[str, list[CellResult]] = {}
        for mark in self.history:
            groups.setdefault(mark.night, []).append(mark)
        return [
            (
                night,
                colour(marks, {mark.canary for mark in marks if mark.canary}),
                Counter(mark.state for mark in marks),
            )
            for night, marks in groups.items()
        ]
