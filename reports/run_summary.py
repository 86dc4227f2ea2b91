"""A judged run as the printed formats need it."""

from dataclasses import dataclass
from typing import Self

from highwater.checkers.model.report_types import Reconciliation
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, RunStatus
from highwater.harness.runs.verdict import Verdict
from highwater.reports import model_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The plan, verdict and model's explanation of a judged run; ``model`` may be None."""

    run: Run
    plan: Plan
    status: RunStatus
    verdict: Verdict
    model: Reconciliation | None

    @classmethod
    def of(cls, run: Run) -> Self:
        """Read the documents of a judged run."""
        return cls(
            run=run,
            plan=run.plan(),
            status=run.status(),
            verdict=run.verdict(),
            model=model_text.read(run),
        )

    @property
    def what(self) -> str:
        """The faults or the story of the run's plan."""
        return self.plan.happens.replace(",", ", ")
