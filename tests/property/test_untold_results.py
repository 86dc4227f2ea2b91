"""Results dropped from Jepsen's histories accuse nobody, and hide nothing else.

Of every history two are judged: as it was, which says what is really there, and with some results
left out. ``HIGHWATER_HISTORIES`` is how many histories, ``HIGHWATER_SEED`` the first one's seed.
"""

import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.anomalies.find import find
from highwater.checkers.anomaly_files import gather
from highwater.checkers.cycles import cycles
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.jepsen import untold
from highwater.checkers.jepsen.history_file import History, Read
from highwater.checkers.jepsen.jepsen_fields import CYCLES, entry
from highwater.checkers.jepsen.judge import allowed
from highwater.checkers.run_rows import in_order
from highwater.checkers.spark.engine import Engine
from tests.property.draft import put
from tests.property.generate import history
from tests.property.inject import INJECTIONS
from tests.property.inject_cycles import BY_READS
from tests.support.edn_histories import Written, written
from tests.support.seeds import FIRST, histories

pytestmark = [pytest.mark.drawn, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(14_400)]

LOG: Final = logging.getLogger(__name__)
COUNT: Final = histories(40, 2000)
SHARES: Final = (0.03, 0.1, 0.3, 1.0)
INJECTED: Final = [None, *(INJECTIONS | BY_READS).values()]

ABSENT: Final = ("lost-write", "unseen", "vanished")
"""Kinds that say that something was not read; with less known, one may pass for another."""

Fact = tuple[str, Any, Any]
Found = dict[Fact, set[int]]
"""What is wrong with which record, or between a client's operations on which key; and the lines
that show it."""


@dataclass(slots=True)
class Judged:
    """A history as it was and with results left out, and what stands of each."""

    whole: Found
    parts: Found
    full: Written
    less: Written
    read: Read
    breaks: bool


def _standing(
    anomalies: pa.Table, opened: History, read: Read, operations: Path
) -> tuple[Found, int]:
    """Return what stands of a history's anomalies, and how many of them break a promise."""
    hides = untold.Hiding(read.untold, operations)
    kept = untold.chosen(anomalies, hides=hides, hidden=False)
    found: Found = {}
    harmless = allowed(read.subscribed, ww=False)
    for row in kept.to_pylist():
        anomaly = entry(row, opened)
        lines = {witness["index"] for witness in anomaly["witnesses"]}
        found.setdefault(_fact(anomaly), set()).update(lines)
    return found, sum(kind not in harmless for kind in kept["kind"].to_pylist())


def _fact(anomaly: dict[str, Any]) -> Fact:
    kind = anomaly["kind"]
    if kind in CYCLES:
        return "cycle", None, None
    if kind in ABSENT:
        return "absent", anomaly["key"], anomaly["value"]
    if anomaly.get("delta") is not None:
        return kind.removeprefix("int-"), anomaly["key"], None
    return kind, anomaly["key"], anomaly["offset"] if kind.startswith("inc") else anomaly["value"]


def _either(fact: Fact, whole: Found) -> bool:
    """Return whether the record was read, but before it was sent, or by a client that went back.

    Where that poll is not told, the record was not read, or so it was: it is broken either way.
    """
    back = {("cycle", None, None), ("nonmonotonic-poll", fact[1], None)}
    return fact[0] == "absent" and bool(back & whole.keys())


def _hides(fact: Fact, lines: set[int], one: Judged) -> bool:
    """Return whether any result that was left out has to do with what was found.

    Of a record that nobody read: whether its poll ended after it was sent. Of a poll that passed
    over records: whether its client polled, or was assigned, or the result named the same key.
    """
    dropped = one.less.dropped
    if fact[0] == "absent":
        return max(dropped, default=-1) > min(one.less.asked.get(line, line) for line in lines)
    if fact[0] != "poll-skip":
        return False
    theirs = {one.full.lines[line].split(", :f ")[0].split(":process ")[1] for line in lines}
    return any(
        f":send {fact[1]} " in text
        or f"{fact[1]} [[" in text
        or text.split(", :f ")[0].split(":process ")[1] in theirs
        for text in (one.full.lines[line] for line in dropped)
    )


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Judged]:
    """By seed; all histories in one pass."""
    folder = tmp_path_factory.mktemp("untold")
    texts: dict[int, tuple[Written, Written]] = {}
    for seed in range(FIRST, FIRST + COUNT):
        inject = INJECTED[seed % len(INJECTED)]
        world = history(seed)
        ops = put(world, seed, inject)[1] if inject else world.ops
        dice = Random(seed)  # noqa: S311 - histories are no secrets
        share = SHARES[seed // len(INJECTED) % len(SHARES)]
        texts[seed] = written(ops), written(ops, dice, share)
    files: dict[str, tuple[History, Read, Path]] = {}
    for seed, pair in texts.items():
        for half, one in zip("wp", pair, strict=True):
            path = folder / f"{half}{seed}.edn"
            path.write_text(one.text, "utf-8")
            part = folder / "operations" / f"run={half}{seed}" / "part.parquet"
            part.parent.mkdir(parents=True)
            files[f"{half}{seed}"] = History(path), History(path).to_parquet(part), part
    found: dict[str, Found] = {name: {} for name in files}
    breaks: Counter[str] = Counter()
    operations = in_order(spark.read.parquet(str(folder / "operations")))
    with Engine(spark) as engine:
        view = ClientHistory(engine, operations, sum(read.rows for _, read, _ in files.values()))
        rows = gather(engine, [find(view), *filter(None, [cycles.find(view, ww=False)])])
        every = rows.table()
    rows_of: dict[str, list[int]] = {}
    for place, name in enumerate(every["run"].to_pylist()):
        rows_of.setdefault(name, []).append(place)
    for name, places in rows_of.items():
        found[name], breaks[name] = _standing(every.take(places), *files[name])
    return {
        seed: Judged(
            found[f"w{seed}"],
            found[f"p{seed}"],
            full,
            less,
            files[f"p{seed}"][1],
            breaks[f"p{seed}"] > 0,
        )
        for seed, (full, less) in texts.items()
    }


def test_nothing_is_said_that_the_whole_history_does_not_show(judged: dict[int, Judged]) -> None:
    wrong = {seed: set(one.parts) - set(one.whole) for seed, one in judged.items()}
    for seed, facts in wrong.items():
        assert all(_either(fact, judged[seed].whole) for fact in facts), (seed, facts)


def test_what_is_left_out_is_said(judged: dict[int, Judged]) -> None:
    for seed, one in judged.items():
        if one.less.dropped:
            assert one.read.untold.doubts(Counter()), seed


def test_what_is_seen_in_spite_of_it_stays_found(judged: dict[int, Judged]) -> None:
    kept = Counter[str]()
    for seed, one in judged.items():
        for fact, lines in one.whole.items():
            if lines & one.less.dropped or _hides(fact, lines, one):
                continue
            if fact[0] not in ("cycle", "send-skip", "nonmonotonic-send"):
                assert fact in one.parts, (seed, fact)
                kept[fact[0]] += 1
    assert kept
    if COUNT >= 2000:
        assert set(kept) >= {"absent", "duplicate", "inconsistent-offsets", "G1a", "phantom"}


def test_some_are_broken_and_some_hide_all_of_it(judged: dict[int, Judged]) -> None:
    some = [one for one in judged.values() if one.less.dropped]
    broken = sum(one.breaks for one in some)
    hidden = sum(bool(one.whole) and not one.parts for one in some)
    LOG.info("%d with results left out, %d broken, %d all hidden", len(some), broken, hidden)
    assert broken
    assert hidden
