"""The page of many judged runs: a row for each setting, a column for each release."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from highwater.harness.base.wording import count
from highwater.harness.campaigns.matrix_cells import (
    Matrix,
    MatrixRow,
    MatrixSetting,
    SkippedCombination,
)
from highwater.harness.releases.release import version_order
from highwater.harness.runs.verdict import INVALID, LOSSY, UNKNOWN, VALID
from highwater.reports.html import render, save
from highwater.reports.model_text import COLOURS, GOOD, WORDS
from highwater.reports.pages.matrix_changes import MatrixChanges, changes

_NAMED_MAX: Final = 4
"""Maximum number of skipped combinations that are named with one reason; the rest is only
counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInCell:
    """One run in its cell of the matrix.

    Attributes:
        notes: remarks of one or two words.
        predicted: a text about the run's agreement with the prediction and the model; empty without
            a prediction.
        odd: colour of ``predicted`` if the run does not agree; else empty.
    """

    row: MatrixRow
    link: str
    notes: tuple[str, ...]
    predicted: str
    odd: str

    @classmethod
    def of(cls, row: MatrixRow) -> "RunInCell":
        """Return a run as the page shows it in a cell."""
        notes = [f"{row.divergent:,} forked"] if row.divergent else []
        notes += [f"{row.unseen:,} unseen"] if row.unseen and row.counted else []
        notes += [row.others] if row.others else []
        notes += ["as allowed"] if row.word == LOSSY else []
        predicted, odd = _predicted(row)
        return cls(
            row=row,
            link=quote(row.report),
            notes=tuple(notes),
            predicted=predicted,
            odd=odd,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixLine:
    """A row of the matrix: one cell for each release, with one run for each seed."""

    name: str
    terms: str
    cells: tuple[tuple[RunInCell, ...], ...]


def write(
    rows: Sequence[MatrixRow],
    path: Path,
    *,
    matrix: Matrix | None = None,
    earlier: Iterable[tuple[str, Sequence[MatrixRow]]] = (),
) -> Path:
    """Write the page of judged runs, with a link to the report of each run.

    Args:
        matrix: the plan of the matrix; the page lists its skipped combinations.
        earlier: names and rows of earlier matrices, the latest first. The page shows changes since
            the latest matrix that has a setting in common with ``rows``.
    """
    skipped = matrix.skipped if matrix else ()
    kafkas = sorted({row.kafka for row in (*rows, *skipped)}, key=version_order)
    html = render(
        "matrix.html.j2",
        changes=_changes(rows, earlier),
        kafkas=kafkas,
        lines=_lines(rows, kafkas),
        shown=[RunInCell.of(row) for row in rows],
        headline=headline(rows),
        sums=sums(rows, matrix),
        worst=worst(row.word for row in rows),
        failures=[row for row in rows if row.problem],
        missing=len(matrix.cells) - len(rows) if matrix else 0,
        skipped=_reasons(skipped),
        terms=lambda row: _terms(row, driver=True),
        odd=lambda row: _predicted(row)[0] if _predicted(row)[1] else "",
        predicts=any(row.as_predicted is not None for row in rows),
        explains=any(row.model is not None for row in rows),
    )
    return save(path, html)


def _changes(
    rows: Sequence[MatrixRow], earlier: Iterable[tuple[str, Sequence[MatrixRow]]]
) -> MatrixChanges | None:
    return next(filter(None, (changes(name, before, rows) for name, before in earlier)), None)


def headline(rows: Sequence[MatrixRow]) -> str:
    """Return the most important result as one sentence, with counts such as ``2 of 5``."""
    promised = [row for row in rows if row.acks == "all" and not row.unclean]
    judged = {row.kafka for row in promised if row.verdict != UNKNOWN}
    losers = {row.kafka for row in promised if row.verdict != UNKNOWN and row.lost}
    if len(judged) > 1:
        lose = "loses" if len(losers) == 1 else "lose"
        return (
            f"{len(losers)} of {len(judged)} Kafka releases {lose} records acknowledged with"
            " acks=all under clean elections."
        )
    return f"{_broken(rows)}."


def _broken(rows: Sequence[MatrixRow]) -> str:
    broken = sum(row.verdict == INVALID for row in rows)
    return f"{broken} of {count(len(rows), 'run')} broke a promise"


def sums(rows: Sequence[MatrixRow], matrix: Matrix | None) -> list[str]:
    """Return short texts with totals of all runs; the headline's text is left out."""
    lost = sum(row.lost for row in rows if row.counted)
    acknowledged = sum(row.acknowledged for row in rows if row.counted)
    verdicts = Counter(row.verdict for row in rows)
    predictions = [row.as_predicted for row in rows if row.as_predicted is not None]
    words = [
        *([] if headline(rows) == f"{_broken(rows)}." else [_broken(rows)]),
        f"{lost:,} of {count(acknowledged, 'acknowledged record')} {_is(lost)} lost",
    ]
    if verdicts[UNKNOWN]:
        words.append(f"{count(verdicts[UNKNOWN], 'run')} could not be judged")
    if predictions:
        words.append(
            f"{sum(predictions)} of {count(len(predictions), 'story', 'stories')}"
            " ended as predicted"
        )
    if models := [row.model for row in rows if row.model is not None]:
        understood = sum(word in GOOD for word in models)
        words.append(f"the model explains {understood} of {count(len(models), 'run')}")
    if matrix and matrix.seconds:
        words.append(f"took {matrix.seconds / 60:.1f} minutes")
    return words


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of the verdicts: invalid, unknown, valid with losses, valid."""
    words = set(verdicts)
    return next((word for word in (INVALID, UNKNOWN, LOSSY) if word in words), VALID)


def _lines(rows: Sequence[MatrixRow], kafkas: Sequence[str]) -> list[MatrixLine]:
    groups: dict[tuple[object, ...], list[MatrixRow]] = {}
    for row in rows:
        groups.setdefault(row.line, []).append(row)
    drivers = len({row.machinery for row in rows}) > 1
    return [
        MatrixLine(
            name=group[0].happened,
            terms=_terms(group[0], driver=drivers),
            cells=tuple(
                tuple(RunInCell.of(row) for row in group if row.kafka == kafka) for kafka in kafkas
            ),
        )
        for group in groups.values()
    ]


def _predicted(row: MatrixRow) -> tuple[str, str]:
    """Return a text about a run's agreement with its prediction and the model, and its colour."""
    if row.verdict == UNKNOWN:
        return "not judged", UNKNOWN
    if row.model is not None and row.model not in GOOD:
        return WORDS[row.model], COLOURS[row.model]
    if row.as_predicted is None:
        return WORDS[row.model] if row.model else "", ""
    return ("predicted", "") if row.as_predicted else ("not predicted", INVALID)


def _terms(setting: MatrixSetting, *, driver: bool) -> str:
    """Return a short text about the settings of a matrix row."""
    words = [f"acks={setting.acks}", f"min.isr {setting.min_isr}"]
    words += ["unclean elections"] if setting.unclean else []
    words += setting.machinery if driver else []
    return ", ".join(words)


def _reasons(skipped: Sequence[SkippedCombination]) -> list[tuple[str, int, str]]:
    """Return (reason, number of combinations, names of the first ones) for each reason of skips."""
    combinations: dict[str, list[SkippedCombination]] = {}
    for skipped_one in skipped:
        combinations.setdefault(skipped_one.reason, []).append(skipped_one)
    return [
        (
            f"{reason[:1].upper()}{reason[1:]}",
            len(group),
            "; ".join(
                f"{skipped_one.kafka} {skipped_one.happened} {_terms(skipped_one, driver=True)}"
                for skipped_one in group[:_NAMED_MAX]
            ),
        )
        for reason, group in combinations.items()
    ]


def _is(number: int) -> str:
    return "is" if number == 1 else "are"
