"""The page that compares two runs of one schedule step by step, up to their first difference.

The page shows the effect of a rule that only one release has. Both runs have the same faults at the
same steps, but perhaps only one run truncates a log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Final, Self

import msgspec
from markupsafe import Markup

from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, rules_of
from highwater.checkers.model.report_types import Reconciliation
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import UNKNOWN, Anomaly, Verdict
from highwater.reports import model_text
from highwater.reports.drawings import frame_strip
from highwater.reports.drawings.replica_frames import FAULT_NS, Frame, Lane, Moment, places, states
from highwater.reports.html import render, save
from highwater.reports.replica_contents import Holdings, read_holdings
from highwater.reports.run_evidence import RunObservations, gather
from highwater.reports.sections.settings import Fact, facts

STEPS_MAX: Final = 40
"""Maximum number of steps that are drawn; they are around the first step with a difference."""
_BEFORE: Final = 3
"""Number of drawn steps before the first step with a difference, if not all steps are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStep:
    """A fault, a healing or a note in a run; the same step of both runs has the same ``key``."""

    key: tuple[str, str]
    broker: int | None
    says: str
    at_ns: int

    @property
    def is_fault(self) -> bool:
        """True for the injection of a fault."""
        return self.key[1] == "inject"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One of the two compared runs."""

    run: Run
    plan: Plan
    verdict: Verdict
    model: Reconciliation | None
    evidence: RunObservations
    holdings: Holdings
    steps: tuple[ComparedStep, ...]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, run: Run, subject: Anomaly | None) -> Self:
        """Read a judged run."""
        plan, verdict = run.plan(), run.verdict()
        here = _there(subject, plan) if subject else None
        anomalies = [here] if here else []
        evidence = gather(
            run,
            values={a.value for a in anomalies if a.value},
            places=places(anomalies),
            without=[unused.path for unused in verdict.unread],
        )
        missing = list(evidence.missing)
        holdings = read_holdings(run, (here.topic, here.partition), missing) if here else {}
        return cls(
            run=run,
            plan=plan,
            verdict=verdict,
            model=model_text.read(run),
            evidence=evidence,
            holdings=holdings,
            steps=_steps(evidence),
            missing=tuple(missing),
        )

    @property
    def model_sentence(self) -> str:
        """The word for the model's status, or ``not asked`` without the model."""
        return model_text.WORDS[self.model.status] if self.model else "not asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAtStep:
    """The replicas of one run after one step, and their drawing."""

    frame: Frame
    drawing: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A step in both runs; ``parts`` is true if the replicas first differ after this step."""

    number: int
    says: tuple[str | None, str | None]
    frames: tuple[RunAtStep | None, RunAtStep | None]
    parts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSwitch:
    """A rule of the model, and whether the left and the right release have it."""

    name: str
    says: str
    on: tuple[bool, bool]


def name(left: Run, right: Run) -> str:
    """Return the name of the file with the comparison of two runs."""
    return f"compare-{left.name}-{right.name}.html"


def write(left: Run, right: Run, path: Path) -> Path:
    """Write the comparison of two judged runs; raise an error if they have no step in common."""
    return save(path, page(left, right))


def page(left: Run, right: Run) -> str:
    """Return the page as HTML."""
    subject = _subject(left.verdict()) or _subject(right.verdict())
    sides = (ComparedRun.of(left, subject), ComparedRun.of(right, subject))
    pairs = _pairs(sides, subject)
    parting = next((pair.number for pair in pairs if pair.parts), None)
    window = _window(pairs, parting)
    decisive, others = _rules(sides)
    return render(
        "comparison.html.j2",
        sides=sides,
        subject=subject,
        pairs=window,
        left_out=len(pairs) - len(window),
        parting=parting,
        headline=_headline(sides, subject, pairs, parting),
        settings=_settings(sides),
        decisive=decisive,
        others=others,
        missing=[f"{side.run.name}: {missing}" for side in sides for missing in side.missing],
    )


def _headline(
    sides: tuple[ComparedRun, ComparedRun],
    subject: Anomaly | None,
    pairs: Sequence[Pair],
    parting: int | None,
) -> str:
    """Return a sentence about the first difference, or about missing observations.

    "Never differ" requires that both runs observed the same number of replicas.
    """
    left, right = names = [f"Kafka {side.plan.software}" for side in sides]
    if parting is not None:
        return f"{left} and {right} first differ at step {parting}"
    if subject is not None:
        first, second = (_replicas(pairs, side) for side in (0, 1))
        if first and len(first) == len(second):
            return f"{left} and {right} never differ"
        return f"The first step at which {left} and {right} differ was not observed"
    verdicts = [side.verdict for side in sides]
    unknown = [
        name
        for name, verdict in zip(names, verdicts, strict=True)
        if verdict.verdict == UNKNOWN or verdict.account != "whole"
    ]
    if unknown:
        return f"Lost records are not known for {' and '.join(unknown)}"
    unplaced = any(verdict.ledger.lost or any(verdict.counts.values()) for verdict in verdicts)
    placed = " that has a known offset" if unplaced else ""
    return f"Neither {left} nor {right} lost anything{placed}"


def _replicas(pairs: Sequence[Pair], side: int) -> set[int]:
    """Return the brokers whose replicas were observed in one of the runs."""
    runs = (pair.frames[side] for pair in pairs)
    return {lane.broker for run in runs if run is not None for lane in _observed(run.frame)}


def _subject(verdict: Verdict) -> Anomaly | None:
    """Return the anomaly that the page shows: the first lost record, else the first divergence."""
    placed = [anomaly for anomaly in verdict.anomalies if anomaly.offset is not None]
    kinds = ("lost-write", "divergence")
    return next((anomaly for kind in kinds for anomaly in placed if anomaly.kind == kind), None)


def _there(subject: Anomaly, plan: Plan) -> Anomaly:
    """Return the same anomaly, in the topic of another run."""
    return msgspec.structs.replace(subject, topic=plan.topic.name)


def _steps(evidence: RunObservations) -> tuple[ComparedStep, ...]:
    steps = []
    for phase, events in (("inject", evidence.faults), ("note", evidence.steps)):
        for event in events:
            begin = ComparedStep(
                key=(event.name, phase),
                broker=event.broker,
                says=event.says,
                at_ns=event.start_ns,
            )
            steps.append(begin)
            if event.end_ns is not None:
                says = event.healed or f"{event.name} is healed"
                key = (event.name, "heal")
                steps.append(replace(begin, key=key, says=says, at_ns=event.end_ns))
    return tuple(sorted(steps, key=lambda step: step.at_ns))


def _pairs(sides: tuple[ComparedRun, ComparedRun], subject: Anomaly | None) -> list[Pair]:
    """Pair the steps of both runs by position; raise an error if their first steps differ."""
    left, right = (side.steps for side in sides)
    same = list(takewhile(lambda both: both[0].key == both[1].key, zip(left, right, strict=False)))
    if not same:
        raise UsageError(
            "the schedules of these two runs have no step in common",
            hint="Compare two runs of one story, or a run and its replay.",
        )
    steps: list[tuple[ComparedStep | None, ComparedStep | None]] = [
        *same,
        *zip_longest(left[len(same) :], right[len(same) :]),
    ]
    drawings = [_frames_of(side, subject) for side in sides]
    part_of = _cast(same)
    pairs: list[Pair] = []
    parted = False
    for number, (first, second) in enumerate(steps):
        frames = [drawing[number] if number < len(drawing) else None for drawing in drawings]
        parts = not parted and _differ(frames[0], frames[1], part_of)
        parted = parted or parts
        pairs.append(
            Pair(
                number=number + 1,
                says=(first.says if first else None, second.says if second else None),
                frames=(_show(frames[0], subject, "l"), _show(frames[1], subject, "r")),
                parts=parts,
            )
        )
    return pairs


def _frames_of(side: ComparedRun, subject: Anomaly | None) -> list[Frame]:
    """Return a frame for each step of a run, with the state just before the next step."""
    if subject is None:
        return []
    moments = []
    for number, step in enumerate(side.steps):
        until = side.evidence.end_ns
        if number + 1 < len(side.steps):
            after = side.steps[number + 1]
            until = max(step.at_ns, after.at_ns - (FAULT_NS if after.is_fault else 1))
        moments.append(
            Moment(title=step.says, start_ns=step.at_ns, end_ns=step.at_ns, until_ns=until)
        )
    return states(_there(subject, side.plan), side.evidence, side.holdings, moments)


def _cast(same: Sequence[tuple[ComparedStep, ComparedStep]]) -> Mapping[int, int]:
    """Map a broker of the left run to a broker of the right run, if equal steps hit both."""
    numbers: dict[int, int] = {}
    for left, right in same:
        if left.broker is not None and right.broker is not None:
            numbers.setdefault(left.broker, right.broker)
    return numbers


def _differ(left: Frame | None, right: Frame | None, part_of: Mapping[int, int]) -> bool:
    """Return whether a log was truncated in only one run, or has different records in both.

    Different log ends are ignored, because one run may be faster. Replicas that were observed in
    only one run are also ignored.
    """
    if left is None or right is None:
        return False
    there = {lane.broker: _harm(lane) for lane in _observed(right)}
    both = [(lane, part_of.get(lane.broker, lane.broker)) for lane in _observed(left)]
    return any(_harm(lane) != there[twin] for lane, twin in both if twin in there)


def _observed(frame: Frame) -> list[Lane]:
    return [lane for lane in frame.lanes if lane.leo is not None]


def _harm(lane: Lane) -> tuple[bool, bool]:
    return lane.cut is not None, any(cell.state == "other" for cell in lane.cells)


def _show(frame: Frame | None, subject: Anomaly | None, uid: str) -> RunAtStep | None:
    if frame is None or subject is None:
        return None
    return RunAtStep(frame=frame, drawing=frame_strip.frame(frame, subject, f"{uid}{frame.number}"))


def _window(pairs: Sequence[Pair], parting: int | None) -> list[Pair]:
    if len(pairs) <= STEPS_MAX:
        return list(pairs)
    first = max(0, (parting or 1) - 1 - _BEFORE)
    return list(pairs[first : first + STEPS_MAX])


def _settings(sides: tuple[ComparedRun, ComparedRun]) -> list[tuple[Fact, Fact]]:
    """Return the settings in which the runs differ; ``none`` for a setting that a run lacks."""
    left, right = (
        {fact.name: fact for fact in facts(side.plan, None, side.evidence.fault_counts)}
        for side in sides
    )
    both = [
        tuple(of_run.get(name, Fact(name=name, value="none")) for of_run in (left, right))
        for name in left | right
    ]
    return [(first, second) for first, second in both if first.value != second.value]


def _rules(sides: tuple[ComparedRun, ComparedRun]) -> tuple[list[ModelSwitch], list[ModelSwitch]]:
    """Return the rules in which the releases differ: first those that explain findings."""
    plans = [side.plan for side in sides]
    if not {plan.played_on for plan in plans} <= set(RELEASES):
        return [], []
    left, right = (
        rules_of(plan.played_on, protocol=plan.protocol, written=plan.format) for plan in plans
    )
    rules = {
        link.rule
        for side in sides
        for finding in (side.model.findings if side.model else ())
        for link in finding.because
    }
    switches = [
        ModelSwitch(
            name=switch,
            says=model_text.rule_says(switch),
            on=(getattr(left, switch), getattr(right, switch)),
        )
        for switch in SWITCHES
        if getattr(left, switch) != getattr(right, switch)
    ]
    decisive = [switch for switch in switches if switch.name in rules]
    return decisive, [switch for switch in switches if switch.name not in rules]
