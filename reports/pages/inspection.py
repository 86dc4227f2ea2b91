"""The page of ``highwater inspect``: every partition's replicas, and their differences."""

from collections import Counter
from pathlib import Path
from typing import Final

from highwater.checkers.inspection.report_types import WORST_FIRST, Inspection, Verdict
from highwater.harness.base.wording import count
from highwater.reports.html import render, save

COLOURS: Final[dict[Verdict, str]] = {
    "agree": "valid",
    "alone": "unknown",
    "lag": "valid",
    "fork": "invalid",
    "corrupt": "invalid",
    "unknown": "unknown",
}

SAYS: Final[dict[Verdict, str]] = {
    "agree": "all replicas hold the same records",
    "alone": "only one replica was given; it is valid, but was not compared",
    "lag": "all replicas hold the same records, but some replicas hold fewer",
    "fork": "replicas hold different records at one offset",
    "corrupt": "a log is damaged",
    "unknown": "a part is missing, or could not be read",
}

DETAILED_MAX: Final = 200
"""Maximum number of partitions that are shown completely; the table has up to ``LISTED_MAX``."""

LISTED_MAX: Final = 2000


def write(inspection: Inspection, path: Path) -> Path:
    """Write the page and return its path."""
    ordered = sorted(
        inspection.partitions, key=lambda partition: WORST_FIRST.index(partition.verdict)
    )
    telling = [partition for partition in ordered if partition.remarkable] or ordered[:1]
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
    """Return the most important result as one sentence, with counts such as ``2 of 5``."""
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
        return f"Logs of {verdicts['corrupt']:,} of {total} are damaged; no valid records differ."
    if worst == "unknown":
        return f"{verdicts['unknown']:,} of {total} could not be judged."
    return _nothing_wrong(total, verdicts)


def _nothing_wrong(total: str, verdicts: Counter[Verdict]) -> str:
    """Return the headline if no error was found: the numbers of partitions that agree or lag."""
    if set(verdicts) == {"alone"}:
        return f"One replica of {total} was given, and is valid: nothing was compared."
    if not (verdicts["lag"] or verdicts["alone"]):
        return f"All replicas of {total} agree."
    parts = [f"in {verdicts['lag']:,} of {total} some replicas lag"] if verdicts["lag"] else []
    if verdicts["alone"]:
        parts.append(f"for {verdicts['alone']:,} of {total} only one replica was given")
    return f"Replicas agree; {', and '.join(parts)}."
