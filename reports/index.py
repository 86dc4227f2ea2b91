"""Several judged runs on one page: which Kafka loses what, and where to read on."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from harness.store import Run
from harness.verdict import INVALID, UNKNOWN, VALID, Verdict
from reports.page import render, save
from reports.text import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run in the table."""

    name: str
    kafka: str
    happened: str
    acks: str
    min_isr: int
    verdict: Verdict
    link: str

    @property
    def setting(self) -> tuple[str, str, int]:
        """What was done to it under which promise: a row of the matrix."""
        return self.happened, self.acks, self.min_isr

    @property
    def short(self) -> str:
        """The finding in a word or two, as a cell of the matrix has room for."""
        found = []
        if self.verdict.ledger.lost:
            found.append(f"{self.verdict.ledger.lost:,} lost")
        if self.verdict.counts.get("divergence"):
            found.append(f"{self.verdict.counts['divergence']:,} divergent")
        if found and self.verdict.verdict == VALID:
            found.append("as allowed")
        return ", ".join(found) or {UNKNOWN: "unknown", INVALID: "broken"}.get(
            self.verdict.verdict, "none lost"
        )


def _numbers(kafka: str) -> list[tuple[int, str]]:
    """``0.10.2.2`` in the order of releases: 0.9 comes before 0.10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in kafka.split(".")]


def write(runs: Sequence[Run], path: Path) -> Path:
    """Write the index page of judged runs, linking to each one's ``report.html``.

    Returns:
        The file.

    Raises:
        StoreError: a run was not judged, or its plan cannot be read.
    """
    entries = [_entry(run, path.parent) for run in runs]
    kafkas = sorted({entry.kafka for entry in entries}, key=_numbers)
    settings = list(dict.fromkeys(entry.setting for entry in entries))
    cells = {
        (setting, kafka): [e for e in entries if (e.setting, e.kafka) == (setting, kafka)]
        for setting in settings
        for kafka in kafkas
    }
    html = render(
        "index.html.j2",
        entries=entries,
        kafkas=kafkas,
        settings=settings,
        cells=cells,
        headline=headline(entries),
        worst=worst(entry.verdict.verdict for entry in entries),
    )
    return save(path, html)


def headline(entries: Sequence[Entry]) -> str:
    """What all runs come to, with denominators."""
    broken = [entry for entry in entries if entry.verdict.verdict == INVALID]
    unknown = sum(entry.verdict.verdict == UNKNOWN for entry in entries)
    lost = sum(entry.verdict.ledger.lost for entry in entries)
    acknowledged = sum(entry.verdict.ledger.acknowledged for entry in entries)
    words = (
        f"{len(broken)} of {count(len(entries), 'run')} broke a promise; {lost:,} of "
        f"{count(acknowledged, 'acknowledged record')} {'is' if lost == 1 else 'are'} lost"
    )
    return f"{words}; {count(unknown, 'run')} could not be judged." if unknown else f"{words}."


def worst(verdicts: Iterable[str]) -> str:
    """The verdict over all: broken if any is, else unknown if any is, else valid."""
    found = set(verdicts)
    return next((each for each in (INVALID, UNKNOWN) if each in found), VALID)


def _entry(run: Run, home: Path) -> Entry:
    plan = run.plan()
    link = os.path.relpath(run.report.resolve(), home.resolve())
    return Entry(
        name=run.name,
        kafka=plan.kafka,
        happened=plan.story or ", ".join(plan.nemesis) or "no faults",
        acks=plan.workload.acks,
        min_isr=plan.topic.min_insync_replicas,
        verdict=run.verdict(),
        link=quote(link.replace(os.sep, "/")),
    )
