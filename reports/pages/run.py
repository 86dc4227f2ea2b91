"""The page of a judged run: its report, in one HTML file."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from markupsafe import Markup

from highwater.checkers.core.anomaly_kinds import OF_PROGRAMS, WRONG_LOOKUP
from highwater.checkers.model.report_types import ExplanationLink, ModelFinding, Reconciliation
from highwater.harness.base.errors import StoreError
from highwater.harness.runs.availability import MEASURES, says
from highwater.harness.runs.faults.counts import title
from highwater.harness.runs.partition_trace import Partition
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import ACKNOWLEDGED, INVALID, Anomaly, Ledger, Verdict
from highwater.reports import model_text
from highwater.reports.drawings import frame_strip
from highwater.reports.drawings.replica_frames import Frame, frames, places
from highwater.reports.drawings.svg import Share, bar, svg, text
from highwater.reports.drawings.throughput import pace
from highwater.reports.drawings.timeline import TimelineMark, timeline
from highwater.reports.event_groups import Burst, bursts
from highwater.reports.html import render, save
from highwater.reports.replica_contents import Holdings, SideBySide, read_holdings, side_by_side
from highwater.reports.run_evidence import RunObservations, gather
from highwater.reports.sections.assumptions import assumptions
from highwater.reports.sections.broker_log_excerpts import LogExcerpt, around
from highwater.reports.sections.fault_effects import effects
from highwater.reports.sections.prevention import prevention
from highwater.reports.sections.program import program_section
from highwater.reports.sections.raw_records import RawRecord, Raws, read_raw
from highwater.reports.sections.replay_steps import cast, foreseen
from highwater.reports.sections.settings import facts
from highwater.reports.sections.story_acts import acts, subject
from highwater.reports.text import were

STORIES_MAX: Final = 10
"""Maximum number of findings that are drawn step by step; the rest is only listed."""
LISTED_MAX: Final = 100
TIMELINES_MAX: Final = 2
_LINK_MAX: Final = 120
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingStory:
    """A finding on the page, with its evidence, and with frames if replicas were observed.

    Attributes:
        link: the finding's id on the page; it is the same whenever the page is written.
    """

    link: str
    anomaly: Anomaly
    burst: Burst
    frames: tuple[tuple[Frame, Markup], ...]
    key: tuple[tuple[str, str, str], ...]
    raws: tuple[RawRecord, ...]
    lines: LogExcerpt


def write(run: Run) -> Path:
    """Write ``report.html`` into the run directory."""
    return save(run.report, page(run))


def page(run: Run) -> str:
    """Return a judged run's report as HTML; raise ``StoreError`` if verdict or plan is missing."""
    plan, verdict = run.plan(), run.verdict()
    unread: list[str] = []
    model = _or_none(lambda: model_text.read(run), unread)
    about = subject(model, plan.topic.name)
    subjects = [*verdict.anomalies, *([about] if about else [])]
    without = frozenset(unused.path for unused in verdict.unread)
    evidence = gather(
        run,
        without=without,
        values={a.value for a in subjects if a.value is not None} | _sent(model),
        places=places(subjects),
    )
    missing = [*evidence.missing, *unread]
    environment = _or_none(run.environment, missing)
    status = _or_none(run.status, missing)
    if status is not None and status.phase != "frozen" and not verdict.cut:
        missing.insert(0, f"The run ended early while it was {status.phase}.")
    partitions = _partitions(verdict, evidence)
    uncopied: list[str] = [] if plan.read_only else missing
    holdings = {p: read_holdings(run, p, uncopied, without) for p in partitions}
    groups = bursts(verdict.anomalies)
    shown_groups, others = groups[:STORIES_MAX], groups[STORIES_MAX : STORIES_MAX + LISTED_MAX]
    raws = _raws(run, shown_groups, uncopied, without)
    fault_effects = effects(evidence)
    stories = [
        _story(i, link, group, evidence, holdings, raws)
        for i, (link, group) in enumerate(zip(_links(shown_groups), shown_groups, strict=True))
    ]
    counted = sum(other.count for other in (*shown_groups, *others))
    return render(
        "run.html.j2",
        run=run.name,
        plan=plan,
        verdict=verdict,
        model=model and model_text.section(model),
        frame_of=partial(_frame_of, stories),
        predicted=foreseen(plan, status, evidence) if verdict.complete else (),
        cast=cast(plan, evidence),
        faults_unread=any(path.startswith("events/faults.") for path in without),
        acts=acts(model.course, about, evidence, holdings.get((about.topic, 0), {}))
        if model and about
        else (),
        prevention=prevention(plan, model),
        program=program_section(run, plan, verdict),
        facts=facts(plan, environment, evidence.fault_counts),
        happened=title(plan, evidence.fault_counts),
        environment=environment,
        status=status,
        missing=missing,
        stories=stories,
        others=others,
        left_out=max(0, sum(verdict.counts.values()) - counted),
        timelines=[_timeline(p, evidence, verdict) for p in partitions if p in evidence.partitions],
        partitions=len(evidence.partitions),
        pace=pace(evidence),
        evidence=evidence,
        struck=fault_effects,
        measures=_measures(plan),
        outage=lambda outages, name: says(getattr(outages, name)),
        assumptions=assumptions(run, plan, status, verdict, evidence, fault_effects),
        commands=_commands(run, plan, verdict),
        ledger=ledger_bars(verdict),
        acknowledged=ACKNOWLEDGED.get(verdict.acks, "acknowledged"),
        sides=_sides(holdings, verdict),
    )


def _sent(reconciliation: Reconciliation | None) -> set[str]:
    """Return the ids of all records in the logs of the model's execution."""
    return {
        record
        for beat in (reconciliation.course if reconciliation else ())
        for log in beat.logs.values()
        for record in log
    }


def _or_none(read: Callable[[], _T], missing: list[str]) -> _T | None:
    try:
        return read()
    except StoreError as error:
        missing.append(f"{error.message}.")
        return None


def _measures(plan: Plan) -> dict[str, str]:
    """Return the outages to show. A run that only reads gets no acknowledgements."""
    hidden = "unacknowledged" if plan.read_only else ""
    return {name: measure for name, measure in MEASURES.items() if name != hidden}


def _partitions(verdict: Verdict, evidence: RunObservations) -> list[Partition]:
    """Return the partitions to draw, those with findings first."""
    ordered = dict.fromkeys((a.topic, a.partition) for a in verdict.anomalies if a.partition >= 0)
    ordered |= dict.fromkeys(evidence.partitions)
    return list(ordered)[:TIMELINES_MAX]


def _story(
    number: int, link: str, burst: Burst, evidence: RunObservations,
    holdings: Mapping[Partition, Holdings], raws: Mapping[Partition, Raws],
) -> FindingStory:  # fmt: skip
    anomaly = burst.first
    partition = (anomaly.topic, anomaly.partition)
    replicated = anomaly.kind not in OF_PROGRAMS | {WRONG_LOOKUP}
    moments = frames(anomaly, evidence, holdings.get(partition, {})) if replicated else ()
    there = raws.get(partition, {}).get(anomaly.offset or 0, ())
    return FindingStory(
        link=link,
        anomaly=anomaly,
        burst=burst,
        frames=tuple(
            (frame, frame_strip.frame(frame, anomaly, f"r{number}f{frame.number}"))
            for frame in moments
        ),
        key=tuple(frame_strip.key(anomaly, moments)),
        raws=() if anomaly.offset is None else tuple(there),
        lines=around(evidence.log_lines, anomaly),
    )


def _raws(
    run: Run, groups: Sequence[Burst], missing: list[str], without: Collection[str]
) -> dict[Partition, Raws]:
    """Read each replica's record at the offset of each finding that is drawn step by step."""
    numbers: dict[Partition, set[int]] = {}
    for first in (group.first for group in groups):
        if first.offset is not None:
            numbers.setdefault((first.topic, first.partition), set()).add(first.offset)
    return {
        where: read_raw(run, where, offsets, missing, without) for where, offsets in numbers.items()
    }


def _frame_of(
    stories: Sequence[FindingStory], finding: ModelFinding, link: ExplanationLink
) -> tuple[str, int] | None:
    """Return the frame (its id and number) nearest in time to a link of a causal chain, or None."""
    place = (finding.kind, finding.topic, finding.partition, finding.offset)
    for story in stories:
        a = story.anomaly
        if (a.kind, a.topic, a.partition, a.offset) != place or link.time_ns is None:
            continue
        apart = {
            frame.number: max(frame.start_ns - link.time_ns, link.time_ns - frame.end_ns, 0)
            for frame, _ in story.frames
            if frame.start_ns is not None and frame.end_ns is not None
        }
        if apart:
            number = min(apart, key=apart.__getitem__)
            return f"{story.link}:{number}", number
    return None


def _links(groups: Sequence[Burst]) -> Iterator[str]:
    """Yield an id for each finding, such as ``lost-write-events-0-3``; number equal ids."""
    seen: Counter[str] = Counter()
    for group in groups:
        first = group.first
        where = first.value if first.offset is None else first.offset
        named = f"{first.kind}-{first.topic}-{first.partition}-{where}"
        link = re.sub(r"[^A-Za-z0-9._-]", "_", named)[:_LINK_MAX]
        seen[link] += 1
        yield link if seen[link] == 1 else f"{link}.{seen[link]}"


def _commands(run: Run, plan: Plan, verdict: Verdict) -> list[tuple[str, str]]:
    """Return the commands that repeat a run, each with a title."""
    name = shlex.quote(run.name)
    file = f"highwater replay {name}/plan.json"
    command = plan.command() if plan.has_options else file
    commands = [("Another run of this plan", command)]
    if plan.story:
        commands.append(("A Python test with the same settings", file))
    if plan.story is None and plan.schedule is None and (plan.nemesis or plan.steps):
        commands.append(("The exact steps of this run", f"highwater replay {name}"))
        if verdict.verdict == INVALID:
            commands.append(
                ("The fewest faults that still break the guarantee", f"highwater shrink {name}")
            )
    return commands


def _timeline(
    partition: Partition, evidence: RunObservations, verdict: Verdict
) -> tuple[str, Markup]:
    topic, number = partition
    marks = [
        TimelineMark(time_ns=evidence.acked_at[a.value], name=a.value, kind=a.kind)
        for a in verdict.anomalies
        if a.value is not None
        and a.value in evidence.acked_at
        and (a.topic, a.partition) == partition
    ]
    seen = {mark.name: mark for mark in reversed(marks)}
    drawing = timeline(
        evidence.partitions[partition],
        evidence,
        sorted(seen.values(), key=lambda mark: mark.time_ns),
        uid=f"timeline-{number}",
    )
    return f"{topic}-{number}", drawing


def ledger_bars(verdict: Verdict) -> Markup:
    """Draw the counts of records as two bars: records sent, and records acknowledged.

    For a run that ended early, draw only the first bar; for a run that only reads, only one bar of
    the records that its readers received.
    """
    width = 480.0
    if verdict.account == "received":
        return _received_bar(verdict.ledger, width)
    ledger, done = verdict.ledger, ACKNOWLEDGED.get(verdict.acks, "acknowledged")
    sent = [
        Share(count=ledger.acknowledged, name=done, class_="ok"),
        Share(count=ledger.failed, name="failed", class_="failed"),
        Share(count=ledger.unknown, name="unknown", class_="unknown"),
    ]
    acked = [
        Share(count=ledger.read, name="read", class_="ok"),
        Share(count=ledger.lost, name="lost", class_="lost"),
        Share(count=ledger.unseen, name="unseen", class_="unknown"),
        *([Share(count=ledger.replaced, name="replaced", class_="ok")] if ledger.replaced else []),
    ]
    about = (
        f"Of {ledger.sent:,} sent, {ledger.acknowledged:,} {were(done)}, {ledger.failed:,} "
        f"failed and {ledger.unknown:,} are unknown."
    )
    parts = [text(0, 14, f"sent {ledger.sent:,}", "barname"), bar(0, 22, width, 32, sent)]
    if verdict.account == "begun":
        return svg(
            width, 60.0, "Records sent until the run ended early", about, *parts, uid="ledger"
        )
    about += (
        f" Of those that {were(done)}, {ledger.read:,} were "
        f"read at the end, {ledger.lost:,} are lost and {ledger.unseen:,} unseen."
    )
    if ledger.replaced:
        about += f" {ledger.replaced:,} may have been removed by compaction or on request."
    parts += [
        text(0, 84, f"{done} {ledger.acknowledged:,}", "barname"),
        bar(0, 92, width, 32, acked),
    ]
    return svg(width, 128.0, "Outcomes of all records", about, *parts, uid="ledger")


def _received_bar(ledger: Ledger, width: float) -> Markup:
    shares = [
        Share(count=ledger.read, name="still there", class_="ok"),
        Share(count=ledger.lost, name="gone", class_="lost"),
        Share(count=ledger.replaced, name="expired", class_="unknown"),
        Share(count=ledger.unseen, name="not reached", class_="unknown"),
    ]
    about = (
        f"Of {ledger.received:,} records that readers received, {ledger.read:,} are still there at"
        f" the end, {ledger.lost:,} are gone, {ledger.replaced:,} expired and {ledger.unseen:,}"
        " were not reached."
    )
    parts = [
        text(0, 14, f"received {ledger.received:,}", "barname"),
        bar(0, 22, width, 32, shares),
    ]
    return svg(width, 60.0, "What became of the records", about, *parts, uid="ledger")


def _sides(
    holdings: Mapping[Partition, Holdings], verdict: Verdict
) -> list[tuple[str, SideBySide]]:
    """Return each partition's name, and its replicas at the end of the run side by side."""
    offsets: dict[Partition, list[int]] = {}
    for a in verdict.anomalies:
        if a.offset is not None:
            offsets.setdefault((a.topic, a.partition), []).append(a.offset)
    return [
        (f"{topic}-{number}", side_by_side(holding, offsets.get((topic, number), ())))
        for (topic, number), holding in holdings.items()
        if holding
    ]
