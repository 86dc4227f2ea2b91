"""Measure how fast a browser shows a report: ``python -m benchmarks.reports``.

The pages are runs of 100,000 operations with 1, 100 and 10,000 lost records, a matrix of every
release, and the trend of two weeks. Each page is written once, and opened nine times by a new
Chromium context without a network. The benchmark measures the time to the first contentful paint
and to the load event.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from playwright.sync_api import Browser

from highwater.campaigns.matrix_run import write_matrix_page
from highwater.harness.runs.store import Run
from highwater.reports.pages import trend
from highwater.reports.pages.run import write
from tests.browser.chromium import chromium, opened
from tests.browser.samples import big
from tests.browser.stories import lost_anomaly
from tests.support.matrices import judged
from tests.support.nightly_data import two_weeks

TIMES: Final = 9
TARGET_MS: Final = 1000.0
_TIMES: Final = """() => {
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return [paint?.startTime ?? 0, performance.getEntriesByType('navigation')[0].loadEventEnd];
}"""
_BOTH: Final = "() => performance.getEntriesByName('first-contentful-paint').length > 0"


class Opening(NamedTuple):
    """Milliseconds from the navigation to the first contentful paint and to the load event."""

    painted: float
    loaded: float


def run_of(store: Path, anomalies: int) -> Run:
    """Return a run of 100,000 operations with this many lost records."""
    made = big(name=f"20261121T050400-0.10.2.2-kill-{anomalies}")
    lost = tuple(
        lost_anomaly(offset=9 * n, value=f"p{9 * n % 3}-{9 * n}") for n in range(anomalies)
    )
    made.verdict = msgspec.structs.replace(
        made.verdict, anomalies=lost, counts={"lost-write": anomalies}
    )
    return made.write(store)


def opening(browser: Browser, page: Path) -> Opening:
    """Open a page once."""
    with opened(browser, page, width=1280, scripts=True) as (view, _):
        view.wait_for_function(_BOTH)
        return Opening(*view.evaluate(_TIMES))


def pages(store: Path) -> Iterator[tuple[str, Path, float]]:
    """Yield each page: its name, its path, and the seconds in which it was written."""
    for anomalies in (1, 100, 10_000):
        run = run_of(store, anomalies)
        began = time.perf_counter()
        page = write(run)
        yield f"a run with {anomalies:,} anomalies", page, time.perf_counter() - began
    folder, nights = judged(store / "matrix"), two_weeks(store / "nights")
    began = time.perf_counter()
    page = write_matrix_page(folder)
    yield "a matrix of every release", page, time.perf_counter() - began
    began = time.perf_counter()
    page = trend.write(nights, store / "trend.html")
    yield "two weeks of nights", page, time.perf_counter() - began


def main() -> None:
    """Write and open each page, and print the times."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as name, chromium() as browser:
        for what, page, made in pages(Path(name)):
            found = [opening(browser, page) for _ in range(TIMES)]
            painted, loaded = (statistics.median(column) for column in zip(*found, strict=True))
            all_loaded = sorted(one.loaded for one in found)
            print(
                f"{what}: {page.stat().st_size:,} bytes, written in {made:.2f} s; painted after"
                f" {painted:.0f} ms, loaded after {loaded:.0f} ms (medians of {TIMES}, from"
                f" {all_loaded[0]:.0f} to {all_loaded[-1]:.0f} ms),"
                f" {'within' if loaded < TARGET_MS else 'OVER'} {TARGET_MS:.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
