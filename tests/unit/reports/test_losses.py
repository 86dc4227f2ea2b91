"""A run that lost records which no guarantee covers is not shown as one that lost nothing."""

import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from highwater.cli.matrix import _cell
from highwater.console import COLOURS
from highwater.harness.campaigns.matrix_cells import MatrixRow
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import LOSSY
from highwater.reports.formats import junit, markdown
from highwater.reports.pages import comparison, matrix, store_index
from highwater.reports.pages.run import write
from highwater.reports.run_summary import RunSummary
from tests.browser.samples import SAMPLES
from tests.support.html_pages import Balance, parsed


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The sample of a loss, as it is judged where nothing promised to keep the record."""
    sample = SAMPLES["loss"]().judged(verdict="valid")
    assert sample.verdict.word == LOSSY
    return sample.write(tmp_path_factory.mktemp("store"))


def row(run: Run) -> MatrixRow:
    return MatrixRow.of(run, run.verdict(), as_predicted=None, home=run.path.parent)


def looks(page: Balance, name: str) -> list[set[str]]:
    """Return the classes of the elements that have a class of this name."""
    every = (set((attributes.get("class") or "").split()) for _, attributes in page.seen)
    return [classes for classes in every if name in classes]


def text(page: Balance) -> str:
    return " ".join(" ".join(page.text).split())


def test_the_page_of_a_run_says_so_in_word_sign_and_colour(lossy: Run) -> None:
    page = parsed(write(lossy))
    assert "lossy" in looks(page, "top")[0]
    assert "lossy" in looks(page, "badge")[0]
    assert f"◐ {LOSSY}" in text(page)
    assert "No promise broken" in text(page)
    assert "Promise kept" not in text(page)


def test_the_index_of_a_store_is_not_green_beside_it(lossy: Run, tmp_path: Path) -> None:
    index = tmp_path / "index.html"
    index.write_text(store_index.page(lossy.path.parent), "utf-8")
    page = parsed(index)
    assert [looks(page, name)[0] & {"valid", "lossy"} for name in ("top", "badge")] == [
        {"lossy"},
        {"lossy"},
    ]
    assert "1 run, and no promise broken; 1 run lost records that nothing promised" in text(page)


def test_a_cell_of_the_matrix_and_its_page_have_the_colour(lossy: Run, tmp_path: Path) -> None:
    valid = SAMPLES["valid"]().write(tmp_path)
    page = parsed(matrix.write([row(lossy), row(valid)], tmp_path / "index.html"))
    assert "lossy" in looks(page, "top")[0]
    cells = [classes & {"valid", "lossy"} for classes in looks(page, "cell")]
    assert cells[-2:] == [{"lossy"}, {"valid"}]
    assert text(page).count(f"◐ {LOSSY}") >= 1


def test_a_cell_of_the_terminal_s_matrix_has_the_colour(lossy: Run) -> None:
    assert COLOURS[LOSSY] in {str(span.style) for span in _cell([row(lossy)]).spans}


def test_a_loss_that_was_not_counted_is_none(lossy: Run) -> None:
    uncounted = msgspec.structs.replace(row(lossy), counted=False)
    assert (uncounted.word, uncounted.losses) == ("valid", "-")


def test_junit_and_markdown_have_the_word(lossy: Run) -> None:
    summary = RunSummary.of(lossy)
    case = ET.fromstring(junit([summary])).find(".//testcase")  # noqa: S314 - our own
    assert case is not None
    assert case.find("failure") is None
    assert (case.findtext("system-out") or "").startswith(f"{LOSSY}: {summary.verdict.headline}")
    assert markdown([summary]).count(f"◐ {LOSSY}") == 2


def test_a_comparison_has_the_word(lossy: Run, tmp_path: Path) -> None:
    page = parsed(comparison.write(lossy, lossy, tmp_path / "both.html"))
    assert [classes & {"valid", "lossy"} for classes in looks(page, "badge")] == [{"lossy"}] * 2
