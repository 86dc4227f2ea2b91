"""Spans of judged runs: one trace a run, with its phases and its faults inside it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from highwater.harness.runs.store import Run
from highwater.reports.formats import find_format
from highwater.reports.run_summary import RunSummary
from tests.browser.samples import write_all
from tests.support.run_builder import RunBuilder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return write_all(tmp_path_factory.mktemp("store"), ("loss", "valid", "cut-short"))


def spans(*runs: Run) -> list[dict[str, Any]]:
    request = json.loads(find_format("otlp")([RunSummary.of(run) for run in runs]))
    [resource] = request["resourceSpans"]
    [scope] = resource["scopeSpans"]
    found: list[dict[str, Any]] = scope["spans"]
    return found


def attributes(span: dict[str, Any]) -> dict[str, object]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}


def test_a_run_is_a_trace_with_its_phases_and_faults(runs: dict[str, Run]) -> None:
    [root, *inner] = spans(runs["loss"])
    verdict = runs["loss"].verdict()
    assert attributes(root)["highwater.verdict"] == verdict.word == "invalid"
    assert attributes(root)["highwater.lost"] == str(verdict.ledger.lost)
    assert root["status"] == {"code": 2, "message": verdict.headline}
    assert root["startTimeUnixNano"] == str(runs["loss"].environment().started_at_ns)
    assert [span["name"] for span in inner] == ["workload", "kill", "kill"]
    assert all("is killed" in str(attributes(kill)["highwater.effect"]) for kill in inner[1:])
    for span in inner:
        assert (span["traceId"], span["parentSpanId"]) == (root["traceId"], root["spanId"])
        begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert int(root["startTimeUnixNano"]) <= begin <= end <= int(root["endTimeUnixNano"])


def test_ids_are_distinct_and_the_same_in_every_export(runs: dict[str, Run]) -> None:
    first, again = spans(*runs.values()), spans(*runs.values())
    ids = [span["spanId"] for span in first]
    assert ids == [span["spanId"] for span in again]
    assert len(set(ids)) == len(ids)
    assert len({span["traceId"] for span in first}) == 3
    assert all(len(bytes.fromhex(span["traceId"])) == 16 for span in first)
    assert all(len(bytes.fromhex(span["spanId"])) == 8 for span in first)


def test_a_run_without_tables_has_its_own_span(runs: dict[str, Run], tmp_path: Path) -> None:
    for name in ("plan.json", "status.json", "environment.json", "analysis/verdict.json"):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((runs["valid"].path / name).read_bytes())
    [root] = spans(Run(tmp_path))
    assert "status" not in root
    began = int(root["startTimeUnixNano"])
    seconds = msgspec.json.decode((tmp_path / "status.json").read_bytes())["seconds"]
    assert int(root["endTimeUnixNano"]) == began + int(seconds * 1e9)


def test_the_final_read_is_a_phase(runs: dict[str, Run], tmp_path: Path) -> None:
    built = RunBuilder(tmp_path / "run")
    built.send("m0", 0)
    built.read("m0", 0)
    run = built.write()
    run.write_struct("analysis/verdict.json", runs["valid"].verdict())
    assert [span["name"] for span in spans(run)[1:]] == ["workload", "final read"]
