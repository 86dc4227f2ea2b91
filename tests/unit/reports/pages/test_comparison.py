"""Two runs side by side: paired by their schedule, and parted where the replicas part."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from highwater.cli.app import app
from highwater.cli.show import home
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.store import Run
from highwater.reports.pages import comparison
from highwater.reports.pages.comparison import ComparedRun
from tests.browser.samples import SAMPLES, write_all


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    names = ("loss", "valid", "divergence", "big", "cut-short")
    return write_all(tmp_path_factory.mktemp("store"), names)


def test_they_part_where_a_log_is_cut_in_one_of_them(runs: dict[str, Run]) -> None:
    html = comparison.page(runs["loss"], runs["valid"])
    assert "Kafka 0.10.2.2 and Kafka 4.3.1 first differ at step " in html
    assert html.count('id="parting"') == 1
    parting = html.split('id="parting"')[1].split("</li>", maxsplit=1)[0]
    assert parting.index("LEO 4 → 3") < parting.index("Kafka 4.3.1")
    assert html.index(runs["loss"].name) < html.index(runs["valid"].name)


def test_either_may_be_the_left_one(runs: dict[str, Run]) -> None:
    html = comparison.page(runs["valid"], runs["loss"])
    parting = html.split('id="parting"')[1].split("</li>", maxsplit=1)[0]
    assert parting.index("Kafka 0.10.2.2") < parting.index("LEO 4 → 3")


def test_a_run_never_parts_from_itself(runs: dict[str, Run]) -> None:
    html = comparison.page(runs["loss"], runs["loss"])
    assert "never differ" in html
    assert "parting" not in html.split("<body>")[1]


def test_a_setting_that_one_run_alone_has_is_a_difference(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    other = write_all(tmp_path, ["loss"])["loss"]
    plan = msgspec.structs.replace(other.plan(), client="java")
    (other.path / "plan.json").write_bytes(plan.to_json())
    html = comparison.page(runs["loss"], other)
    assert "Client" in html
    assert "java" in html


def heading(html: str) -> str:
    return html.split("<h1>")[1].split("</h1>", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "Neither Kafka 4.3.1 nor Kafka 4.3.1 lost anything"),
        ({"verdict": "unknown"}, "Lost records are not known for Kafka 4.3.1"),
        ({"account": "begun"}, "Lost records are not known for Kafka 4.3.1"),
        ({"verdict": "invalid", "counts": {"lost-write": 1}}, "lost anything that has a known"),
        ({"verdict": "invalid", "counts": {"G1a": 1}}, "lost anything that has a known"),
    ],
)
def test_nothing_lost_is_said_of_runs_that_are_known_to_have_lost_nothing(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    calm = SAMPLES["valid"]()
    other = SAMPLES["valid"]().judged(run="other", anomalies=(), **fields)
    html = comparison.page(other.write(tmp_path), calm.write(tmp_path))
    assert words in heading(html)


@pytest.mark.parametrize("blind", [0, 1])
def test_runs_of_which_one_was_not_observed_are_not_said_to_agree(
    tmp_path: Path, blind: int
) -> None:
    both = [SAMPLES["loss"]().judged(run="other"), SAMPLES["loss"]()]
    both[blind].replicas = {}
    html = comparison.page(*(sample.write(tmp_path) for sample in both))
    assert heading(html) == (
        "The first step at which Kafka 0.10.2.2 and Kafka 0.10.2.2 differ was not observed"
    )


def test_a_replica_that_was_observed_in_one_run_only_is_no_difference(tmp_path: Path) -> None:
    both = [SAMPLES["loss"]().judged(run="other"), SAMPLES["loss"]()]
    observed = both[1].replicas
    leader = both[1].partitions[0][1]
    spare = next(broker for broker in sorted(observed, reverse=True) if broker != leader)
    del observed[spare]
    both[1].disks.pop(spare, None)
    html = comparison.page(*(sample.write(tmp_path) for sample in both))
    assert "differ at step" not in heading(html)


def test_the_steps_of_both_are_all_there(runs: dict[str, Run]) -> None:
    html = comparison.page(runs["loss"], runs["valid"])
    side = ComparedRun.of(runs["loss"], None)
    assert len(side.steps) >= 3
    assert html.count('<span class="n">') == max(
        len(side.steps), len(ComparedRun.of(runs["valid"], None).steps)
    )


def test_two_schedules_with_nothing_in_common_are_refused(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    calm = write_all(tmp_path, ["valid"])["valid"]
    for table in ("events/faults",):
        calm.parquet(table).unlink()
    with pytest.raises(UsageError, match="have no step in common"):
        comparison.page(runs["loss"], calm)


def test_the_page_is_the_same_each_time(runs: dict[str, Run], tmp_path: Path) -> None:
    one = comparison.write(runs["loss"], runs["valid"], tmp_path / "one.html")
    two = comparison.write(runs["loss"], runs["valid"], tmp_path / "two.html")
    assert one.read_bytes() == two.read_bytes()


def test_pages_of_runs_elsewhere_lie_beside_them(
    runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the store, which is another folder, is left alone."""
    monkeypatch.chdir(tmp_path)
    both = [str(runs[name].path) for name in ("loss", "valid")]
    for command, page in (
        ("compare", comparison.name(runs["loss"], runs["valid"])),
        ("report", "index.html"),
    ):
        done = CliRunner().invoke(app, [command, *both])
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-1] == str(runs["loss"].path.parent / page)
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_a_run_in_the_store_lies_there(runs: dict[str, Run], tmp_path: Path) -> None:
    inside = Run(tmp_path / "matrix" / "runs" / "valid")
    assert home([runs["loss"], inside], tmp_path) == tmp_path
    assert home([runs["loss"], runs["valid"]], tmp_path) == runs["loss"].path.parent
