"""The page of a counterexample: its steps, the broken invariant, and its replays on brokers."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.harness.base.wording import count, joined
from highwater.harness.runs.store import Run
from highwater.reports import model_text
from highwater.reports.drawings import frame_strip
from highwater.reports.drawings.counterexample_svg import whole
from highwater.reports.drawings.model_frames import harm, model_frames, subject
from highwater.reports.html import drawing_css, render, save
from highwater.reports.run_evidence import gather
from highwater.reports.sections.replay_steps import ReplayStep, cast, foreseen
from highwater.reports.sections.settings import Fact

if TYPE_CHECKING:
    from highwater.checkers.model.search.kafka_model import Counterexample

_PHRASES: Final = {
    "acked-kept": "can lose an acknowledged record",
    "read-kept": "can lose a record that a consumer has read",
    "read-once": "can give a consumer two records at one offset",
    "agree-below-hw": "can commit different records on two replicas",
    "agree-at-rest": "can have different records on replicas that are in sync",
}
_FAILURES: Final = ("kill", "pause", "lag")
_MOVES: Final = ("move", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """A replay of a counterexample on real brokers.

    Attributes:
        link: the link to the run's report.
        model: the model's explanation of the run; None without an explanation.
        why: the reasons of the verdict, as sentences.
        steps: the predicted and the observed state after each step of the run's schedule.
        cast: a sentence that names the broker for each replica of the model.
        same: whether the run's schedule was compiled from this counterexample.
    """

    kafka: str
    link: str
    model: model_text.Section | None
    why: tuple[str, ...]
    steps: tuple[ReplayStep, ...] = ()
    cast: str = ""
    same: bool = False


def write(counterexample: "Counterexample", path: Path, runs: Sequence[Run] = ()) -> Path:
    """Write a counterexample as a page, or as a drawing if the name ends in ``.svg``.

    Args:
        runs: judged runs that executed the counterexample's steps on real brokers.
    """
    if path.suffix == ".svg":
        return save(path, whole(counterexample, drawing_css()))
    return save(
        path, page(counterexample, [_replayed(counterexample, run, path.parent) for run in runs])
    )


def page(counterexample: "Counterexample", replays: Sequence[ReplayOutcome] = ()) -> str:
    """Return the page as HTML."""
    about = subject(counterexample)
    return render(
        "counterexample.html.j2",
        found=counterexample,
        headline=headline(counterexample),
        conclusion=conclusion(counterexample),
        facts=_facts(counterexample),
        harm=harm(counterexample),
        frames=[
            (step, frame_strip.frame(step.frame, about, f"m{step.frame.number}"))
            for step in model_frames(counterexample)
        ],
        replays=replays,
        command=counterexample.command,
    )


def headline(counterexample: "Counterexample") -> str:
    """Return a sentence with the broken invariant and the number of steps."""
    phrase = _PHRASES.get(counterexample.invariant, f"can break {counterexample.invariant}")
    return f"Kafka {counterexample.kafka} {phrase}, in {count(len(counterexample.steps), 'step')}."


def conclusion(counterexample: "Counterexample") -> str:
    """Return a sentence about lost or different records in the last state."""
    harmed, end = harm(counterexample), counterexample.steps[-1].after
    records = joined(sorted(harmed.records))
    if harmed.instead:
        there = joined(sorted(harmed.instead))
        return f"In the end one replica has {records} where another has {there}."
    if not records:
        return f"In the end this guarantee does not hold: {counterexample.says}"
    outcome = "acknowledged" if harmed.records <= set(end.acked) else "read by a consumer"
    was = "was" if len(harmed.records) == 1 else "were"
    return (
        f"In the end {records} {was} {outcome}, but {NAMES[end.leader]}, which must lead, lacks it."
    )


def _facts(counterexample: "Counterexample") -> list[Fact]:
    done = Counter(step.move for step in counterexample.steps)
    scope = counterexample.scope
    failures = sum(done[name] for name in _FAILURES)
    moves = sum(done[name] for name in _MOVES)
    facts = [
        Fact(name="acks", value=scope.acks),
        Fact(name="min.insync.replicas", value=str(scope.min_isr)),
        Fact(name="Unclean election", value="on" if scope.unclean else "off"),
        Fact(name="Failures", value=str(failures), means="kills, pauses, lagging followers"),
        Fact(name="Moves", value=str(moves), means="moves of leadership, and orderly stops"),
        Fact(
            name="Steps",
            value=str(len(counterexample.steps)),
            means="the fewest possible within these bounds" if counterexample.shortest else "",
        ),
    ]
    switched = [f"{name} {'on' if on else 'off'}" for name, on in counterexample.switched.items()]
    return [*facts, *([Fact(name="Rules changed", value=", ".join(switched))] if switched else [])]


def _replayed(counterexample: "Counterexample", run: Run, home: Path) -> ReplayOutcome:
    model, plan, evidence = model_text.read(run), run.plan(), gather(run)
    link = os.path.relpath(run.report.resolve(), home.resolve()).replace(os.sep, "/")
    return ReplayOutcome(
        kafka=plan.kafka,
        steps=foreseen(plan, run.status(), evidence),
        cast=cast(plan, evidence),
        same=(plan.schedule or {}).get("name") == counterexample.name,
        link=quote(link),
        model=model_text.section(model) if model else None,
        why=run.verdict().reasons,
    )
