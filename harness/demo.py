"""The demo: both stories on an old and a modern Kafka, and whether each went as predicted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from clusters.versions import release
from harness.console import coloured, table
from harness.plan import Plan
from nemesis.stories import STORIES, find_story

if TYPE_CHECKING:
    from harness.api import Judged


def demo_plans(kafkas: Sequence[str]) -> list[Plan]:
    """Every story on every release named.

    The slowest boots come first, so that runs beside each other end at about the same time.

    Raises:
        UsageError: an unknown release.
    """
    releases = sorted((release(name) for name in kafkas), key=lambda one: one.coordination)
    return [story.plan(one.name) for story in STORIES.values() for one in releases]


def as_predicted(judged: "Judged") -> bool:
    """Whether exactly what the release's rules give up was lost and forked, and nothing else."""
    plan = judged.run.plan()
    predicted = find_story(plan.story or "").predict(release(plan.kafka))
    anomalies = judged.verdict.anomalies
    lost = {one.value for one in anomalies if one.kind == "lost-write"}
    forked = {one.offset for one in anomalies if one.kind == "divergence"}
    return lost == predicted.lost and forked == predicted.forked


def demo_table(judged: "Sequence[Judged]") -> Table:
    """A row a run, in the order of releases."""
    rows = [
        [
            one.verdict.kafka,
            one.run.plan().story or "",
            f"{one.verdict.ledger.lost} of {one.verdict.ledger.acknowledged}",
            str(one.verdict.counts.get("divergence", 0)),
            coloured(one.verdict.verdict),
            "yes" if as_predicted(one) else "NO",
        ]
        for one in sorted(judged, key=lambda one: one.verdict.kafka)
    ]
    return table(
        "acks=all, min.insync.replicas=1, clean elections, one fault schedule for all",
        ["Kafka", "story", "lost / acked", "forked offsets", "verdict", "as predicted"],
        rows,
    )
