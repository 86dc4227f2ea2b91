"""Draw all steps of a counterexample side by side, in an SVG file."""

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from highwater.reports.drawings import frame_strip
from highwater.reports.drawings.model_frames import ModelFrame, model_frames, subject
from highwater.reports.drawings.svg import join, rect, svg, tag, text

if TYPE_CHECKING:
    from highwater.checkers.model.search.kafka_model import Counterexample
    from highwater.harness.runs.verdict import Anomaly

WIDE: Final = 1150.0
"""The greatest width of a row of steps; more steps are drawn in more rows."""
LINE: Final = 15.0
LETTER: Final = 7.0
"""The average width of a letter in the drawing's text."""
MARGIN: Final = 20.0
GAP: Final = 26.0


def whole(counterexample: "Counterexample", css: str) -> Markup:
    """Return the drawing as a self-contained SVG file."""
    steps, about = model_frames(counterexample), subject(counterexample)
    column, lanes_height = frame_strip.size(steps[0].frame)
    captions = [wrap(step.frame.title, int((column - 40) / LETTER)) for step in steps]
    head = 18 + LINE * max(map(len, captions))
    height = head + lanes_height + LINE * len(steps[0].facts) + GAP
    fitting = max(1, int(WIDE // column))
    columns = [
        tag(
            "g",
            *_caption(step, lines, is_last=step is steps[-1]),
            tag("g", *frame_strip.body(step.frame, about), transform=f"translate(0 {head:g})"),
            *_facts(step, head + lanes_height),
            transform=f"translate({MARGIN + column * (i % fitting):g}"
            f" {MARGIN + height * (i // fitting):g})",
        )
        for i, (step, lines) in enumerate(zip(steps, captions, strict=True))
    ]
    width = 2 * MARGIN + column * min(len(steps), fitting)
    height = 2 * MARGIN + height * -(-len(steps) // fitting)
    return svg(
        width, height, f"{counterexample.invariant} on Kafka {counterexample.kafka}",
        join(f"{_words(step, about)} " for step in steps),
        tag("style", Markup(css)),  # noqa: S704 - our own file
        rect(0, 0, width, height, "paper"),
        *columns, uid="counterexample", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def _caption(step: ModelFrame, lines: list[str], *, is_last: bool) -> list[Markup]:
    class_ = "step-n last" if is_last else "step-n"
    return [
        tag("circle", cx=11.0, cy=12.0, r=10.0, class_=class_),
        text(11, 16, str(step.frame.number), "step-number", "middle"),
        *(text(26, 16 + LINE * i, words, "step-says") for i, words in enumerate(lines)),
    ]


def _facts(step: ModelFrame, top: float) -> list[Markup]:
    """Draw a step's text lines about the controller and the clients; highlight changed lines."""
    return [
        text(8, top + LINE * i, fact.says, "fact new" if fact.is_new else "fact")
        for i, fact in enumerate(step.facts)
    ]


def _words(step: ModelFrame, about: "Anomaly") -> str:
    return f"{step.frame.number}. {step.frame.title}: {frame_strip.describe(step.frame, about)}"
