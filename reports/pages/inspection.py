"""The page of ``highwater inspect``: every partition's replicas, and what differs between them."""

from collections import Counter
from pathlib import Path
from typing import Final

from highwater.checkers.inspection.report_types import InspectedPartition, Inspection, Verdict
from highwater.harness.base.wording import count
from highwater.reports.html import render, save

COLOURS: Final[dict[Verdict, str]] = {
    "agree": "valid",
    "lag": "valid",
    "fork": "invalid",
    "corrupt": "invalid",
    "unknown": "unknown",
}

SAYS: Final[dict[Verdict, str]] = {
    "agree": "all replicas hold the same records",
    "lag": "the same, but some replicas hold fewer",
    "fork": "replicas hold different records at one offset",
    "corrupt": "a log is damaged",
    "unknown": "something could not be read",
}

DETAILED_MAX: Final = 200
"""Partitions that are told in full; the table has all up to ``LISTED_MAX``."""

LISTED_MAX: Final = 2000

_ORDER: Final = ("fork", "corrupt", "unknown", "lag", "agree")


def write(inspection: Inspection, path: Path) -> Path:
    """Write the page and return its path."""
    ordered = sorted(inspection.partitions, key=lambda partition: _ORDER.index(partition.verdict))
    telling = [partition for partition in ordered if _telling(partition)] or ordered[:1]
    html = render(
        "inspect.html.j2",
        found=inspection,
        headline=headline(inspection),
        colours=COLOURS,
        says=SAYS,
        counts=Counter(partition.verdict for partition in inspection.partitions),
        listed=ordered[:LISTED_MAX],
        more=max(0, len(ordered) - LISTED_MAX),
        detailed=telling[:DETAILED_MAX],
        untold=max(0, len(telling) - DETAILED_MAX),
    )
    return save(path, html)


def headline(inspection: Inspection) -> str:
    """Return the most important result as one sentence with denominators."""
    total = count(len(inspection.partitions), "partition")
    verdicts = Counter(partition.verdict for partition in inspection.partitions)
    worst = inspection.verdict
    if worst == "fork":
        offsets = sum(partition.divergent for partition in inspection.partitions)
        return (
            f"Replicas hold different records at {count(offsets, 'offset')}, in"
            f" {verdicts['fork']:,} of {total}."
        )
    if worst == "corrupt":
        return f"Logs of {verdicts['corrupt']:,} of {total} are damaged; no sound records differ."
    if worst == "unknown":
        return f"{verdicts['unknown']:,} of {total} could not be read."
    if worst == "lag":
        return f"Replicas agree; in {verdicts['lag']:,} of {total} some are behind."
    return f"All replicas of {total} agree."


def _telling(partition: InspectedPartition) -> bool:
    """Tell whether a partition has more to show than its line in the table."""
    findings = [
        *partition.findings,
        *(finding for side in partition.replicas for finding in side.findings),
    ]
    return partition.verdict != "agree" or any(finding.severity != "note" for finding in findings)
