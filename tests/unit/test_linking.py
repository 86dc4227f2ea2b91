"""Strides linked to steps, against one rule after the other in plain Python."""

import random
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pytest

from checkers.clients.steps import SEQUENCE, Links

Row = dict[str, Any]
_OF_PAIR = itemgetter(*SEQUENCE)
_COLUMNS = ("op", "at", "place", "last_op", "last_at", "last_place", "ok", "sought")


def link(rows: list[Row]) -> list[Row]:
    """The steps of strides that are odd or overlap."""
    ordered = sorted(rows, key=itemgetter(*SEQUENCE, "op", "at"))
    if not ordered:
        return []
    columns = {name: np.array([row[name] for row in ordered]) for name in (*SEQUENCE, *_COLUMNS)}
    links = Links.of(columns)
    at = np.flatnonzero(links.overlaps | links.odd)
    found = links.steps(at)
    told = [
        dict(zip(found, each, strict=True))
        for each in zip(*(column.tolist() for column in found.values()), strict=True)
    ]
    none = {f"from_{name}": None for name in ("op", "at", "place")} | {"sought": False}
    begins = links.begin[at].tolist()
    return [step | (none if begin < 0 else {}) for step, begin in zip(told, begins, strict=True)]


def expected(rows: list[Row]) -> Iterator[Row]:
    """The steps of some strides, by the words of ``checkers.clients.steps``."""
    for _, sequence in groupby(sorted(rows, key=_OF_PAIR), key=_OF_PAIR):
        past: list[Row] = []
        for row in sorted(sequence, key=itemgetter("op", "at")):
            inner = bool(past) and past[-1]["last_op"] == row["op"]
            good = [one for one in past if one["ok"]]
            begin = past[-1] if inner else good[-1] if good else None
            overlaps = any(_end(one) > (row["op"], row["at"]) for one in past)
            if overlaps or (begin is not None and _odd(row, begin, inner=inner)):
                yield _step(row, begin, inner=inner, overlaps=overlaps)
            past.append(row)


def _end(row: Row) -> tuple[int, int]:
    return row["last_op"], row["last_at"]


def _odd(row: Row, begin: Row, *, inner: bool) -> bool:
    back = row["place"] <= begin["last_place"]
    if row["sought"] or (begin["sought"] and (inner or back)):
        return False
    if row["sent"] and not inner:
        return bool(row["ok"]) and back
    return bool(row["place"] != begin["last_place"] + 1)


def _step(row: Row, begin: Row | None, *, inner: bool, overlaps: bool) -> Row:
    step = {name: row[name] for name in (*SEQUENCE, "op", "at", "place")}
    step |= {"inner": inner, "overlaps": overlaps}
    for name in ("op", "at", "place"):
        step[f"from_{name}"] = None if begin is None else begin[f"last_{name}"]
    return step | {"sought": begin is not None and bool(begin["sought"])}


def _in_order(steps: list[Row]) -> list[Row]:
    return sorted(steps, key=itemgetter(*SEQUENCE, "op", "at"))


def _drawn(seed: int, *, tangled: bool) -> list[Row]:
    """Strides of two clients in two slots, both ways; some fail, some begin at places sought."""
    draw, rows = random.Random(seed), []  # noqa: S311
    for pair in ((client, slot, sent) for client in (1, 2) for slot in (3, 4) for sent in (0, 1)):
        at = op = place = 0
        for _ in range(draw.randrange(9)):
            ops, length = draw.choice(((0, 1), (1, 1), (1, 1), (2, 3))), draw.randrange(3)
            op += ops[0]
            row = dict(zip(SEQUENCE, pair, strict=True)) | {"sent": bool(pair[2])}
            row |= {"op": op, "at": at, "place": max(0, place + draw.choice((0, 0, 0, 1, -2)))}
            longer = draw.randrange(2) if tangled else 0
            row |= {"last_op": op + longer, "last_at": at + length}
            row |= {"last_place": row["place"] + length}
            row |= {"ok": draw.random() < 0.8, "sought": not pair[2] and draw.random() < 0.1}
            rows.append(row)
            at, place = at + length + 1, row["last_place"] + 1
    draw.shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(80))
def test_steps_are_found_as_plain_words_find_them(seed: int) -> None:
    rows = _drawn(seed, tangled=False)
    assert _in_order(link(rows)) == _in_order([*expected(rows)])


@pytest.mark.parametrize("seed", range(40))
def test_a_sequence_whose_strides_overlap_is_known_by_neighbours(seed: int) -> None:
    """Whichever strides overlap, those that stand side by side do, too."""
    rows = _drawn(seed, tangled=True)
    found = {_OF_PAIR(step) for step in link(rows) if step["overlaps"]}
    assert found == {_OF_PAIR(step) for step in expected(rows) if step["overlaps"]}
