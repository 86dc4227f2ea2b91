"""Draw all steps of a counterexample of the transaction model, in an SVG file."""

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from highwater.reports.drawings.svg import join, rect, svg, tag, text

if TYPE_CHECKING:
    from highwater.checkers.model.transactions.transaction_machine import (
        TransactionCounterexample,
        TransactionStep,
    )
    from highwater.checkers.model.transactions.transaction_state import TransactionState

COLUMN: Final = 370.0
"""The width of a step in the drawing."""
FITTING: Final = 3
"""The number of steps in one row of the drawing."""
LINE: Final = 15.0
MARGIN: Final = 20.0
GAP: Final = 22.0
_CELL: Final = 46.0
_CELLS: Final = 6
"""The number of log entries in one row."""
_HEIGHT: Final = 26.0
_LETTERS: Final = 46
_MARKERS: Final = ("commit", "abort")


def whole_transactions(counterexample: "TransactionCounterexample", css: str) -> Markup:
    """Return the drawing as a self-contained SVG file."""
    steps = counterexample.steps
    captions = [wrap(step.says, _LETTERS) for step in steps]
    facts = [transaction_facts(step.after) for step in steps]
    head = 18 + LINE * max(map(len, captions), default=0)
    rows = max((_rows(step.after) for step in steps), default=0)
    height = head + (_HEIGHT + 18) * rows + LINE * max(map(len, facts), default=0) + GAP
    columns = []
    for i, step in enumerate(steps):
        before = facts[i - 1] if i else []
        place = f"translate({MARGIN + COLUMN * (i % FITTING):g}"
        place += f" {MARGIN + height * (i // FITTING):g})"
        shapes = _step(step, i + 1, captions[i], head, last=step is steps[-1])
        below = head + (_HEIGHT + 18) * rows
        columns.append(tag("g", *shapes, *_facts(facts[i], before, below), transform=place))
    width = 2 * MARGIN + COLUMN * min(len(steps), FITTING)
    total = 2 * MARGIN + height * -(-len(steps) // FITTING)
    return svg(
        width, total, counterexample.headline,
        join(f"{number}. {step.says}. " for number, step in enumerate(steps, start=1)),
        tag("style", Markup(css)),  # noqa: S704 - our own file
        rect(0, 0, width, total, "paper"),
        *columns, uid="counterexample", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def transaction_facts(state: "TransactionState") -> list[str]:
    """Return lines about the coordinator, the transactions, the producers and the requests."""
    there = ", ".join(map(str, state.partitions)) or "none"
    lines = [f"coordinator: {state.coordinator}, epoch {state.epoch}, partitions {there}"]
    lines += [f"transaction {n}: {status}" for n, status in enumerate(state.transactions, start=1)]
    lines += [
        f"{producer.name}: {producer.phase}, epoch {producer.epoch}" for producer in state.producers
    ]
    return [*lines, *(f"not delivered yet: {request}" for request in state.on_the_way)]


def _rows(state: "TransactionState") -> int:
    return sum(max(1, -(-len(leader.log) // _CELLS)) for leader in state.leaders)


def _step(
    step: "TransactionStep", number: int, lines: Sequence[str], head: float, *, last: bool
) -> list[Markup]:
    class_ = "step-n last" if last else "step-n"
    shapes = [
        tag("circle", cx=11.0, cy=12.0, r=10.0, class_=class_),
        text(11, 16, str(number), "step-number", "middle"),
        *(text(26, 16 + LINE * i, words, "step-says") for i, words in enumerate(lines)),
    ]
    row = 0
    for partition, leader in enumerate(step.after.leaders):
        top = head + (_HEIGHT + 18) * row
        shapes.append(text(8, top + 17, f"log {partition}", "who"))
        for offset, entry in enumerate(leader.log):
            x = 56 + _CELL * (offset % _CELLS)
            y = top + (_HEIGHT + 18) * (offset // _CELLS)
            pending = leader.open_from is not None and offset >= leader.open_from
            kind = "cell gone" if entry in _MARKERS else "cell subject" if pending else "cell"
            shapes.append(rect(x, y, _CELL - 3, _HEIGHT, kind))
            name = "id subject" if kind == "cell subject" else "id"
            shapes.append(text(x + _CELL / 2 - 1, y + 17, entry, name, "middle"))
            shapes.append(text(x + _CELL / 2 - 1, y + 37, str(offset), "axis", "middle"))
        row += max(1, -(-len(leader.log) // _CELLS))
    return shapes


def _facts(lines: Sequence[str], before: Sequence[str], top: float) -> list[Markup]:
    return [
        text(8, top + LINE * (i + 1), line, "fact" if line in before else "fact new")
        for i, line in enumerate(lines)
    ]
