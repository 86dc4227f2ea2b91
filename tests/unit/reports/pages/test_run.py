"""Whole pages: every sample renders to sound, self-contained, escaped HTML of a bounded size."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec
import pytest

from highwater.harness.campaigns.matrix_cells import MatrixRow
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import Anomaly
from highwater.reports.pages import matrix, store_index
from highwater.reports.pages.run import STORIES_MAX, write
from highwater.reports.run_evidence import gather
from tests.browser.sample import environment
from tests.browser.samples import SAMPLES, unfinished, write_all
from tests.browser.stories import lost_anomaly
from tests.histories.controllers import forgotten
from tests.support.html_pages import parsed, words
from tests.support.judged import verdict

SMALL = tuple(name for name in SAMPLES if name != "big")


@cache
def written(run: Run) -> Path:
    """The page of a run that nobody changes: written once for all tests."""
    return write(run)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return write_all(tmp_path_factory.mktemp("store"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_is_balanced_and_below_a_megabyte(name: str, runs: dict[str, Run]) -> None:
    page = written(runs[name])
    assert page == runs[name].report
    assert page.stat().st_size < 1_000_000
    parsed(page)


@pytest.mark.parametrize("name", SMALL)
def test_a_page_asks_for_nothing_and_runs_nothing(name: str, runs: dict[str, Run]) -> None:
    found = parsed(written(runs[name])).seen
    assert {tag for tag, _ in found} & {"script", "img", "iframe", "object", "form"} == set()
    for tag, attributes in found:
        assert not [key for key in attributes if key.startswith("on") or key == "style"]
        if tag in {"link", "a"}:
            assert (attributes["href"] or "").startswith(("data:,", "#"))
    policies = [a["content"] or "" for t, a in found if t == "meta" and "http-equiv" in a]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; style-src 'sha256-")


@pytest.mark.parametrize("name", SMALL)
def test_every_table_has_a_caption_and_every_drawing_a_title(
    name: str, runs: dict[str, Run]
) -> None:
    html = written(runs[name]).read_text("utf-8")
    assert html.count("<table") == html.count("<caption")
    drawings = re.findall(r'<svg[^>]*role="img"[^>]*>(<title[^>]*>[^<]+</title><desc)?', html)
    assert drawings
    assert all(drawings)
    assert re.findall(r"<th(?![^>]*(?:scope|ead))[^>]*>", html) == []


def test_the_loss_page_says_what_was_lost_and_how_to_repeat_it(runs: dict[str, Run]) -> None:
    text = words(written(runs["loss"]))
    for wanted in (
        "1 of 5 acknowledged records is lost",
        "Promise broken",
        "Broker 3 truncates its log",
        "to its own HW at once",
        "highwater run --kafka 0.10.2.2 --acks all --min-isr 1 --story loss --seed 7",
        "127.0.0.13:9092",
    ):
        assert wanted in text


def test_the_divergence_page_marks_the_differing_cell(runs: dict[str, Run]) -> None:
    html = written(runs["divergence"]).read_text("utf-8")
    assert "The replicas hold different records at 1 offset of 5." in html
    assert len(re.findall(r'<td class="odd">', html)) == 1


def test_values_are_escaped_spelled_out_and_cut(runs: dict[str, Run]) -> None:
    html = written(runs["hostile"]).read_text("utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "onerror=alert" not in html.replace("&lt;img src=x onerror=alert(2)&gt;", "")
    assert not [c for c in html if ord(c) < 32 and c not in "\n\t"]
    assert not set("\u202e\u2066\u200f") & set(html)
    assert "\\u202egnp.exe" in html
    assert "x" * 401 not in html
    assert "(10,000 characters)" in html


@pytest.mark.slow
def test_a_big_run_says_what_it_left_out(runs: dict[str, Run]) -> None:
    html = written(runs["big"]).read_text("utf-8")
    assert "The first of 100 neighbouring records" in html
    assert "Further findings" not in html
    assert re.search(r"[\d,]+ offsets not shown", html)


def test_a_cut_short_run_says_so_and_shows_the_rest(tmp_path: Path) -> None:
    run = unfinished(SAMPLES["cut-short"]().write(tmp_path))
    text = words(write(run))
    for wanted in (
        "The run was ended early while it was running.",
        "events/log_lines is missing.",
        "The run had not finished these tables: history/ops (5 rows shown)",
        "No replica of events-0 was copied.",
        "There was no final read.",
    ):
        assert wanted in text
    assert "broker 1" in text


def test_every_file_but_plan_and_verdict_may_be_missing(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    (run.path / "environment.json").unlink()
    (run.path / "status.json").write_bytes(b"{")
    for table in run.path.glob("*/*.parquet"):
        table.unlink()
    text = words(write(run))
    assert "has no environment.json" in text
    assert "status.json is broken" in text
    assert "No partition was observed." in text


def test_a_broken_table_is_said_and_does_not_stop_the_page(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    run.parquet("events/faults").write_bytes(b"PAR1 no")
    assert any("events/faults cannot be read" in each for each in gather(run).missing)
    parsed(write(run))


def rows(runs: Iterable[Run], home: Path, **told: bool | None) -> list[MatrixRow]:
    return [
        MatrixRow.of(run, run.verdict(), as_predicted=told.get(run.verdict().kafka), home=home)
        for run in runs
    ]


def test_a_row_names_the_anomalies_that_are_there(runs: dict[str, Run], tmp_path: Path) -> None:
    counts = {"lost-write": 1, "duplicate": 2, "G1a": 0, "phantom": 1}
    verdict = msgspec.structs.replace(runs["loss"].verdict(), counts=counts)
    row = MatrixRow.of(runs["loss"], verdict, as_predicted=None, home=tmp_path)
    assert row.others == "2 duplicate, 1 phantom"


def test_a_page_of_many_compares_releases_and_links_to_every_report(runs: dict[str, Run]) -> None:
    home = runs["loss"].path.parent
    page = matrix.write(rows(runs.values(), home), home / "index.html")
    balance = parsed(page)
    links = {a["href"] for t, a in balance.seen if t == "a" and a["href"] != "#main"}
    assert links == {f"{run.name}/report.html" for run in runs.values()}
    text = words(page)
    assert "3 of 6 runs broke a promise" in text
    assert "1 run could not be judged" in text
    assert "as allowed" in text
    assert "harness failed while running: Broker 2 did not start again." in text


def test_a_page_of_one_run_needs_no_matrix(tmp_path: Path) -> None:
    run = SAMPLES["valid"]().write(tmp_path)
    page = matrix.write(rows([run], tmp_path / "out"), tmp_path / "out" / "index.html")
    html = page.read_text("utf-8")
    assert "Release by release" not in html
    assert f'href="../{run.name}/report.html"' in html
    assert Store(tmp_path).names() == [run.name]


def test_a_page_tells_coordination_and_truncation_rule(tmp_path: Path) -> None:
    run = SAMPLES["loss"]().write(tmp_path)
    text = words(write(run))
    assert "ZooKeeper" in text
    assert environment().truncation in text


def test_a_finding_has_a_link_that_says_what_and_where(tmp_path: Path) -> None:
    runs = write_all(tmp_path, ("loss", "hostile"))
    links = {
        name: [
            each["id"] or ""
            for tag, each in parsed(write(run)).seen
            if tag == "article" and (each["class"] or "").startswith("record")
        ]
        for name, run in runs.items()
    }
    assert links["loss"] == ["lost-write-events-0-3"]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", each) for each in links["hostile"])


@pytest.mark.parametrize(
    ("name", "more"),
    [("loss", False), pytest.param("big", True, marks=pytest.mark.slow), ("cut-short", True)],
)
def test_a_page_says_how_to_repeat_and_to_shrink_a_run(
    runs: dict[str, Run], name: str, more: bool
) -> None:
    run = runs[name]
    text = written(run).read_text("utf-8")
    assert "highwater run --kafka" in text
    assert (re.search(rf"highwater replay {run.name}(?!/)", text) is not None) == more
    assert (f"highwater replay {run.name}/plan.json" in text) == (name == "loss")
    broken = run.verdict().verdict == "invalid"
    assert (f"highwater shrink {run.name}" in text) == (more and broken)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_ledger_adds_up_as_it_stands_on_the_page(name: str, runs: dict[str, Run]) -> None:
    """Sent is acknowledged, failed and unknown; acknowledged is read, lost and unseen."""
    html = written(runs[name]).read_text("utf-8")
    table = html.split('<table class="ledger">')[1].split("</table>")[0]
    sums = []
    for body in table.split("</tbody>")[:2]:
        numbers = [
            int(each.replace(",", "")) for each in re.findall(r'<td class="num">([\d,]+)<', body)
        ]
        assert len(numbers) == 4
        sums.append((numbers[0], sum(numbers[1:])))
    assert all(whole == parts for whole, parts in sums)


def test_books_that_do_not_balance_are_said_to(tmp_path: Path) -> None:
    ledger = msgspec.structs.replace(SAMPLES["loss"]().verdict.ledger, lost=7)
    html = write(SAMPLES["loss"]().judged(ledger=ledger).write(tmp_path)).read_text("utf-8")
    assert "The books do not balance: acknowledged 5 differs from read 4 + lost 7" in html


def test_every_link_of_the_chain_leads_to_the_step_that_shows_it(runs: dict[str, Run]) -> None:
    balance = parsed(written(runs["loss"]))
    ids = {each["id"] for _, each in balance.seen if "id" in each}
    steps = [a["href"] or "" for t, a in balance.seen if t == "a" and ":" in (a["href"] or "")]
    assert [each.removeprefix("#") in ids for each in steps] == [True] * 3
    assert [each.rpartition(":")[2] for each in steps] == ["1", "4", "5"]
    assert "Truncating log events-0 to offset 3. (kafka.log.Log) drawn at step 4" in words(
        written(runs["loss"])
    )


def test_a_finding_of_no_partition_is_given_none(tmp_path: Path) -> None:
    run = forgotten(tmp_path / "run")
    gone = Anomaly(
        kind="lost-decision",
        topic="events",
        partition=-1,
        offset=None,
        value="topic events was created",
        sentence="A controller announced that topic events was created.",
        breaks=True,
    )
    judged = msgspec.structs.replace(
        verdict("invalid", "2.8.2"), anomalies=(gone,), counts={gone.kind: 1}
    )
    run.write("analysis/verdict.json", judged.to_json())
    text = "".join(parsed(write(run)).text)
    assert "topic events was created" in text
    assert "events--1" not in text
    assert "No replica of" not in text


def test_a_store_with_a_run_that_was_not_judged_is_not_green(tmp_path: Path) -> None:
    run = SAMPLES["valid"]().write(tmp_path)
    assert "1 run, and no promise broken" in store_index.page(tmp_path)
    (run.analysis / "verdict.json").unlink()
    page = store_index.page(tmp_path)
    assert "It is not known whether 1 of 1 run broke a promise" in page
    assert "no promise broken" not in page
    assert 'class="top broad unknown"' in page


def test_records_that_compaction_replaced_have_a_row(tmp_path: Path) -> None:
    ledger = msgspec.structs.replace(SAMPLES["valid"]().verdict.ledger, replaced=4)
    page = write(SAMPLES["valid"]().judged(ledger=ledger).write(tmp_path)).read_text("utf-8")
    assert "replaced: a later record has its key" in page


def test_a_finding_of_no_partition_names_the_topic_alone(tmp_path: Path) -> None:
    told = [lost_anomaly(partition=-1, offset=None, value=f"m{n}") for n in range(STORIES_MAX + 2)]
    sample = SAMPLES["loss"]().judged(anomalies=tuple(told))
    page = write(sample.write(tmp_path)).read_text("utf-8")
    assert "Further findings" in page
    assert '<td class="nowrap">events</td>' in page
