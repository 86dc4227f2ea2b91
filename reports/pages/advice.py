"""The page of ``highwater advise``: a cluster's hazards, topic by topic, with their fixes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.checkers.hazards.evaluate import ORDER, Advice, Status, headline, worst
from highwater.harness.releases.cluster_facts import ClusterFacts
from highwater.reports.html import render, save

COLOURS: Final[dict[Status, str]] = {
    "can lose": "invalid",
    "cannot tell": "unknown",
    "guarded": "valid",
    "not affected": "valid",
}


def write(cluster: ClusterFacts, every: Sequence[Advice], lines: Sequence[str], path: Path) -> Path:
    """Write the page and return its path.

    Args:
        lines: sentences about the cluster's settings and topics.
    """
    html = render(
        "advice.html.j2",
        worst=worst(every),
        headline=headline(every),
        colours=COLOURS,
        counts=[(status, [a.status for a in every].count(status)) for status in ORDER],
        lines=lines,
        unseen=cluster.unseen,
        losing=[advice for advice in every if advice.status == "can lose"],
        others=[advice for advice in every if advice.status != "can lose"],
    )
    return save(path, html)
