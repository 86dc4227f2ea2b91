"""Find changes from one matrix to the next: settings whose outcome differs.

Seeds and losses of random schedules differ from night to night. So only the worst outcome of each
setting is compared: its verdict, whether records were lost or replicas differ, and the model's
status.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from highwater.harness.campaigns.matrix_cells import MatrixRow
from highwater.harness.runs.verdict import INVALID, UNKNOWN, VALID
from highwater.reports.model_text import GOOD

Word = Literal["worse", "better"]

_RANKS: Final = (VALID, UNKNOWN, INVALID)
"""Verdicts from best to worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting on a release, with the runs of its worst outcome before and now."""

    word: Word
    before: MatrixRow
    now: MatrixRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixChanges:
    """The changes from an earlier matrix to a later matrix.

    Attributes:
        since: the earlier matrix's name.
        changed: settings with a different outcome, worse outcomes first.
        same: number of settings with the same outcome.
        new: number of settings that only the later matrix has.
        gone: number of settings that only the earlier matrix has.
    """

    since: str
    changed: tuple[Change, ...]
    same: int
    new: int
    gone: int


def changes(
    since: str, earlier: Iterable[MatrixRow], rows: Iterable[MatrixRow]
) -> MatrixChanges | None:
    """Compare two matrices; return None if they have no setting in common."""
    before, now = _worst(earlier), _worst(rows)
    both = [key for key in now if key in before]
    if not both:
        return None
    pairs = [(before[key], now[key]) for key in both]
    changed = (
        *(Change(word="worse", before=a, now=b) for a, b in pairs if _gravity(b) > _gravity(a)),
        *(Change(word="better", before=a, now=b) for a, b in pairs if _gravity(b) < _gravity(a)),
    )
    return MatrixChanges(
        since=since,
        changed=changed,
        same=len(both) - len(changed),
        new=len(now) - len(both),
        gone=len(before) - len(both),
    )


def _worst(rows: Iterable[MatrixRow]) -> dict[tuple[object, ...], MatrixRow]:
    """Return, for each setting, the run with the worst outcome over all seeds."""
    worst: dict[tuple[object, ...], MatrixRow] = {}
    for row in rows:
        key = (*row.line, row.kafka)
        seen = worst.get(key)
        worst[key] = row if seen is None or _gravity(row) > _gravity(seen) else seen
    return worst


def _gravity(row: MatrixRow) -> tuple[int, bool, bool, bool]:
    """Return the sort key of a run's outcome.

    A worse outcome has a greater key; equal outcomes have equal keys.
    """
    return _RANKS.index(row.verdict), _strange(row), bool(row.divergent), bool(row.lost)


def _strange(row: MatrixRow) -> bool:
    """Return whether a run's outcome contradicts the prediction or the model."""
    return row.as_predicted is False or (row.model is not None and row.model not in GOOD)
