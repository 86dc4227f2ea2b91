"""What changed since the last matrix stands first on the page, and is told for what it is."""

from pathlib import Path

import msgspec

from highwater.campaigns.matrix_run import write_matrix_page
from highwater.harness.campaigns.matrix_cells import Axes, MatrixFolder, MatrixRow
from highwater.reports.pages import trend
from highwater.reports.pages.matrix_changes import changes
from tests.support.html_pages import parsed
from tests.support.matrices import judged
from tests.support.nightly_data import two_weeks

AXES = Axes(
    kafkas=("0.10.2.2", "4.3.1"), stories=("loss", "divergence"), acks=("all", "1"), seeds=(1, 2)
)


def rows(folder: Path) -> list[MatrixRow]:
    """Eight runs of four settings, all as they should be."""
    found = judged(folder, AXES)
    return [
        msgspec.structs.replace(
            row, verdict="valid", as_predicted=True, model="as-predicted", problem=None
        )
        for row in found.rows()
        if row.story == "loss"
    ]


def altered(found: list[MatrixRow], kafka: str, **fields: object) -> list[MatrixRow]:
    first = next(i for i, row in enumerate(found) if row.kafka == kafka)
    return [
        msgspec.structs.replace(row, **fields) if i == first else row for i, row in enumerate(found)
    ]


def test_nothing_changes_where_other_seeds_end_alike(tmp_path: Path) -> None:
    before = rows(tmp_path)
    now = [msgspec.structs.replace(row, seed=row.seed + 10) for row in before]
    found = changes("night", before, now)
    assert found is not None
    assert (found.changed, found.same, found.new, found.gone) == ((), 4, 0, 0)


def test_one_bad_seed_makes_a_setting_worse_and_back_is_better(tmp_path: Path) -> None:
    good = rows(tmp_path)
    bad = altered(good, "4.3.1", verdict="invalid", lost=3)
    worse, better = changes("a", good, bad), changes("b", bad, good)
    assert worse is not None
    assert better is not None
    assert [(one.word, one.now.lost) for one in worse.changed] == [("worse", 3)]
    assert [(one.word, one.before.lost) for one in better.changed] == [("better", 3)]
    assert (worse.same, better.same) == (3, 3)


def test_another_word_of_the_model_is_a_change_although_the_verdict_is_the_same(
    tmp_path: Path,
) -> None:
    found = changes("a", rows(tmp_path), altered(rows(tmp_path), "4.3.1", model="unexplained"))
    assert found is not None
    assert [one.word for one in found.changed] == ["worse"]


def test_settings_that_only_one_has_are_counted_and_strangers_are_not_compared(
    tmp_path: Path,
) -> None:
    everything = rows(tmp_path)
    old = [row for row in everything if row.kafka == "0.10.2.2"]
    new = [row for row in everything if row.kafka == "4.3.1"]
    found = changes("a", old, everything)
    assert found is not None
    assert (found.same, found.new, found.gone) == (2, 2, 0)
    assert changes("a", old, new) is None


def nights(root: Path) -> MatrixFolder:
    """Three matrices in a store: the first is worse, the second foreign, the third is today's."""
    good = rows(root / "model")
    for name, found in (
        ("matrix-1", altered(good, "4.3.1", verdict="invalid", lost=3)),
        ("matrix-2", [msgspec.structs.replace(row, kafka="2.8.2") for row in good]),
        ("matrix-3", good),
        ("matrix-4", altered(good, "0.10.2.2", verdict="unknown")),
    ):
        folder = judged(root / name, AXES)
        folder.write_rows(found)
    (root / "matrix-2b").mkdir()
    (root / "matrix-2b" / "cells.json").write_text("{")
    return MatrixFolder(root / "matrix-3")


def test_the_page_begins_with_what_changed_since_the_last_that_can_be_compared(
    tmp_path: Path,
) -> None:
    folder = nights(tmp_path)
    page = write_matrix_page(folder)
    words = " ".join(" ".join(parsed(page).text).split())
    assert "What changed since matrix-1" in words
    assert "1 setting ended differently, 3 settings ended as before." in words
    assert "better ✕ invalid 3 / 5 lost ✓ valid" in words
    assert words.index("What changed since") < words.index("Release by release")
    first = write_matrix_page(MatrixFolder(tmp_path / "matrix-1")).read_text("utf-8")
    assert "What changed" not in first
    assert page.read_bytes() == write_matrix_page(folder).read_bytes()


def test_the_trend_begins_with_what_is_new(tmp_path: Path) -> None:
    outcome = two_weeks(tmp_path)
    html = trend.write(outcome, tmp_path / "trend.html").read_text("utf-8")
    assert html.index('id="t-New"') < html.index('id="all-nights"')
