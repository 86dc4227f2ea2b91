"""The summary of a soak, as Markdown for a terminal, a file and a pull request."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from highwater.campaigns.soak_results import STATES, Soak, SoakRow, State
from highwater.harness.base.exit_codes import BROKEN, OK, UNKNOWN
from highwater.harness.base.wording import count
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.reports.markdown import escape, table

EXIT_CODES: Final[dict[State, int]] = {
    "kept": OK,
    "explained": OK,
    "unknown": UNKNOWN,
    "failed": UNKNOWN,
    "unexplained": BROKEN,
}

_WORDS: Final[dict[State, str]] = {
    "kept": "kept every promise",
    "explained": "broke a promise, which the release's rules explain",
    "unexplained": "had findings that no rule explains",
    "unknown": "could not be judged",
    "failed": "did not run to the end",
}
_LISTED: Final[tuple[State, ...]] = ("unexplained", "failed", "unknown", "explained")


def exit_code(rows: Iterable[SoakRow]) -> int:
    """Return 1 if a run is unexplained, else 3 if a run is unknown or failed, else 0."""
    codes = {EXIT_CODES[row.state] for row in rows}
    return BROKEN if BROKEN in codes else max(codes, default=UNKNOWN)


def markdown(soak: Soak, rows: Sequence[SoakRow]) -> str:
    """Return the summary as Markdown."""
    hours = sum(row.seconds for row in rows) / 3600
    injected = sum(sum(row.struck.values()) for row in rows)
    acknowledged, lost = _records(rows)
    states = Counter(row.state for row in rows)
    releases = count(len({row.kafka for row in rows}), "release")
    uncounted = sum(not row.counted for row in rows)
    headline = (
        f"{count(len(rows), 'run')} of {hours:.1f} hours together on {releases}:"
        f" {count(injected, 'fault')}, {count(acknowledged, 'acknowledged record')}, {lost:,} of"
        f" them lost.\n"
    )
    if uncounted:
        headline += f"The lost records of {count(uncounted, 'run')} could not be counted."
    parts = [
        f"# Soak, seed {soak.seed}\n",
        headline,
        *(f"- {states[state]} {_WORDS[state]}" for state in STATES if states[state]),
        "",
        _table("Releases", ("kafka", "runs", "faults", "acknowledged", "lost", *STATES),
               _by_release(rows)),
        _table("Faults", ("fault", "injected", "in runs", "on releases"), _by_fault(rows)),
        _table("Situations of the model", ("kafka", "observed", "aims", "reached"),
               _by_situation(rows)),
        _table("Anomalies", ("kind", "count", "in runs"), _by_kind(rows)),
        *(_listed(state, [row for row in rows if row.state == state]) for state in _LISTED),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part is not None)


def _by_release(rows: Sequence[SoakRow]) -> Iterable[Sequence[object]]:
    for kafka in CATALOGUE:
        if of_release := [row for row in rows if row.kafka == kafka]:
            states = Counter(row.state for row in of_release)
            yield (
                kafka,
                len(of_release),
                sum(sum(row.struck.values()) for row in of_release),
                *_records(of_release),
                *(states[state] for state in STATES),
            )


def _records(rows: Iterable[SoakRow]) -> tuple[int, int]:
    """Return the numbers of acknowledged and lost records in the runs with valid counts."""
    counted = [row for row in rows if row.counted]
    return sum(row.acknowledged for row in counted), sum(row.lost for row in counted)


def _by_fault(rows: Sequence[SoakRow]) -> Iterable[Sequence[object]]:
    for name in sorted({name for row in rows for name in row.struck}):
        of_fault = [row for row in rows if name in row.struck]
        releases = len({row.kafka for row in of_fault})
        yield name, sum(row.struck[name] for row in of_fault), len(of_fault), releases


def _by_situation(rows: Sequence[SoakRow]) -> Iterable[Sequence[object]]:
    for kafka in CATALOGUE:
        of_release = [row for row in rows if row.kafka == kafka]
        observed = {name for row in of_release for name in row.situations}
        aims = {row.aim for row in of_release} - {""}
        if observed or aims:
            reached = {row.aim for row in of_release if row.reached}
            yield kafka, len(observed), len(aims), len(aims & (observed | reached))


def _by_kind(rows: Sequence[SoakRow]) -> Iterable[Sequence[object]]:
    for kind in sorted({kind for row in rows for kind in row.counts}):
        of_kind = [row for row in rows if row.counts.get(kind)]
        yield kind, sum(row.counts[kind] for row in of_kind), len(of_kind)


def _listed(state: State, rows: Sequence[SoakRow]) -> str | None:
    if not rows:
        return None
    lines = [f"## {len(rows)} {_WORDS[state]}\n"]
    for row in rows:
        anomalies = ", ".join(f"{count} {kind}" for kind, count in row.counts.items())
        lines.append(f"- `{row.run}` {anomalies or 'no anomaly'}: `{row.command}`")
        lines += [f"  - {escape(problem)}" for problem in (*row.unexplained, *row.problems)]
    return "\n".join([*lines, ""])


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str | None:
    lines = list(rows)
    return f"## {title}\n\n{table(heads, lines)}" if lines else None
