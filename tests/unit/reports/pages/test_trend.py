"""The page of many nights lists settings by the version of their release."""

from highwater.harness.releases.release import version_order
from highwater.harness.runs.nightly_cells import CellResult
from highwater.reports.pages.trend import Sparklines

KAFKAS = ["0.9.0.1", "0.10.2.2", "1.0.2", "2.8.0", "3.9.2", "3.9.2-zk", "4.0.0-rc1", "4.0.0"]


def test_settings_are_listed_by_version() -> None:
    results = [
        CellResult(kafka=kafka, story="loss", night="2026-11-21", state="good")
        for kafka in sorted(KAFKAS)
    ]
    keys = Sparklines(results).keys
    assert [key.partition(" ")[0] for key in keys] == KAFKAS


def test_a_candidate_comes_before_its_release() -> None:
    assert sorted(sorted(KAFKAS), key=version_order) == KAFKAS
