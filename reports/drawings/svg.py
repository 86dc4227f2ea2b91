"""Functions that return SVG markup: elements, scales, axis ticks and bars.

The page's style sheet sets the colours by class name, so that drawings follow light and dark mode.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from highwater.reports.text import plain


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element; ``stroke_width`` becomes ``stroke-width``, ``class_`` becomes ``class``.

    Attributes that are None are left out. Children that are not Markup are escaped; attribute
    values are always escaped.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None:
            continue
        text = number(value) if isinstance(value, float) else str(value)
        words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    inner = join(children)
    opening = " ".join(words)
    return Markup(f"<{opening}>{inner}</{name}>" if inner else f"<{opening}/>")  # noqa: S704 - escaped above


def join(parts: Iterable[str]) -> Markup:
    """Concatenate parts; escape those that are not Markup."""
    return Markup("").join(p if isinstance(p, Markup) else escape(plain(p)) for p in parts)


def number(value: float) -> str:
    """Format a coordinate with at most one decimal and no trailing zero."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # adding 0 turns -0 into 0


def text(x: float, y: float, words: str, class_: str = "", anchor: str | None = None) -> Markup:
    """Return a line of text with its baseline at ``y``."""
    return tag("text", words, x=float(x), y=float(y), class_=class_ or None, text_anchor=anchor)


def rect(x: float, y: float, width: float, height: float, class_: str, *extra: str) -> Markup:
    """Return a rectangle; ``extra`` are children, such as a title."""
    shape = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return tag("rect", *extra, **shape, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    ends = {"x1": float(x1), "y1": float(y1), "x2": float(x2), "y2": float(y2)}
    return tag("line", **ends, class_=class_)


def svg(
    width: float,
    height: float,
    label: str,
    about: str,
    *children: str,
    uid: str,
    xmlns: str | None = None,
) -> Markup:
    """Return a whole drawing with a title and a description for screen readers.

    A drawing in a separate file needs ``xmlns``, a namespace.
    """
    return tag(
        "svg",
        tag("title", label, id=f"{uid}-t"),
        tag("desc", about, id=f"{uid}-d"),
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=float(width),
        height=float(height),
        role="img",
        xmlns=xmlns,
        aria_labelledby=f"{uid}-t {uid}-d",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A linear map from ``[lo, hi]`` to ``[start, end]``; if ``lo == hi``, to the middle."""

    lo: float
    hi: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Map a value; clamp values outside the domain to its nearer end."""
        if self.hi <= self.lo:
            return (self.start + self.end) / 2
        share = (value - self.lo) / (self.hi - self.lo)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def ticks(hi: float) -> list[float]:
    """Return about ten round numbers from 0 to ``hi``, 1, 2 or 5 times 10^n apart."""
    if hi <= 0:
        return [0.0]
    raw = hi / 10
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    return [round(i * step, 9) for i in range(int(hi / step + 1e-9) + 1)]


def steps(points: Sequence[tuple[float, float]]) -> str:
    """Return a path of steps through points: each value lasts until the next point."""
    if not points:
        return ""
    (x, y), *rest = points
    words = [f"M{number(x)} {number(y)}"]
    for next_x, next_y in rest:
        words.append(f"H{number(next_x)}")
        if number(next_y) != number(y):
            words.append(f"V{number(next_y)}")
        y = next_y
    return "".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One part of a bar: its count, its name and its colour class."""

    count: int
    name: str
    class_: str


def bar(x: float, y: float, width: float, height: float, shares: Sequence[Share]) -> Markup:
    """Draw a stacked bar; a share above zero is at least 6 wide, so that one record is visible."""
    present = [share for share in shares if share.count > 0]
    total = sum(share.count for share in present)
    if not total:
        return rect(x, y, width, height, "bar-empty")
    wide = [max(6.0, width * share.count / total) for share in present]
    surplus = sum(wide) - width
    largest = wide.index(max(wide))
    wide[largest] -= surplus
    parts = []
    for share, share_width in zip(present, wide, strict=True):
        title = tag("title", f"{share.name}: {share.count:,} of {total:,}")
        parts.append(rect(x, y, share_width, height, f"bar {share.class_}", title))
        if share.class_ == "lost":
            parts.append(rect(x, y, share_width, height, "bar hatched"))
        words = (f"{share.count:,} {share.name}", f"{share.count:,}")
        label = next((w for w in words if share_width >= 8 * len(w) + 12), "")
        if label:
            parts.append(text(x + share_width / 2, y + height / 2 + 5, label, "bar-n", "middle"))
        x += share_width
    return join(parts)
