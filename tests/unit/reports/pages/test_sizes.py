"""However much a run found, its page is below a megabyte and says what it leaves out.

It is also the same each time it is written.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from highwater.harness.runs.verdict import Anomaly
from highwater.reports.pages.run import LISTED_MAX, STORIES_MAX, page
from tests.browser.sample import Sample
from tests.browser.samples import big, write_all
from tests.browser.stories import lost_anomaly

pytestmark = pytest.mark.slow
MOST: Final = 1_000_000
"""Bytes of a page."""


def with_losses(count: int, *, records: int = 2_000) -> Sample:
    """A run with so many lost records, no two of them neighbours, of which the verdict tells fifty.

    That is how many of a kind the judge details; the others it counts.
    """
    told = tuple(_lost(number) for number in range(min(count, 50)))
    return big(records=records).judged(anomalies=told, counts={"lost-write": count})


def _lost(number: int) -> Anomaly:
    offset = 7 * number
    return lost_anomaly(offset=offset, value=f"p{offset % 3}-{offset}")


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_a_page_counts_what_it_does_not_tell(count: int, tmp_path: Path) -> None:
    html = page(with_losses(count).write(tmp_path))
    told = min(count, 50)
    assert len(html.encode()) < MOST
    assert html.count('<article class="record') == min(told, STORIES_MAX)
    assert html.count('id="lost-write-events-0-0"') == 1
    more = count - told
    assert (f"{more:,} more findings are in analysis/anomalies.parquet" in html) == bool(more)
    assert ("Further findings" in html) == (told > STORIES_MAX)


def test_a_verdict_that_tells_ten_thousand_is_cut_too(tmp_path: Path) -> None:
    """The judge tells fewer; a page does not depend on it."""
    anomalies = tuple(_lost(number) for number in range(10_000))
    made = with_losses(10_000).judged(anomalies=anomalies)
    html = page(made.write(tmp_path))
    assert len(html.encode()) < MOST
    more = 10_000 - STORIES_MAX - LISTED_MAX
    assert f"{more:,} more findings are in analysis/anomalies.parquet" in html


def test_a_page_is_the_same_whenever_and_wherever_it_is_written(tmp_path: Path) -> None:
    """Two processes whose sets and dictionaries of words are in different orders."""
    runs = write_all(tmp_path, ["loss", "divergence", "cut-short"])
    script = (
        "import sys, hashlib; from pathlib import Path;"
        "from highwater.harness.runs.store import Run;"
        "from highwater.reports.pages.run import page;"
        "from highwater.reports.pages import comparison;"
        "runs = [Run(Path(name)) for name in sys.argv[1:]];"
        "pages = [*map(page, runs), comparison.page(runs[0], runs[1])];"
        "print([hashlib.sha256(one.encode()).hexdigest() for one in pages])"
    )
    names = [str(run.path) for run in runs.values()]
    told = {
        subprocess.run(
            [sys.executable, "-c", script, *names],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for seed in ("1", "4711")
    }  # fmt: skip
    here = hashlib.sha256(page(runs["loss"]).encode()).hexdigest()
    assert len(told) == 1
    assert here in told.pop()
