"""The outcome of a night: its colour, the reasons, and the changes since earlier nights."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from highwater.harness.base.wording import count
from highwater.harness.campaigns.nightly_cells import STATES, CellResult, State, worst

Colour = Literal["green", "yellow", "red"]
_REASONS: Final[dict[State, str]] = {"bad": "Bad", "missing": "Missing", "unknown": "Unknown"}
EXIT_CODES: Final[dict[Colour, int]] = {"green": 0, "yellow": 3, "red": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class NightChanges:
    """The settings whose worst result changed since their previous run.

    Attributes:
        new: settings with a bad result now, but not before.
        ongoing: settings with a bad result now and before.
        resolved: settings with a bad result before, but not now.
        waiting: settings with a bad result before that did not run this night.
    """

    new: list[CellResult]
    ongoing: list[CellResult]
    resolved: list[CellResult]
    waiting: list[CellResult]


def compare(
    history: Iterable[CellResult], tonight: Sequence[CellResult], night: str
) -> NightChanges:
    """Return the changes from the earlier nights to ``night``."""
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


def _gravity(mark: CellResult) -> tuple[int, str]:
    return -STATES.index(mark.state), mark.key


def latest(marks: Iterable[CellResult]) -> dict[str, CellResult]:
    """Return the worst result of every setting in the last night in which it ran."""
    last: dict[str, CellResult] = {}
    for mark in marks:
        seen = last.get(mark.key)
        last[mark.key] = worst([seen, mark]) if seen and seen.night == mark.night else mark
    return last


def silent(marks: Iterable[CellResult], names: Iterable[str]) -> list[str]:
    """Return the canaries that had no loss in any cell."""
    canaries = {mark.canary for mark in marks if mark.lost and mark.verdict != "unknown"}
    return [name for name in names if name not in canaries]


def colour(marks: Sequence[CellResult], canaries: Iterable[str]) -> Colour:
    """Return red without cells, for bad or missing cells or a silent canary; yellow for unknown."""
    states = {mark.state for mark in marks}
    if not marks or states & {"bad", "missing"} or silent(marks, canaries):
        return "red"
    return "yellow" if "unknown" in states else "green"


@dataclass(frozen=True, kw_only=True)
class NightOutcome:
    """A judged night.

    Attributes:
        history: marks of earlier nights and of this night, oldest first.
        canaries: names of the canaries that must lose records.
        problems: sentences about results that could not be read; any problem makes the night red.
        notes: sentences about other facts.
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
        """The changes since the nights before: new, ongoing, resolved, waiting."""
        return compare(self.history, self.marks, self.night)

    @property
    def states(self) -> Counter[str]:
        """Number of cells by state."""
        return Counter(mark.state for mark in self.marks)

    @property
    def headline(self) -> str:
        """The night in one sentence, with the total numbers of cells and releases."""
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
        """The number of cells by state, as text."""
        return ", ".join(f"{self.states[state]:,} {state}" for state in STATES)

    def reasons(self) -> list[str]:
        """Return the reasons why the night is not green, as sentences, worst first."""
        problems = [
            f"No cell of the canary {canary} lost a record."
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
        """Return each night's date, colour and number of cells by state, oldest first."""
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
