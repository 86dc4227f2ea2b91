"""The property that a smaller plan must keep: the verdict, and the kind of the worst anomaly."""

from collections.abc import Sequence
from typing import Self

import msgspec

from highwater.checkers.catalogue import all_kinds, kind
from highwater.checkers.core.anomaly_kinds import Severity
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.runs.verdict import INVALID, UNKNOWN, Verdict

_GRAVITY = {severity: rank for rank, severity in enumerate(Severity)}


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict and the anomalies that a run must have.

    Attributes:
        verdict: valid or invalid.
        kinds: anomaly kinds; a run needs at least one anomaly of each.
    """

    verdict: str
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, verdict: Verdict, kinds: Sequence[str] = ()) -> Self:
        """Return a judged run's verdict and the kind of its worst anomaly.

        Anomalies that break a promise come before all others, then the order of
        ``checkers.catalogue`` decides.

        Args:
            kinds: kinds to use instead; the run must have all of them.

        Raises:
            UsageError: the run has no anomaly, or none of a kind in ``kinds``.
        """
        all_names = all_kinds()
        for name in kinds:
            if name not in all_names:
                raise UsageError(f"no anomaly is called {name!r}", hint=nearest(name, all_names))
        names = [name for name in all_names if verdict.counts.get(name)]
        if verdict.verdict == UNKNOWN or not names:
            raise UsageError(
                f"{verdict.run} has no anomaly to keep: {verdict.headline}",
                hint="Shrink a run in which something was found.",
            )
        if missing := [name for name in kinds if name not in names]:
            raise UsageError(
                f"{verdict.run} has no {' and no '.join(missing)}",
                hint=f"It has {', '.join(names)}.",
            )
        return cls(verdict=verdict.verdict, kinds=tuple(kinds) or (_worst(verdict, names),))

    def reached_by(self, verdict: Verdict) -> bool:
        """Return whether a run has the same verdict, and anomalies of all kinds."""
        return verdict.verdict == self.verdict and all(map(verdict.counts.get, self.kinds))


def _worst(verdict: Verdict, kinds: Sequence[str]) -> str:
    breaking = {anomaly.kind for anomaly in verdict.anomalies if anomaly.breaks}
    candidates = [name for name in kinds if name in breaking] or list(kinds)
    assert verdict.verdict != INVALID or breaking, "what is invalid breaks something"
    return min(candidates, key=lambda name: _GRAVITY[kind(name).severity])
