"""A record that was acknowledged to a program without input is in its topic, once."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.checkers.programs.acknowledged import acknowledged, nothing_acknowledged
from highwater.checkers.programs.inputs import inputs, no_inputs
from highwater.checkers.run_files import RunFiles
from highwater.harness.runs.history import REQUESTS, REQUESTS_TABLE
from tests.support.logdirs import batch
from tests.unit.checkers.programs.test_inputs import output, tables, written
from tests.unit.checkers.programs.test_mistakes import S
from tests.unit.checkers.programs.test_requests import TO_OUTPUT


def said(offset: int, name: str) -> dict[str, Any]:
    return {"kind": "acknowledged", "partition": 0, "offset": offset, "input": name}


def produced(path: Path, *rows: dict[str, Any], disk: bytes = b"", whole: bool = True) -> RunFiles:
    """A run of a program that was fed nothing, and a disk of its topic."""
    case = written(path, *rows, whole=whole)
    workload = msgspec.structs.replace(case.plan.workload, producers=0)
    case.plan = msgspec.structs.replace(case.plan, workload=workload)
    folder = case.run.replicas / "2" / "payments-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(disk)
    return case


def found(case: RunFiles) -> dict[str, tuple[str, str]]:
    rows = cast("Any", acknowledged.find(tables(case))).to_pylist()
    return {row["value"]: (row["kind"], row["copies"][0]["note"]) for row in rows}


def test_what_is_there_once_is_right(tmp_path: Path) -> None:
    # p0-2 was written, and nobody was told
    case = produced(tmp_path, said(0, "p0-1"), output(0, 300, "p0-1"), output(1, 300, "p0-2"))
    assert found(case) == {}
    assert nothing_acknowledged(tables(case), case) == ""
    assert no_inputs(tables(case), case) == "the program has no input"
    assert cast("Any", inputs.find(tables(case))).num_rows == 0


@pytest.mark.parametrize(
    ("disk", "says"),
    [
        (b"", "payments has no record of it. The cause is not known."),
        (
            batch(7, [(None, b"p0-1|..")]),
            "broker 2 has it at offset 7 of payments-0, and other brokers",
        ),
        (
            batch(7, [(None, b"p0-1|..")], producer=(5, 0, 0), transactional=True),
            "not committed. This is a mistake of the program: it printed before the commit.",
        ),
    ],
)
def test_what_is_not_there_is_lost(tmp_path: Path, disk: bytes, says: str) -> None:
    case = produced(tmp_path, said(0, "p0-1"), said(1, "p0-2"), output(0, 300, "p0-2"), disk=disk)
    [(name, (kind, sentence))] = found(case).items()
    assert (name, kind) == ("p0-1", "lost-output")
    assert sentence.startswith("p0-1 was acknowledged, as instance 0 printed, and")
    assert says in sentence


@pytest.mark.parametrize(("sequence", "named"), [(3, True), (4, False)])
def test_a_record_with_the_sequence_number_of_another_is_the_programs_mistake(
    tmp_path: Path, sequence: int, named: bool
) -> None:
    disk = batch(7, [(None, b"p0-1|..")], producer=(5, 0, 3))
    case = produced(tmp_path, said(0, "p0-2"), output(7, 300, "p0-1"), disk=disk)
    sent = {**TO_OUTPUT, "time_ns": 2 * S, "answered_ns": 3 * S, "records": 1}
    sent |= {"partition": 0, "offset": 7, "error": 0}
    records = batch(0, [(None, b"p0-2|..")], producer=(5, 0, sequence))
    path = tmp_path / "requests.parquet"
    pq.write_table(pa.Table.from_pylist([{**sent, "batch": records}], REQUESTS), path)
    case.tables[REQUESTS_TABLE] = path
    [(name, (kind, sentence))] = found(case).items()
    assert (name, kind) == ("p0-2", "lost-output")
    assert (
        "A broker acknowledged its Produce at 3.000 s with offset 7 of payments-0. This offset "
        "has p0-1, which"
        " the same producer had sent with the same sequence number (3). The program did it:"
        " sequence number of another record. Update the client." in sentence
    ) == named


def test_what_is_there_twice_is_doubled(tmp_path: Path) -> None:
    case = produced(tmp_path, said(0, "p0-1"), output(0, 300, "p0-1"), output(1, 400, "p0-1"))
    assert found(case)["p0-1"][0] == "doubled-output"
    assert "payments has 2 records of it" in found(case)["p0-1"][1]


def test_what_was_acknowledged_twice_may_be_there_twice(tmp_path: Path) -> None:
    rows = [said(0, "p0-1"), said(1, "p0-1"), output(0, 300, "p0-1"), output(1, 400, "p0-1")]
    assert found(produced(tmp_path, *rows)) == {}


def test_nothing_is_lost_where_the_topic_was_not_read(tmp_path: Path) -> None:
    case = produced(tmp_path, said(0, "p0-1"), output(0, 300, "p0-2"), whole=False)
    assert found(case) == {}
    assert "was not read" in nothing_acknowledged(tables(case), case)


def test_a_program_with_an_input_acknowledges_nothing(tmp_path: Path) -> None:
    case = written(tmp_path, output(0, 300, "p0-0"))
    assert found(case) == {}
    assert nothing_acknowledged(tables(case), case) == "the program has an input"
