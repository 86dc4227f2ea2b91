"""Draw a record's events as a strip of frames; a frame shows all replicas near its offset."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from highwater.harness.runs.verdict import Anomaly
from highwater.reports.drawings.replica_frames import Frame, FrameCell, Lane
from highwater.reports.drawings.svg import join, line, rect, svg, tag, text
from highwater.reports.text import short

LABEL: Final = 118.0
CELL: Final = 58.0
HEIGHT: Final = 30.0
LANE: Final = 76.0
TOP: Final = 38.0
RIGHT: Final = 26.0

_SAYS: Final = {
    "subject": "holds {value}",
    "other": "holds another record, {value}",
    "gone": "has truncated {value}",
    "none": "holds nothing",
    "record": "holds {value}",
}


def frame(moment: Frame, anomaly: Anomaly, uid: str) -> Markup:
    """Draw one frame as SVG."""
    around = "" if anomaly.offset is None else f" around offset {anomaly.offset}"
    label = f"Step {moment.number}, {moment.title}: the replicas{around}"
    parts = body(moment, anomaly)
    return svg(*size(moment), label, describe(moment, anomaly), *parts, uid=uid)


def size(moment: Frame) -> tuple[float, float]:
    """Return the width and the height of a frame."""
    return LABEL + CELL * len(moment.lanes[0].cells) + RIGHT, TOP + LANE * len(moment.lanes)


def body(moment: Frame, anomaly: Anomaly) -> list[Markup]:
    """Return the offsets and replicas of a frame as parts of a larger drawing."""
    offsets = []
    for i, cell in enumerate(moment.lanes[0].cells):
        class_ = "axis here" if cell.offset == anomaly.offset else "axis"
        offsets.append(text(_x(i) + CELL / 2, 16, str(cell.offset), class_, "middle"))
    lanes = [_lane(lane, TOP + LANE * i, anomaly) for i, lane in enumerate(moment.lanes)]
    return [text(0, 16, "offset", "axis"), *offsets, *lanes]


def describe(moment: Frame, anomaly: Anomaly) -> str:
    """Describe a frame as text: each replica's role, its record at the offset, LEO and HW."""
    parts = []
    for lane in moment.lanes:
        at = next((c for c in lane.cells if c.offset == anomaly.offset), None)
        says = _SAYS[at.state if at else "none"].format(value=(at and at.value) or "a record")
        holds = "" if anomaly.offset is None else f" {says};"
        offsets = [
            f"{name} {v}" for name, v in (("LEO", lane.leo), ("HW", lane.hw)) if v is not None
        ]
        parts.append(
            f"{lane.called[0].upper()}{lane.called[1:]} ({lane.role}){holds}"
            f" {', '.join(offsets) or 'no LEO known'}."
        )
    return " ".join(parts)


def _x(index: float) -> float:
    return LABEL + CELL * index


def _lane(lane: Lane, top: float, anomaly: Anomaly) -> Markup:
    cells = [_cell(cell, _x(i), top, anomaly) for i, cell in enumerate(lane.cells)]
    marks = _marks(lane, top)
    dot = "isr" if lane.in_isr else "isr out"
    title = "in the ISR" if lane.in_isr else "not in the ISR"
    return tag(
        "g",
        rect(0, top - 6, LABEL - 12, HEIGHT + 12, "acted") if lane.acted else "",
        ""
        if lane.in_isr is None
        else tag("circle", tag("title", title), cx=12.0, cy=top + 8, r=4.0, class_=dot),
        text(22, top + 12, lane.called, "who"),
        text(8, top + 28, lane.role, _role(lane)),
        *cells,
        *marks,
        class_="lane down" if lane.down else "lane",
    )


def _role(lane: Lane) -> str:
    if lane.down:
        return "role dead"
    return "role lead" if lane.role.startswith("leader") else "role"


def _cell(cell: FrameCell, x: float, top: float, anomaly: Anomaly) -> Markup:
    kind = anomaly.kind if cell.state in {"subject", "other"} else ""
    class_ = f"cell {cell.state} {kind}".strip()
    title = tag(
        "title", f"offset {cell.offset}: {_SAYS[cell.state].format(value=cell.value or 'a record')}"
    )
    parts = [rect(x + 1.5, top, CELL - 3, HEIGHT, class_, title)]
    if cell.value and cell.state != "none":
        y = top + (20 if cell.epoch is None else 14)
        parts.append(text(x + CELL / 2, y, short(cell.value), f"id {cell.state}", "middle"))
    if cell.epoch is not None:
        words = f"e{cell.epoch}"
        parts.append(text(x + CELL / 2, top + 25, words, f"epoch {cell.state}", "middle"))
    return join(parts)


def _marks(lane: Lane, top: float) -> list[Markup]:
    """Draw flags for HW and LEO below the cells, and a line at the truncation."""
    first, last = lane.cells[0].offset, lane.cells[-1].offset
    marks: list[Markup] = []
    values = [(name, v) for name, v in (("HW", lane.hw), ("LEO", lane.leo)) if v is not None]
    places = {min(max(v, first), last + 1) for _, v in values}
    if len({v for _, v in values}) == 1 and len(values) > 1:
        marks.append(_flag(f"HW = LEO {lane.leo}", values[0][1], first, last, top, "hw"))
    elif len(places) == 1:
        words = ", ".join(f"{name} {v}" for name, v in values)
        marks.append(_flag(words, values[0][1], first, last, top, values[0][0].lower()))
    else:
        marks += [_flag(f"{n} {v}", v, first, last, top, n.lower()) for n, v in values]
    if lane.cut:
        x = _x(max(lane.cut[1], first) - first)
        marks.append(line(x, top - 9, x, top + HEIGHT + 4, "cutline"))
        words = f"LEO {lane.cut[0]} → {lane.cut[1]}"
        marks.append(text(x + 4, top - 3, words, "cuttext"))
    return marks


def _flag(words: str, offset: int, first: int, last: int, top: float, class_: str) -> Markup:
    """Draw a flag at the left edge of an offset's cell; with an arrow if the cell is outside."""
    place = min(max(offset, first), last + 1)
    arrow = f"← {words}" if offset < first else f"{words} →" if offset > last + 1 else words
    x = _x(place - first)
    bottom = top + HEIGHT
    # The rightmost centre of the words: half of their width left of the drawing's edge.
    edge = _x(last - first + 1) + RIGHT - 3.8 * len(arrow)
    return join(
        [
            line(x, top - 3, x, bottom + 6, class_),
            tag(
                "path",
                d=f"M{x - 4:g} {bottom + 10:g}L{x + 4:g} {bottom + 10:g}L{x:g} {bottom + 4:g}Z",
                class_=class_,
            ),
            text(min(x, edge), bottom + 21, arrow, f"flag {class_}", "middle"),
        ]
    )


def key(anomaly: Anomaly, frames: Sequence[Frame]) -> list[tuple[str, str, str]]:
    """Return the legend of a strip: for each record at the offset (style class, label, id)."""
    keys: dict[str, tuple[str, str, str]] = {}
    for cell in (cell for moment in frames for lane in moment.lanes for cell in lane.cells):
        here = cell.offset == anomaly.offset and cell.state in {"subject", "other"}
        if cell.value and here:
            keys.setdefault(cell.value, (cell.state, short(cell.value), cell.value))
    return list(keys.values())
