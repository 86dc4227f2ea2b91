"""The anomalies that a verdict lists, where a run has more than it can list."""

from pathlib import Path

import pyarrow as pa

from highwater.checkers.anomaly_files import LISTED_MAX, Target, _bring
from highwater.checkers.core.anomaly import SCHEMA


def test_those_with_steps_are_listed_before_the_others_and_in_order(tmp_path: Path) -> None:
    step = {"process": "judge", "kind": "mistake"}
    rows = [
        {"run": "r0", "kind": "lost-input", "offset": offset, "steps": [step] * (offset % 3 == 0)}
        for offset in range(2 * LISTED_MAX)
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    counts = _bring(table, Target(name="a-run", path=tmp_path / "anomalies.parquet"))
    assert counts.counts == {"lost-input": 2 * LISTED_MAX}
    offsets = [row["offset"] for row in counts.listed]
    with_steps = [*range(0, 2 * LISTED_MAX, 3)]
    assert len(offsets) == LISTED_MAX
    assert offsets == sorted(offsets)
    assert {*with_steps} <= {*offsets}
    assert {*offsets} - {*with_steps} == {*[n for n in range(2 * LISTED_MAX) if n % 3][:33]}
