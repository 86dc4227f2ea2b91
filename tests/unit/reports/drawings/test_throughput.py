"""What producers saw: drawn of runs with a workload, in words as well, and never of stories."""

import re
from pathlib import Path

import numpy as np
import pytest

from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.reports.drawings.throughput import FEWEST, describe, pace
from highwater.reports.pages.run import page
from highwater.reports.run_evidence import RunObservations, SendTimes, gather
from tests.browser.sample import Sample
from tests.browser.samples import SAMPLES, big

MS = 1_000_000


def felt(slow: slice, *, failed: tuple[int, ...] = ()) -> RunObservations:
    """A send every 10 ms for ten seconds; some take 500 ms instead of 2; a fault from 3 to 5 s."""
    ended = np.arange(1, 1001, dtype=np.int64) * 10 * MS
    took = np.full(1000, 2 * MS, np.int64)
    took[slow] = 500 * MS
    fault = FaultInterval(
        name="pause", broker=2, start_ns=3_000 * MS, end_ns=5_000 * MS, says="paused"
    )
    return RunObservations(
        faults=(fault,),
        pace=SendTimes(ended_ns=ended, took_ns=took, failed_ns=np.array(failed, np.int64)),
        end_ns=10_000 * MS,
    )


def test_latency_within_faults_is_told_apart() -> None:
    said = describe(felt(slice(300, 500)))
    assert said == (
        "1,000 sends acknowledged, after 2 ms (median) to 500 ms (maximum);"
        " median while a fault was open 500 ms; median otherwise 2 ms."
    )


def test_what_failed_is_counted_and_marked() -> None:
    evidence = felt(slice(0, 0), failed=(3_100 * MS, 3_110 * MS, 4_500 * MS))
    assert describe(evidence).endswith("3 sends not acknowledged.")
    drawn = pace(evidence)
    assert drawn is not None
    assert drawn.count('class="refused"') == 2  # two of them in one stretch of time
    assert ">pause 2<" in drawn


def test_the_drawing_does_not_grow_with_the_sends() -> None:
    few = pace(felt(slice(0, 0)))
    evidence = felt(slice(0, 0))
    many = RunObservations(
        pace=SendTimes(
            ended_ns=np.repeat(evidence.pace.ended_ns, 100),
            took_ns=np.repeat(evidence.pace.took_ns, 100),
            failed_ns=evidence.pace.failed_ns,
        ),
        end_ns=evidence.end_ns,
        faults=evidence.faults,
    )
    more = pace(many)
    assert few is not None
    assert more is not None
    assert len(more) < 1.1 * len(few)
    assert not re.search(r"nan|inf", more)


@pytest.mark.parametrize(
    ("sample", "drawn"),
    [(big(records=1000), True), (SAMPLES["loss"](), False), (SAMPLES["cut-short"](), False)],
)
def test_a_story_has_none(tmp_path: Path, sample: Sample, drawn: bool) -> None:
    run = sample.write(tmp_path)
    assert (len(gather(run).pace.ended_ns) >= FEWEST) == drawn
    assert ("What producers saw" in page(run)) == drawn
