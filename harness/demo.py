"""The demo: both stories on an old and a modern Kafka, and whether each went as predicted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table

from clusters.versions import release
from harness.console import coloured, table
from harness.expected import as_predicted
from harness.plan import Plan
from nemesis.stories import STORIES

if TYPE_CHECKING:
    from harness.api import Judged

TOLD: Final = ("loss", "divergence")
"""The stories that tell the releases apart; the others lose data on every one of them."""


def demo_plans(kafkas: Sequence[str]) -> list[Plan]:
    """Both stories on every release named.

    The slowest boots come first, so that runs beside each other end at about the same time.

    Raises:
        UsageError: an unknown release.
    """
    releases = sorted((release(name) for name in kafkas), key=lambda one: one.coordination)
    return [STORIES[name].plan(one.name) for name in TOLD for one in releases]


def demo_table(judged: "Sequence[Judged]") -> Table:
    """A row a run, in the order of releases."""
    rows = [
        [
            one.verdict.kafka,
            one.run.plan().story or "",
            f"{one.verdict.ledger.lost} of {one.verdict.ledger.acknowledged}",
            str(one.verdict.counts.get("divergence", 0)),
            coloured(one.verdict.verdict),
            "yes" if as_predicted(one.run, one.verdict) else "NO",
        ]
        for one in sorted(judged, key=lambda one: one.verdict.kafka)
    ]
    return table(
        "acks=all, min.insync.replicas=1, clean elections, one fault schedule for all",
        ["Kafka", "story", "lost / acked", "forked offsets", "verdict", "as predicted"],
        rows,
    )
