"""The demo: both stories on an old and a modern Kafka, and whether each went as predicted."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from highwater.clusters.releases.catalogue import release
from highwater.console import coloured, modelled, table
from highwater.harness.base.errors import UsageError
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.harness.runs.plan import Plan
from highwater.nemesis.stories.registry import STORIES
from highwater.reports.model_text import GOOD
from highwater.reports.pages import comparison
from highwater.runtime.prediction_check import as_predicted

if TYPE_CHECKING:
    from rich.text import Text

    from highwater.api import JudgedRun


TOLD: Final = ("loss", "divergence")
"""The stories that tell the releases apart; the others lose data on every one of them."""


def demo_plans(kafkas: Sequence[str]) -> list[Plan]:
    """Both stories on every release named.

    The slowest boots come first, so that runs beside each other end at about the same time.

    Raises:
        UsageError: an unknown release.
    """
    releases = sorted((release(name) for name in kafkas), key=lambda one: one.coordination)
    return [STORIES[name].plan(kafka.name) for name in TOLD for kafka in releases]


def exit_code(judged: "Sequence[JudgedRun]") -> int:
    """0 when every run ended as predicted and the model explains all of it; 3 when one is unknown.

    Everything else is 1: more or less was lost, or something happened that no rule explains.
    """
    statuses = [one.model.status if one.model else "unknown" for one in judged]
    if "unknown" in statuses or any(one.verdict.verdict == "unknown" for one in judged):
        return UNKNOWN
    foretold = all(as_predicted(one.run, one.verdict) for one in judged)
    return OK if foretold and GOOD.issuperset(statuses) else BROKEN


def compared(judged: "Sequence[JudgedRun]", store: Path) -> list[Path]:
    """Pages that put each story's oldest and newest release side by side, step by step.

    A story that was not played to its end on both has none.
    """
    paths = []
    for story in TOLD:
        runs = [one.run for one in judged if one.run.plan().story == story]
        runs.sort(key=lambda run: release(run.plan().kafka).number)
        with contextlib.suppress(UsageError):
            if len(runs) > 1:
                target = store / f"demo-{story}.html"
                paths.append(comparison.write(runs[0], runs[-1], target))
    return paths


def demo_table(judged: "Sequence[JudgedRun]") -> Table:
    """A row a run, in the order of releases."""
    rows: list[list[str | Text]] = [
        [
            one.verdict.kafka,
            one.run.plan().story or "",
            f"{one.verdict.ledger.lost} of {one.verdict.ledger.acknowledged}"
            if one.verdict.account == "whole"
            else "not known",
            str(one.verdict.counts.get("divergence", 0)),
            coloured(one.verdict.verdict),
            modelled(one),
        ]
        for one in sorted(judged, key=lambda one: one.verdict.kafka)
    ]
    return table(
        "acks=all, min.insync.replicas=1, clean elections, one fault schedule for all",
        ["Kafka", "story", "lost / acked", "forked offsets", "verdict", "model"],
        rows,
    )
