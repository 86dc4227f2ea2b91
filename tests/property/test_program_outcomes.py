"""Every outcome of an input, the order of outputs, and strange ones are found exactly.

``HIGHWATER_HISTORIES`` is how many histories (10,000 is what is published), ``HIGHWATER_SEED`` the
first one's seed. Some are whole runs, which the judge is given.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from highwater.checkers.programs.outcomes import (
    DOUBLED,
    HALF,
    INPUT,
    LOST,
    UNREACHED,
    input_outcomes,
    overtaken,
    strange_outputs,
)
from highwater.harness.runs.history import INSTANCES_TABLE, OUTPUTS, OUTPUTS_TABLE
from highwater.harness.runs.plan import PROGRAM_WORKLOAD, Plan, ProgramPlan, Topic
from highwater.harness.runs.store import Run
from tests.property.program_histories import ProgramHistory, drawn
from tests.support.run_builder import RunBuilder
from tests.support.seeds import FIRST, HISTORIES

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

RUNS: Final = max(1, HISTORIES // 15)
KINDS: Final = {
    LOST: "lost-input",
    HALF: "half-input",
    DOUBLED: "doubled-input",
    UNREACHED: "unreached-input",
}


def outputs(history: ProgramHistory) -> pa.Table:
    columns = ["input", "partition", "offset", "timestamp_ms"]
    schema = pa.schema([OUTPUTS.field(name) for name in columns])
    return pa.Table.from_pylist(history.outputs, schema=schema)


def test_outcomes_order_and_strange_outputs_are_found_exactly() -> None:
    seen: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + HISTORIES):
        history = drawn(seed)
        inputs, written = pa.Table.from_pylist([*history.rows], schema=INPUT), outputs(history)
        table = input_outcomes(
            inputs,
            written,
            history.positions,
            complete=history.complete,
            needed=history.needed,
            exempt=history.exempt,
        )
        judged = dict(zip(table["value"].to_pylist(), table["outcome"].to_pylist(), strict=True))
        assert judged == history.expected, seed
        rows = [row for row in history.rows if row["value"] not in history.exempt]
        late = overtaken(pa.Table.from_pylist(rows, schema=INPUT), written)["value"].to_pylist()
        assert {*late} == history.overtaken, seed
        assert len(late) == len({*late}), seed
        assert strange_outputs(inputs, written).num_rows == history.strange, seed
        seen.update(history.expected.values())
        seen.update({"overtaken": len(late), "strange": history.strange})
    assert len(seen) == 8
    assert min(seen.values()) > HISTORIES / 15, seen


def run_of(path: Path, history: ProgramHistory, *, fed: bool) -> Run:
    """The run directory of a history; fed: of the user's own records."""
    topic = Topic(name="orders", partitions=history.partitions)
    program = ProgramPlan(
        command=("service",),
        out="payments",
        outputs=history.needed,
        ordered=True,
        guarantee="exactly-once",
        when="[0-9]",
        feed="orders.jsonl" if fed else "",
    )
    run = RunBuilder(path, kafka="4.4.0", topic=topic, workload=PROGRAM_WORKLOAD)
    run.plan = Plan(
        kafka="4.4.0",
        topic=topic,
        workload=PROGRAM_WORKLOAD,
        program=program,
    )
    ends = Counter(row["partition"] for row in history.rows)
    for row in history.rows:
        run.everywhere([(row["offset"], 0, row["value"])], partition=row["partition"])
    for partition, position in history.positions.items():
        run.fence(ends[partition], partition=partition)
        run.disk((1, 2, 3), [(ends[partition], 0, f"fence-{partition}")], partition=partition)
        run.journal("committed", "reader", position, group="orders-group", partition=partition)
    started_ms = 1_790_000_000_000
    run.rows[OUTPUTS_TABLE] = [
        row | {"kind": "output", "value": "x", "timestamp_ms": started_ms + row["timestamp_ms"]}
        for row in history.outputs
    ]
    read = history.partitions if history.complete else history.partitions - 1
    run.rows[OUTPUTS_TABLE] += [
        {"kind": "end", "partition": partition, "offset": 99} for partition in range(read)
    ]
    run.rows[OUTPUTS_TABLE] += [
        {"kind": "exempt", "partition": 0, "offset": place, "input": name}
        for place, name in enumerate(history.exempt)
    ]
    run.rows[INSTANCES_TABLE] = []
    if not history.complete:
        problems = ("payments was not read to its end.",)
        run.status = msgspec.structs.replace(run.status, problems=problems)
    return run.write()


@pytest.mark.spark
def test_the_judge_counts_them_in_whole_runs(tmp_path: Path, spark: SparkSession) -> None:
    histories = [drawn(seed) for seed in range(FIRST, FIRST + RUNS)]
    runs = [
        run_of(tmp_path / str(number), history, fed=number % 2 == 0)
        for number, history in enumerate(histories)
    ]
    for number, (history, verdict) in enumerate(zip(histories, judge(runs, spark), strict=True)):
        fates = Counter(history.expected.values())
        expected = {kind: fates[fate] for fate, kind in KINDS.items()}
        expected |= {"overtaken-input": len(history.overtaken), "strange-output": history.strange}
        named = any(row["input"] for row in history.outputs)
        if not (history.complete and named):
            assert "not judged" in verdict.checkers["lost-input"], number
            continue
        counts = {kind: verdict.counts.get(kind, 0) for kind in expected}
        assert counts == expected, (number, verdict.reasons)
        assert verdict.ledger.read == len(history.inputs), number
