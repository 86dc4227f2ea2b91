"""Strides linked to steps, against one rule after the other in plain Python."""

import random
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.clients import linking
from checkers.clients.linking import LINKED, PAIR, STRIDE, Linking

Row = dict[str, Any]
_OF_PAIR = itemgetter(*PAIR)


def link(tmp_path: Path, *folders: list[Row]) -> list[Row]:
    """The steps of strides that lie in several folders."""
    paths = []
    for number, rows in enumerate(folders):
        paths.append(tmp_path / f"strides-{number}")
        paths[-1].mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, STRIDE), paths[-1] / "0.parquet")
    steps, scratch = tmp_path / "steps", tmp_path / "scratch"
    steps.mkdir()
    scratch.mkdir()
    Linking(paths, scratch)(0, steps)
    assert not [*scratch.iterdir()]
    found = pq.read_table(steps / "0.parquet")
    assert found.schema == LINKED
    told: list[Row] = found.to_pylist()
    return told


def expected(rows: list[Row]) -> Iterator[Row]:
    """The steps of some strides, by the words of ``checkers.clients.sequence``."""
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
    step = {name: row[name] for name in (*PAIR, "op", "at", "place")}
    step |= {"inner": inner, "overlaps": overlaps}
    for name in ("op", "at", "place"):
        step[f"from_{name}"] = None if begin is None else begin[f"last_{name}"]
    return step | {"sought": begin is not None and bool(begin["sought"])}


def _in_order(steps: list[Row]) -> list[Row]:
    return sorted(steps, key=itemgetter(*PAIR, "op", "at"))


def _drawn(seed: int, *, tangled: bool) -> list[Row]:
    """Strides of two clients in two slots, both ways; some fail, some begin at places sought."""
    draw, rows = random.Random(seed), []  # noqa: S311
    for pair in ((client, slot, sent) for client in (1, 2) for slot in (3, 4) for sent in (0, 1)):
        at = op = place = 0
        for _ in range(draw.randrange(9)):
            ops, length = draw.choice(((0, 1), (1, 1), (1, 1), (2, 3))), draw.randrange(3)
            op += ops[0]
            row = dict(zip(PAIR, pair, strict=True)) | {"sent": bool(pair[2])}
            row |= {"op": op, "at": at, "place": max(0, place + draw.choice((0, 0, 0, 1, -2)))}
            longer = draw.randrange(2) if tangled else 0
            row |= {"last_op": op + longer, "last_at": at + length}
            row |= {"last_place": row["place"] + length}
            row |= {"ok": draw.random() < 0.8, "sought": not pair[2] and draw.random() < 0.1}
            rows.append(row)
            at, place = at + length + 1, row["last_place"] + 1
    draw.shuffle(rows)
    return rows


@pytest.mark.parametrize("together", [3, 1_000_000])
@pytest.mark.parametrize("seed", range(40))
def test_steps_are_found_as_plain_words_find_them(
    seed: int, together: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "TOGETHER", together)
    rows = _drawn(seed, tangled=False)
    half = len(rows) // 2
    found = link(tmp_path, rows[:half], rows[half:])
    assert _in_order(found) == _in_order([*expected(rows)])


@pytest.mark.parametrize("seed", range(40))
def test_a_sequence_whose_strides_overlap_is_known_by_neighbours(seed: int, tmp_path: Path) -> None:
    """Whichever strides overlap, those that stand side by side do, too."""
    rows = _drawn(seed, tangled=True)
    found = {_OF_PAIR(step) for step in link(tmp_path, rows) if step["overlaps"]}
    assert found == {_OF_PAIR(step) for step in expected(rows) if step["overlaps"]}


def test_rows_that_are_no_strides_are_passed_over(tmp_path: Path) -> None:
    row = dict.fromkeys(STRIDE.names, 1) | {"ok": True, "sought": None}
    known, read = row | {"sent": None}, row | {"sent": False}
    later = read | {"op": 2, "last_op": 2, "place": 5, "last_place": 5}
    steps = link(tmp_path, [known, later, read])
    assert [(step["from_place"], step["place"], step["sought"]) for step in steps] == [
        (1, 5, False)
    ]
    assert link(tmp_path / "none", [known]) == []
