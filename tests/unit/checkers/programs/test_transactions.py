"""Aborted inputs that were processed, and transactions that a program left open."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from highwater.checkers.programs.transactions import program_in_transactions
from highwater.checkers.run_files import RunFiles
from tests.support.logdirs import Broker, batch, marker
from tests.unit.checkers.programs.test_habits import put
from tests.unit.checkers.programs.test_inputs import PROGRAM, START_MS, output, tables, written
from tests.unit.checkers.transactions.test_coordinated import (
    ABORTED,
    ABORTING,
    EMPTY,
    ONGOING,
    state,
)


def found(case: RunFiles) -> list[tuple[str, str | None, str]]:
    rows = cast("Any", program_in_transactions.find(tables(case))).to_pylist()
    return [(row["kind"], row["value"], row["copies"][0]["note"]) for row in rows]


def fed(path: Path, *, outputs: int, aborted: int = 6, inputs: int = 6) -> RunFiles:
    """A run with inputs of one transaction each, of which some are aborted and some processed."""
    made = [output(number, 400, f"p0-{number}") for number in range(7, 7 + outputs)]
    case = written(path, *made, output(90, 450, "p0-0"), position=30)
    workload = msgspec.structs.replace(case.plan.workload, transactions=True)
    case.plan = msgspec.structs.replace(case.plan, workload=workload)
    log = b""
    for number in range(inputs):
        record = [(None, f"p0-{7 + number}|".encode())]
        at, commit = 2 * number, number >= aborted
        log += batch(at, record, producer=(3, 0, 0), transactional=True, time_ms=START_MS)
        log += marker(at + 1, producer=3, commit=commit, time_ms=START_MS + 600)
    Broker(case.run.replicas / "1", 1).log("orders-0", log)
    return case


def test_aborted_inputs_were_processed(tmp_path: Path) -> None:
    findings = found(fed(tmp_path, outputs=6))
    assert [(kind, name) for kind, name, _ in findings] == [
        ("aborted-input", f"p0-{number}") for number in range(7, 13)
    ]
    assert "p0-8 at offset 2 of orders-0 was aborted at 0.600 s" in findings[1][2]
    assert "6 of 6 aborted inputs before the committed positions have an output." in findings[0][2]
    assert findings[0][2].endswith("The program: read_uncommitted behind transactions.")


@pytest.mark.parametrize(("outputs", "inputs"), [(4, 4), (5, 6)])
def test_who_processed_some_may_have_been_given_them_by_kafka(
    tmp_path: Path, outputs: int, inputs: int
) -> None:
    findings = found(fed(tmp_path, outputs=outputs, inputs=inputs))
    assert len(findings) == outputs
    assert all(says.endswith("The cause is not known.") for _, _, says in findings)


def test_an_input_that_was_committed_is_none(tmp_path: Path) -> None:
    assert found(fed(tmp_path, outputs=6, aborted=0)) == []


def left(path: Path, *states: bytes, timeout: bool = True, instances: int = 1) -> RunFiles:
    """A run whose producer 7 has begun a transaction at 450 ms; it is killed at 500 ms."""
    end = START_MS + (10_451 if timeout else 800)
    log = (
        state(0, START_MS + 450, ONGOING)
        + state(1, end, ABORTING, epoch=1)
        + state(2, end, ABORTED, epoch=1)
    )
    case = written(
        path, output(0, 300, "p0-0"), states=b"".join([log, *states]), instances=instances
    )
    data = put(0, 460, "p0-0", producer=7, transactional=True)
    Broker(case.run.replicas / "1", 1).log("payments-0", data)
    return case


ANOTHER = state(3, START_MS + 700, ONGOING, name="other")


def test_a_transaction_that_the_next_start_did_not_end(tmp_path: Path) -> None:
    [(kind, _, says)] = found(left(tmp_path, ANOTHER))
    assert kind == "unfinished-transaction"
    assert "open from 0.450 s to 10.451 s" in says
    assert "instance 0 was killed at 0.500 s, and later starts had 1 other" in says
    assert says.endswith("The program: transactional id new at each start.")


def test_a_transaction_that_is_ended_in_order(tmp_path: Path) -> None:
    begun_again = state(3, START_MS + 10_500, EMPTY, epoch=2)
    assert found(left(tmp_path / "1", begun_again, state(4, START_MS + 10_600, ONGOING))) == []
    assert found(left(tmp_path / "2", ANOTHER, timeout=False)) == []
    assert found(left(tmp_path / "3")) == []  # nobody came after it
    of_another = left(tmp_path / "4", ANOTHER, instances=2)
    assert found(of_another) == []  # the other id is the other instance's


def test_a_transaction_that_another_instance_ended(tmp_path: Path) -> None:
    states = state(0, START_MS + 700, ONGOING) + state(1, START_MS + 800, ABORTING, epoch=1)
    case = written(tmp_path, output(0, 300, "p0-0"), states=states)
    data = put(0, 750, "p0-0", producer=7, transactional=True)
    Broker(case.run.replicas / "1", 1).log("payments-0", data)
    assert found(case) == []
    program = msgspec.structs.replace(PROGRAM, instances=2)
    case.plan = msgspec.structs.replace(case.plan, program=program)
    [(kind, _, says)] = found(case)
    assert kind == "unfinished-transaction"
    assert says.endswith("The program: transactional id shared by instances.")
