"""The command ``highwater demo``: compare two stories on an old and a modern Kafka."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from highwater.console import OUTCOME, outcome, table
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.release import version_order
from highwater.harness.runs.plan import Plan
from highwater.nemesis.stories.registry import STORIES
from highwater.reports.model_text import GOOD
from highwater.reports.pages import comparison
from highwater.runtime.prediction_check import as_predicted

if TYPE_CHECKING:
    from rich.text import Text

    from highwater.api import JudgedRun


STORIES_SHOWN: Final = ("loss", "divergence")
"""The two stories of the demo: their outcome differs between old and modern releases."""


def demo_plans(kafkas: Sequence[str]) -> list[Plan]:
    """Return plans of the demo's stories on every named release.

    The releases that start slowest come first, so that parallel runs end at about the same time.
    """
    releases = sorted((release(name) for name in kafkas), key=lambda entry: entry.coordination)
    return [STORIES[name].plan(kafka.name) for name in STORIES_SHOWN for kafka in releases]


def exit_code(judged: "Sequence[JudgedRun]") -> int:
    """Return 3 if a run is unknown, else 0 if all losses are as predicted, else 1.

    The model must also explain the losses: an unexplained loss gives 1.
    """
    statuses = [judged_run.model.status if judged_run.model else "unknown" for judged_run in judged]
    if "unknown" in statuses or any(
        judged_run.verdict.verdict == "unknown" for judged_run in judged
    ):
        return UNKNOWN
    predicted = all(as_predicted(judged_run.run, judged_run.verdict) for judged_run in judged)
    return OK if predicted and GOOD.issuperset(statuses) else BROKEN


def compared(judged: "Sequence[JudgedRun]", store: Path) -> list[Path]:
    """Write pages that compare each story step by step on its oldest and newest release.

    A story that did not run to its end on both releases has no page.
    """
    paths = []
    for story in STORIES_SHOWN:
        runs = [judged_run.run for judged_run in judged if judged_run.run.plan().story == story]
        runs.sort(key=lambda run: release(run.plan().kafka).number)
        with contextlib.suppress(UsageError):
            if len(runs) > 1:
                target = store / f"demo-{story}.html"
                paths.append(comparison.write(runs[0], runs[-1], target))
    return paths


def demo_table(judged: "Sequence[JudgedRun]") -> Table:
    """Return a table with one row per run, in the order of releases."""
    rows: list[list[str | Text]] = [
        [judged_run.verdict.kafka, judged_run.run.plan().story or "", *outcome(judged_run)]
        for judged_run in sorted(judged, key=lambda run: version_order(run.verdict.kafka))
    ]
    return table(
        "acks=all, min.insync.replicas=1, clean elections, the same schedule of faults for "
        "every release",
        ["Kafka", "story", *OUTCOME],
        rows,
    )
