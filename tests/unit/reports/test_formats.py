"""Judged runs as Markdown, JSON and JUnit XML: complete, escaped, and readable by others."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import msgspec
import pytest

from highwater.harness.base.errors import UsageError
from highwater.reports.formats import annotations, find_format, junit, markdown
from highwater.reports.run_summary import RunSummary
from tests.browser.samples import write_all


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunSummary]:
    names = ("loss", "valid", "cut-short", "hostile")
    runs = write_all(tmp_path_factory.mktemp("store"), names)
    return {name: RunSummary.of(run) for name, run in runs.items()}


def test_markdown_has_every_run_and_what_was_found(told: dict[str, RunSummary]) -> None:
    text = markdown([told["loss"], told["valid"]])
    table, loss, valid = text.split("\n## ")
    assert [line.count("|") for line in table.strip().splitlines()] == [8] * 4
    assert "✕ **invalid**" in loss
    assert "lost-write: " in loss
    assert "repeat: `highwater run --kafka 0.10.2.2" in loss
    assert "✓ valid" in valid


def test_nothing_of_a_hostile_run_is_markup_or_ends_a_line(told: dict[str, RunSummary]) -> None:
    text = markdown([told["hostile"]])
    assert "<script" not in text.replace("\\<", "")
    for line in text.split("\n## ", maxsplit=1)[0].strip().splitlines():
        assert line.replace("\\|", "").count("|") == 8


def test_an_annotation_is_a_line_for_each_run_that_is_not_valid(
    told: dict[str, RunSummary],
) -> None:
    verdict = msgspec.structs.replace(told["loss"].verdict, headline="100%\n::error::x")
    lines = annotations([replace(told["loss"], verdict=verdict), told["valid"], told["cut-short"]])
    loss, unknown = lines.splitlines()
    assert loss.startswith("::error title=Kafka 0.10.2.2%3A loss::100%25%0A::error::x%0Arepeat: ")
    assert unknown.startswith("::warning title=Kafka ")


def test_junit_has_a_case_a_run(told: dict[str, RunSummary]) -> None:
    suites = ET.fromstring(junit(list(told.values())))  # noqa: S314 - our own
    [suite] = suites
    broken = [one for one in told.values() if one.verdict.verdict == "invalid"]
    assert suite.attrib["tests"] == "4"
    assert suite.attrib["failures"] == str(len(broken))
    assert suite.attrib["errors"] == "1"
    cases = {case.attrib["name"]: case for case in suite}
    failed = cases[told["loss"].run.name].find("failure")
    assert failed is not None
    assert failed.attrib["message"] == told["loss"].verdict.headline
    assert "highwater run" in (failed.text or "")
    assert cases[told["cut-short"].run.name].find("error") is not None
    assert cases[told["valid"].run.name].find("failure") is None


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ufffe", "\udc80", "\u202e"])
def test_xml_holds_any_value(told: dict[str, RunSummary], character: str) -> None:
    verdict = msgspec.structs.replace(told["loss"].verdict, headline=f"a{character}b")
    text = junit([replace(told["loss"], verdict=verdict)])
    assert character not in text
    ET.fromstring(text.encode())  # noqa: S314 - our own


def test_json_is_what_check_prints(told: dict[str, RunSummary]) -> None:
    of = find_format("json")
    one = json.loads(of([told["loss"]]))
    assert (one["verdict"], one["lost"]) == ("invalid", 1)
    assert [each["verdict"] for each in json.loads(of([told["loss"], told["valid"]]))] == [
        "invalid",
        "valid",
    ]


def test_another_format_is_refused() -> None:
    with pytest.raises(UsageError, match="no format 'xml'"):
        find_format("xml")
