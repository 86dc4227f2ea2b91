"""Judged runs as Markdown for comments, JSON for scripts and JUnit XML for CI."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest
from highwater.harness.runs.verdict import INVALID, LOSSY, UNKNOWN, VALID, Verdict
from highwater.reports import model_text
from highwater.reports.markdown import escape, table
from highwater.reports.run_summary import RunSummary
from highwater.reports.text import plain
from highwater.reports.traces import otlp

LISTED_MAX: Final = 20
"""Maximum number of anomalies that are listed for a run; the rest is only counted."""

_NO_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A pattern for code points that are not allowed in XML 1.0 (section 2.2)."""

_MARKS: Final = {
    VALID: "✓ valid",
    LOSSY: f"◐ {LOSSY}",
    INVALID: "✕ **invalid**",
    UNKNOWN: "? unknown",
}


def find_format(name: str) -> Callable[[Sequence[RunSummary]], str]:
    """Return the function for a format's name; raise ``UsageError`` for an unknown name."""
    if name not in _FORMATS:
        formats = ("html", *_FORMATS)
        raise UsageError(f"there is no format {name!r}", hint=nearest(name, formats))
    return _FORMATS[name]


def as_json(summaries: Sequence[RunSummary]) -> str:
    """Return the output of ``highwater check --json``: an object, or a list for several runs."""
    built = [
        summary.verdict.summary(str(summary.run.report))
        | {"model": msgspec.to_builtins(summary.model)}
        for summary in summaries
    ]
    return json.dumps(built[0] if len(built) == 1 else built, indent=2) + "\n"


def markdown(summaries: Sequence[RunSummary]) -> str:
    """Return a table of all runs, and a section for each run with its anomalies."""
    heads = ("kafka", "what", "acks", "verdict", "lost / acknowledged", "model", "run")
    rows = [_row(summary) for summary in summaries]
    return "\n".join([table(heads, rows), *(_section(summary) for summary in summaries)])


def _row(run_summary: RunSummary) -> tuple[str, ...]:
    verdict, model = run_summary.verdict, run_summary.model
    return (
        escape(verdict.kafka),
        escape(run_summary.what),
        escape(verdict.acks),
        _MARKS[verdict.word],
        _lost(verdict),
        model_text.WORDS[model.status] if model else "not asked",
        escape(run_summary.run.name),
    )


def _lost(verdict: Verdict) -> str:
    """Return lost and acknowledged records, such as ``1 / 4``; a dash if they were not counted."""
    book = verdict.ledger
    return f"{book.lost:,} / {book.acknowledged:,}" if verdict.account == "whole" else "-"


def junit(summaries: Sequence[RunSummary]) -> str:
    """Return a JUnit suite of all runs: ``invalid`` is a failure, ``unknown`` an error."""
    broken = sum(summary.verdict.verdict == INVALID for summary in summaries)
    unknown = sum(summary.verdict.verdict == UNKNOWN for summary in summaries)
    seconds = f"{sum(summary.status.seconds for summary in summaries):.3f}"
    counts = {"tests": str(len(summaries)), "failures": str(broken), "errors": str(unknown)}
    suites = ET.Element("testsuites", counts | {"time": seconds})
    suite = ET.SubElement(suites, "testsuite", {"name": "highwater", **counts, "time": seconds})
    for run_summary in summaries:
        case = ET.SubElement(
            suite,
            "testcase",
            {
                "classname": _text(f"kafka {run_summary.verdict.kafka}"),
                "name": _text(run_summary.run.name),
                "time": f"{run_summary.status.seconds:.3f}",
            },
        )
        kind = {INVALID: "failure", UNKNOWN: "error"}.get(run_summary.verdict.verdict)
        if kind:
            element = ET.SubElement(case, kind, {"message": _text(run_summary.verdict.headline)})
            element.text = _text(
                "\n".join(
                    [*run_summary.verdict.reasons, *_anomalies(run_summary), _repeat(run_summary)]
                )
            )
        outcome = f"{run_summary.verdict.word}: {run_summary.verdict.headline}"
        ET.SubElement(case, "system-out").text = _text(f"{outcome}\n{_model_sentence(run_summary)}")
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def annotations(summaries: Sequence[RunSummary]) -> str:
    """Return GitHub's workflow commands: ``invalid`` is an error, ``unknown`` a warning."""
    lines = []
    for run_summary in summaries:
        verdict = run_summary.verdict
        level = {INVALID: "error", UNKNOWN: "warning"}.get(verdict.verdict)
        if level:
            title = _command_text(f"Kafka {verdict.kafka}: {run_summary.what}")
            title = title.replace(":", "%3A").replace(",", "%2C")
            text = _command_text(f"{verdict.headline}\nrepeat: {_repeat(run_summary)}")
            lines.append(f"::{level} title={title}::{text}\n")
    return "".join(lines)


def _command_text(text: str) -> str:
    return _text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


_FORMATS: Final[Mapping[str, Callable[[Sequence[RunSummary]], str]]] = {
    "md": markdown,
    "json": as_json,
    "junit": junit,
    "github": annotations,
    "otlp": otlp,
}


def _section(summary: RunSummary) -> str:
    verdict = summary.verdict
    lines = [
        f"## {escape(summary.run.name)}\n",
        f"{_MARKS[verdict.word]}: {escape(verdict.headline)}\n",
        *(f"- {escape(reason)}" for reason in verdict.reasons),
        *([f"- happened: {escape(verdict.happened)}"] if verdict.happened else []),
        *([f"- {verdict.sums}"] if verdict.sums else []),
        f"- {escape(_model_sentence(summary))}",
        *(f"- {escape(sentence)}" for sentence in _anomalies(summary)),
        f"- repeat: `{_repeat(summary)}`",
        "",
    ]
    return "\n".join(lines)


def _anomalies(summary: RunSummary) -> list[str]:
    anomalies = summary.verdict.anomalies[:LISTED_MAX]
    more = sum(summary.verdict.counts.values()) - len(anomalies)
    lines = [f"{anomaly.kind}: {anomaly.sentence}" for anomaly in anomalies]
    return [*lines, f"… and {more:,} more"] if more else lines


def _model_sentence(summary: RunSummary) -> str:
    if summary.model is None:
        return "model: not asked"
    return f"model: {model_text.WORDS[summary.model.status]}. {model_text.sentence(summary.model)}"


def _repeat(summary: RunSummary) -> str:
    return summary.plan.command()


def _text(text: str) -> str:
    """Escape control characters and all other characters that XML does not allow."""
    printable = "\n".join(plain(line) for line in text.splitlines())
    return _NO_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), printable)
