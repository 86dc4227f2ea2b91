"""Where offsets stand in the version order, held against counting them one by one."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.clients import places
from checkers.clients.places import EXTENT, Extending, Order, keep
from checkers.clients.strides import KNOWN, READS, SENDS

STRETCHES = {-7: [(2, 4), (5, 5), (9, 12)], 3: [(0, 0)], 8: [(1, 1), (3, 9)]}
"""By slot, the stretches of offsets that are known."""


def _order(folder: Path, stretches: dict[int, list[tuple[int, int]]]) -> Order:
    rows = []
    for slot, known in sorted(stretches.items()):
        base = 0
        for low, high in known:
            rows.append({"slot": slot, "low": low, "high": high, "base": base})
            base += high - low + 1
    keep([pa.Table.from_pylist([row], EXTENT) for row in rows], folder)
    return Order(folder)


@pytest.mark.parametrize("slot", [-9, -7, 0, 3, 8, 11])
def test_an_offset_stands_behind_all_known_ones_before_it(tmp_path: Path, slot: int) -> None:
    order = _order(tmp_path, STRETCHES)
    known = [at for low, high in STRETCHES.get(slot, []) for at in range(low, high + 1)]
    asked = np.arange(15)
    before, there = order.before(np.full(15, slot), asked)
    assert before.tolist() == [sum(each < at for each in known) for at in asked]
    assert there.tolist() == [at in known for at in asked]
    index = np.arange(len(known))
    assert order.offset(np.full(len(known), slot), index).tolist() == known


def test_nothing_is_known_of_logs_in_which_nothing_stands(tmp_path: Path) -> None:
    before, there = _order(tmp_path, {}).before(np.array([4]), np.array([0]))
    assert (before.tolist(), there.tolist()) == ([0], [False])


@pytest.mark.parametrize(("most", "named"), [(None, [3, 4, 5, 9]), (2, [3, 4])])
def test_steps_leave_out_what_is_known_between_their_ends(
    tmp_path: Path, most: int | None, named: list[int]
) -> None:
    steps = pa.record_batch({"slot": [-7, 8], "from_place": [2, 0], "delta": [5, 2]})
    ((row, offset),) = _order(tmp_path, STRETCHES).left_out(steps, most)
    assert offset.tolist() == [*named, 1]
    assert row.tolist() == [0] * len(named) + [1]


@pytest.mark.parametrize("together", [2, 1_000_000])
@pytest.mark.parametrize("seed", range(30))
def test_every_offset_that_is_known_is_in_one_stretch(
    seed: int, together: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever overlaps; what only sends are, or reads that prove nothing, is left aside."""
    monkeypatch.setattr(places, "_TOGETHER", together)
    draw, folders = random.Random(seed), [tmp_path / "one", tmp_path / "two"]  # noqa: S311
    known: dict[int, set[int]] = {}
    for folder in folders:
        rows = []
        for _ in range(draw.randrange(12)):
            low, slot = draw.randrange(30), draw.choice((-5, 2, 9))
            row = {"slot": slot, "place": low, "last_place": low + draw.randrange(6)}
            row |= {"what": draw.choice((KNOWN, READS, SENDS)), "sure": draw.random() < 0.7}
            rows.append(row)
            if row["what"] == KNOWN or (row["what"] == READS and row["sure"]):
                known.setdefault(slot, set()).update(range(low, row["last_place"] + 1))
        folder.mkdir()
        pq.write_table(pa.Table.from_pylist(rows, places._KNOWN), folder / "0.parquet")
    extents, scratch = tmp_path / "extents", tmp_path / "scratch"
    extents.mkdir()
    scratch.mkdir()
    Extending(folders, scratch)(0, extents)
    found = pq.read_table(extents / "0.parquet")
    assert found.schema == EXTENT
    stretches = found.to_pylist()
    assert [(one["slot"], one["low"]) for one in stretches] == sorted(
        (one["slot"], one["low"]) for one in stretches
    )
    for slot, offsets in known.items():
        ours = [one for one in stretches if one["slot"] == slot]
        told = [at for one in ours for at in range(one["low"], one["high"] + 1)]
        assert told == sorted(offsets)
        assert [one["base"] for one in ours] == [told.index(one["low"]) for one in ours]
    assert {one["slot"] for one in stretches} == known.keys()
    for slot, offsets in known.items():
        at = np.array(sorted(offsets))
        before, there = Order(extents).before(np.full(len(at), slot), at)
        assert before.tolist() == [*range(len(at))]
        assert there.all()
