"""Draw a counterexample: replicas as lanes, steps as columns, records as boxes, and the HW."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from highwater.checkers.model.protocol.readable_state import decode
from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.reports.drawings.svg import join, line, rect, svg, tag, text

if TYPE_CHECKING:
    from highwater.checkers.model.protocol.readable_state import LogEntry, ModelReplica, State
    from highwater.checkers.model.schedules.counterexample import Counterexample, CounterexampleStep

WIDE: Final = 1150.0
"""Of a band of columns; as many as fit stand side by side, the others below them."""
LABEL: Final = 40.0
COLUMN: Final = 220.0
BOX: Final = 38.0
HEIGHT: Final = 34.0
LANE: Final = 88.0
LINE: Final = 15.0
LETTER: Final = 7.0
"""Width of a letter, on average."""
FOOT: Final = 56.0
GAP: Final = 26.0

_LOSSES: Final = frozenset({"acked-kept", "read-kept", "read-once"})
DOWN: Final = {"dead": "killed", "paused": "paused", "stopped": "shut down"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """The records that a counterexample is about: the lost ones, and those in their place."""

    records: frozenset[str]
    instead: frozenset[str] = frozenset()

    def of(self, record: str) -> str:
        """Return the style class of a record's box."""
        if record in self.records:
            return "subject"
        return "other" if record in self.instead else "record"


def harm(counterexample: "Counterexample") -> Harm:
    """Return the records that are lost at the end, or differ between replicas."""
    end = counterexample.steps[-1].after
    leader = _contents(end.replicas[end.leader]) if end.leader >= 0 else []
    if counterexample.invariant in _LOSSES:
        read = (record for step in counterexample.steps for record in step.after.read if record)
        gone = frozenset((*end.acked, *read)) - set(leader)
        if gone:
            return Harm(records=gone)
    for offset in range(max(replica.leo for replica in end.replicas)):
        there = {replica.log[offset].record for replica in end.replicas if replica.leo > offset}
        if len(there) > 1:
            surviving = leader[offset] if offset < len(leader) else min(there)
            return Harm(records=frozenset(there - {surviving}), instead=frozenset({surviving}))
    return Harm(records=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One step, the state before it, and its caption as lines."""

    number: int
    step: "CounterexampleStep"
    before: "State"
    lines: tuple[str, ...]
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """Data shared by all columns of a drawing."""

    harm: Harm
    width: float
    lanes: int


def bands(counterexample: "Counterexample") -> list[Markup]:
    """Return a drawing for each band of columns, each at most ``WIDE`` wide."""
    sheet, columns = _lay_out(counterexample)
    return [
        svg(
            LABEL + sheet.width * len(band),
            _height(band, sheet),
            f"Steps {band[0].number} to {band[-1].number}",
            _describe(band),
            _band(band, sheet),
            uid=f"steps-{band[0].number}",
        )
        for band in _bands(columns, sheet)
    ]


def whole(counterexample: "Counterexample", css: str) -> Markup:
    """Return all bands as one self-contained SVG file."""
    sheet, columns = _lay_out(counterexample)
    parts, top = [], GAP
    for band in _bands(columns, sheet):
        parts.append(tag("g", _band(band, sheet), transform=f"translate(20 {top:g})"))
        top += _height(band, sheet) + GAP
    width = LABEL + sheet.width * min(len(columns), _fitting(sheet)) + 40
    return svg(
        width, top, f"{counterexample.invariant} on Kafka {counterexample.kafka}",
        _describe(columns),
        tag("style", Markup(css)),  # noqa: S704 - our own file
        rect(0, 0, width, top, "paper"),
        *parts, uid="counterexample", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def _lay_out(counterexample: "Counterexample") -> tuple[_Sheet, list[_Column]]:
    longest = max(replica.leo for step in counterexample.steps for replica in step.after.replicas)
    sheet = _Sheet(
        harm=harm(counterexample),
        width=max(COLUMN, BOX * (longest + 1) + 24),
        lanes=len(counterexample.steps[0].after.replicas),
    )
    letters = int((sheet.width - 40) / LETTER)
    befores = (beginning(counterexample), *(step.after for step in counterexample.steps))
    columns = [
        _Column(
            number=number,
            step=step,
            before=before,
            lines=tuple(wrap(step.says, letters)),
            last=number == len(counterexample.steps),
        )
        for number, (step, before) in enumerate(
            zip(counterexample.steps, befores, strict=False), start=1
        )
    ]
    return sheet, columns


def beginning(counterexample: "Counterexample") -> "State":
    """Return the state before the first step."""
    machine = counterexample.setting.machine()
    return decode(machine.initial, machine.constants)


def _fitting(sheet: _Sheet) -> int:
    return max(1, int((WIDE - LABEL) // sheet.width))


def _bands(columns: Sequence[_Column], sheet: _Sheet) -> Iterator[tuple[_Column, ...]]:
    size = _fitting(sheet)
    return (tuple(columns[i : i + size]) for i in range(0, len(columns), size))


def _head(band: Sequence[_Column]) -> float:
    return 18 + LINE * max(len(column.lines) for column in band)


def _height(band: Sequence[_Column], sheet: _Sheet) -> float:
    return _head(band) + LANE * sheet.lanes + FOOT


def _band(band: Sequence[_Column], sheet: _Sheet) -> Markup:
    head = _head(band)
    names = [text(4, head + LANE * b + 46, NAMES[b], "lane-name") for b in range(sheet.lanes)]
    rules = [
        line(0, head + LANE * b, LABEL + sheet.width * len(band), head + LANE * b, "grid")
        for b in range(sheet.lanes + 1)
    ]
    columns = [
        tag("g", _column(column, sheet, head), transform=f"translate({LABEL + sheet.width * i:g})")
        for i, column in enumerate(band)
    ]
    return join([*rules, *names, *columns])


def _column(column: _Column, sheet: _Sheet, head: float) -> Markup:
    state = column.step.after
    lanes = []
    for b, replica in enumerate(state.replicas):
        lane = _lane(b, replica, column.before.replicas[b], state, sheet)
        down = "lane down" if replica.process in {"dead", "stopped"} else "lane"
        lanes.append(tag("g", lane, transform=f"translate(0 {head + LANE * b:g})", class_=down))
    words = [text(26, 16 + LINE * i, words, "step-says") for i, words in enumerate(column.lines)]
    return join(
        [
            tag(
                "circle",
                cx=11.0,
                cy=12.0,
                r=10.0,
                class_="step-n last" if column.last else "step-n",
            ),
            text(11, 16, str(column.number), "step-number", "middle"),
            *words,
            *lanes,
            _foot(column, head + LANE * sheet.lanes),
        ]
    )


def _lane(
    b: int, replica: "ModelReplica", before: "ModelReplica", state: "State", sheet: _Sheet
) -> Markup:
    dot = "isr" if b in state.isr else "isr out"
    membership = "in the ISR" if b in state.isr else "not in the ISR"
    cut = before.log[replica.leo :]
    boxes = [_box(o, entry, sheet.harm.of(entry.record)) for o, entry in enumerate(replica.log)]
    boxes += [_box(o, entry, "gone") for o, entry in enumerate(cut, start=replica.leo)]
    x = BOX * replica.hw + 3
    return join(
        [
            rect(0, 4, sheet.width - 12, LANE - 8, "acted") if before != replica else "",
            tag("circle", tag("title", membership), cx=10.0, cy=17.0, r=4.0, class_=dot),
            text(20, 21, role(b, replica), _class(b, replica)),
            *boxes,
            line(x, 26, x, 68, "hw"),
            text(x + 5, 79, f"HW {replica.hw}", "flag hw"),
        ]
    )


def role(b: int, replica: "ModelReplica") -> str:
    """Return ``leader, epoch 1``, ``follows B, epoch 1``, or ``killed``."""
    if replica.process in DOWN:
        return DOWN[replica.process]
    if replica.follows < 0:
        return "follows nobody"
    who = "leader" if replica.follows == b else f"follows {NAMES[replica.follows]}"
    return f"{who}, epoch {replica.epoch}"


def _class(b: int, replica: "ModelReplica") -> str:
    if replica.process in DOWN:
        return "role dead"
    return "role lead" if replica.follows == b else "role"


def _box(offset: int, entry: "LogEntry", state: str) -> Markup:
    x = BOX * offset + 5
    words = f"offset {offset}: {entry.record}, written in epoch {entry.epoch}"
    title = tag("title", f"{words}, cut away" if state == "gone" else words)
    return join(
        [
            rect(x, 30, BOX - 4, HEIGHT, f"cell {state}", title),
            text(x + BOX / 2 - 2, 45, entry.record, f"id {state}", "middle"),
            text(x + BOX / 2 - 2, 58, f"e{entry.epoch}", f"epoch {state}", "middle"),
        ]
    )


def _foot(column: _Column, top: float) -> Markup:
    """Draw the controller's decisions and the clients' knowledge, changes highlighted."""
    now, before = _facts(column.step.after), _facts(column.before)
    return join(
        text(6, top + 17 + 16 * i, words, "fact" if before[i] == words else "fact new")
        for i, words in enumerate(now)
    )


def _facts(state: "State") -> tuple[str, ...]:
    isr = " ".join(NAMES[b] for b in state.isr)
    leads = f"{NAMES[state.leader]} to lead" if state.leader >= 0 else "nobody to lead"
    words = [f"acked {' '.join(state.acked)}"] if state.acked else []
    read = [record for record in state.read if record]
    words += [f"read {' '.join(read)}"] if read else []
    return (f"{leads}, epoch {state.epoch}, ISR {isr}", ", ".join(words))


def _describe(columns: Sequence[_Column]) -> Markup:
    """Describe the columns in words; escaped one by one, since long texts are truncated."""
    return join(f"{_words(column)} " for column in columns)


def _words(column: _Column) -> str:
    contents = "; ".join(
        f"{NAMES[b]} ({role(b, replica)}) holds {' '.join(_contents(replica)) or 'nothing'},"
        f" HW {replica.hw}"
        for b, replica in enumerate(column.step.after.replicas)
    )
    return f"{column.number}. {column.step.says}: {contents}."


def _contents(replica: "ModelReplica") -> list[str]:
    return [entry.record for entry in replica.log]
