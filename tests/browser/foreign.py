"""Every kind of page with each text that was written elsewhere replaced by one of our choosing.

A text is replaced by the same one wherever it stands, and different texts by different ones, so
that pages over harmless and over hostile texts have the same elements, or something got out.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from highwater.harness.campaigns.matrix_cells import MatrixRow
from highwater.harness.campaigns.nightly_cells import CellResult
from highwater.harness.campaigns.nightly_outcome import NightOutcome
from highwater.harness.runs.store import Run
from highwater.reports.html import save
from highwater.reports.pages import (
    comparison,
    counterexample,
    inspection,
    matrix,
    store_index,
    trend,
)
from highwater.reports.pages.run import write
from tests.browser.lineage import lost
from tests.browser.pages import inspected
from tests.browser.sample import TOPIC, Sample, environment
from tests.browser.stories import divergence, loss, valid

Say = Callable[[str], str]
_T = TypeVar("_T")

PIECES: Final = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    '"><svg/onload=alert(3)>',
    "' onfocus=alert(4) autofocus x='",
    "</title></style></textarea></svg></table><iframe src=//example.org>",
    "<!--", "-->", "]]>", "<![CDATA[", "&lt;b&gt;&#60;i&#62;&amp;",
    "{{ 7 * 7 }}{% raw %}{# x #}${7*7}",
    "javascript:alert(5)",
    "\u202ereversed\u2066\u2069\u200f\u061c",
    "\x00\x01\x1b[31m\x07\x7f\x85\ufeff\ufffe",
    "\r\n\t\u2028\u2029",
    "e" + "\u0301" * 40,
    "\U0001f600\u200d\u2764\ufe0f \u4e2d\u6587 \u0627\u0644",
    "$(touch x)`id`;| ",
    "%00%3Cscript%3E../../..",
    "W" * 700,
)  # fmt: skip
"""Markup, quotes, templates, control characters, directions, shells, and sheer length."""

OURS: Final = frozenset({
    "account", "acks", "coordination", "cut", "driver", "kafka", "kind", "night", "phase", "rule",
    "run", "state", "status", "verdict", "what", "who",
})  # fmt: skip
"""Fields whose words are our own, and decide what a page shows."""


def harmless() -> Say:
    """Texts that are ``text0001``, ``text0002``: numbered, so that both kinds sort alike."""
    known: dict[str, str] = {}
    return lambda text: known.setdefault(text, f"text{len(known) + 1:04}")


def hostile(seed: int) -> Say:
    """Texts of several hostile pieces each."""
    dice = random.Random(seed)  # noqa: S311 - a sample, no secret
    known: dict[str, str] = {}

    def say(text: str) -> str:
        pieces = "".join(dice.sample(PIECES[:-1], 4)) + dice.choice((PIECES[-1], ""))
        return known.setdefault(text, f"{len(known) + 1:04}{pieces}")

    return say


def said(value: _T, say: Say, field: str = "") -> _T:
    """A value with every text in it replaced, but for the fields in ``OURS``."""
    found: Any = value
    if isinstance(value, str):
        found = value if field in OURS else say(value)
    elif isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        found = msgspec.structs.replace(
            value, **{name: said(getattr(value, name), say, name) for name in names}
        )
    elif isinstance(value, tuple):
        found = tuple(said(each, say, field) for each in value)
    elif isinstance(value, dict):
        found = {said(k, say, field): said(each, say, field) for k, each in value.items()}
    return found  # type: ignore[no-any-return]


def file_name(text: str) -> str:
    """What may be a file's name: no slash, no NUL, not too long."""
    return text.replace("/", "_").replace("\0", "").encode()[:120].decode("utf-8", "ignore")


def in_foreign_words(made: Sample, say: Say) -> Sample:
    """A run whose records, faults, log lines, names, words of judge and model are others."""
    topic = file_name(say(TOPIC)).replace("\n", "")

    def one(text: str) -> str:
        return topic if text == TOPIC else say(text)

    made.topic = topic
    made.plan = msgspec.structs.replace(
        made.plan,
        topic=msgspec.structs.replace(made.plan.topic, name=topic),
        broker_config=said(dict(made.plan.broker_config), one),
    )
    made.environment = said(environment(), one)
    made.verdict = said(made.verdict, one)
    made.model = said(made.model, one)
    made.status = said(made.status, one)
    made.faults = [(t, f, phase, b, one(says)) for t, f, phase, b, says in made.faults]
    made.faults += [(9.5, one("a fault"), "inject", 2, one("of another"))]
    made.cuts = [(t, b, offset, one(text)) for t, b, offset, text in made.cuts]
    made.sends = [(t, end, offset, one(value)) for t, end, offset, value in made.sends]
    made.disks = {
        broker: {offset: (one(value), epoch) for offset, (value, epoch) in disk.items()}
        for broker, disk in made.disks.items()
    }
    return made


def write_all(store: Path, say: Say) -> dict[str, Path]:
    """Every kind of page in these words."""
    runs = []
    for number, made in enumerate((loss(), divergence(), valid())):
        name = file_name(f"{number} {say(made.verdict.run)}")  # the shelf sorts by name
        other = in_foreign_words(made, say)
        other.judged(run=name)
        runs.append(other.write(store))
    no_utf8 = store / os.fsdecode(file_name(f"9 {say('folder')}").encode() + b"\xff")
    no_utf8.mkdir()
    (no_utf8 / "plan.json").write_bytes((runs[0].path / "plan.json").read_bytes())
    there = store / f"compare-{file_name(say('compared'))}.html"
    return {
        "run": write(runs[0]),
        "forked": write(runs[1]),
        "compared": comparison.write(runs[0], runs[2], there),
        **_others(store, runs, say),
    }


def _others(store: Path, runs: list[Run], say: Say) -> dict[str, Path]:
    found = lost()
    steps = tuple(msgspec.structs.replace(step, says=say(step.says)) for step in found.steps)
    told = msgspec.structs.replace(found, says=say(found.says), steps=steps)
    rows = [_row(runs[0], kafka, store, say) for kafka in ("0.10.2.2", "4.3.1")]
    pages = {
        "matrix": matrix.write(rows, store / "index.html"),
        "trend": trend.write(_night(say), store / "trend.html"),
        "lost": counterexample.write(told, store / "lost.html", runs[:1]),
        "inspect": inspection.write(
            msgspec.structs.replace(
                (whole := inspected(value=say("m3"), topic=say(TOPIC))),
                notes=said(whole.notes, say),
                partitions=tuple(said(one, say, "partitions") for one in whole.partitions),
            ),
            store / "inspect.html",
        ),
    }
    return {**pages, "shelf": save(store / "shelf.html", store_index.page(store))}


def _row(run: Run, kafka: str, store: Path, say: Say) -> MatrixRow:
    row = MatrixRow.of(run, run.verdict(), as_predicted=None, home=store)
    return msgspec.structs.replace(
        row, kafka=kafka, story=say("story"), run=say(run.name), report=say("report"),
        problem=say("problem"),
    )  # fmt: skip


def _night(say: Say) -> NightOutcome:
    mark = CellResult(
        kafka="4.3.1", driver="local", story=say("story"), nemesis=None, acks="all", min_isr=1,
        unclean=False, seed=1, night="2026-11-21", state="bad", why=say("why"),
        canary=say("canary"),
    )  # fmt: skip
    marks = [mark, msgspec.structs.replace(mark, story=say("other"), state="good", canary=None)]
    return NightOutcome(
        night="2026-11-21", marks=marks, history=marks, canaries=[say("canary")],
        problems=[say("problem")], notes=[say("note")],
    )  # fmt: skip
