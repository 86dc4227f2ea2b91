"""The tables of client libraries under faults: what a later run replaces, a client that hangs."""

from highwater.campaigns.matrix_plan import lay_out
from highwater.harness.campaigns.matrix_cells import Axes
from tests.support.matrices import row
from tools.client_addresses import REPEATS
from tools.client_addresses import merged as added
from tools.client_matrix import MIXES
from tools.client_refusals import refusals
from tools.clients_page import (
    ABORTED,
    ELSEWHERE,
    IN_THE_LOG,
    NOT_IN_THE_LOG,
    WORKS,
    ClientAddress,
    ClientRefusal,
    address_lines,
    fault_tables,
    merged,
    of_cell,
    read_addresses,
    read_refusals,
    refusal_table,
)

AXES = Axes(
    kafkas=("4.4.0",),
    nemeses=tuple(tuple(mix.split(",")) for mix in MIXES),
    acks=("1", "all"),
    clients=("java", "aiokafka"),
    deliveries=("plain", "idempotent", "transactional"),
)
COLUMNS = (
    "plain, acks=1",
    "plain",
    "idempotent",
    "transactional",
    "transactional, coordinators moved",
)


def test_what_cannot_be_asked_is_not_played() -> None:
    played = {(cell.delivery, cell.acks, cell.nemesis) for cell in lay_out(AXES).cells}
    assert {(delivery, acks) for delivery, acks, mix in played if mix == MIXES[0]} == {
        ("plain", "1"),
        ("plain", "all"),
        ("idempotent", "all"),
        ("transactional", "all"),
    }
    assert {(delivery, acks) for delivery, acks, mix in played if mix == MIXES[1]} == {
        ("transactional", "all")
    }


def test_a_later_run_is_in_the_place_of_the_earlier_one() -> None:
    cells = [cell for cell in lay_out(AXES).cells if cell.client == "java"]
    before = [of_cell(row(cell, acknowledged=1000), ()) for cell in cells]
    why = "harness failed while healing: producer-0 did not end within 42 s"
    moved = next(cell for cell in cells if cell.nemesis == MIXES[1])
    hung = of_cell(row(moved, verdict="unknown", problem=why, model=None), ("java 4.4.0",))
    rows = merged(before, [hung])
    assert fault_tables(rows).splitlines() == [
        "",
        f"| 4.4.0 | {' | '.join(COLUMNS)} |",
        "|---|---|---|---|---|---|",
        "| java 4.4.0 | 1,000 | 1,000 | 1,000 | 1,000 | hung |",
        "",
        "Not explained: none.",
    ]
    assert fault_tables([*rows, of_cell(row(cells[0], model="unexplained"), ())]).endswith(
        "Not explained: java plain, acks=1 4.4.0."
    )


def test_errors_alike_are_in_one_line() -> None:
    results = {
        ("COORDINATOR_NOT_AVAILABLE", "a 1"): (WORKS, 1),
        ("COORDINATOR_NOT_AVAILABLE", "b 2"): (ABORTED, 1),
        ("NOT_COORDINATOR", "a 1"): (WORKS, 1),
        ("NOT_COORDINATOR", "b 2"): (ABORTED, 1),
        ("UNKNOWN_SERVER_ERROR", "b 2"): (IN_THE_LOG, 9),
        ("REQUEST_TIMED_OUT", "b 2"): (WORKS, 1),
    }
    places = {error: ("EndTxn", True) for error, _ in results}
    results["ILLEGAL_GENERATION", "a 1"] = (NOT_IN_THE_LOG, 10)
    places["ILLEGAL_GENERATION"] = ("OffsetCommit", False)
    rows = [
        ClientRefusal(
            client=library[0],
            library=library,
            api=places[error][0],
            error=error,
            acted=places[error][1],
            result=result,
            said="",
            times=times,
            plays=10,
        )
        for (error, library), (result, times) in results.items()
    ]
    assert refusal_table(rows).splitlines() == [
        "| | | a 1 | b 2 |",
        "|---|---|---|---|",
        "| EndTxn, after | `COORDINATOR_NOT_AVAILABLE`, `NOT_COORDINATOR` | ✓ | ↺ |",
        "| EndTxn, after | `UNKNOWN_SERVER_ERROR` |  | **in the log** 9/10 |",
        "| OffsetCommit, before | `ILLEGAL_GENERATION` | **not in the log** 10/10 | — |",
    ]


def test_what_was_played_is_legal() -> None:
    played = {(row.api, row.error, row.acted) for row in read_refusals()}
    assert played <= set(refusals())


def trial(broker: str, client: str, results: dict[str, str], brokers: int = 1) -> ClientAddress:
    counts = {action: {result: 1} for action, result in results.items()}
    return ClientAddress(broker=broker, brokers=brokers, client=client, version="1", results=counts)


def test_clients_alike_are_in_one_line() -> None:
    trials = [
        trial("3.9.2", "a", {"plain": ELSEWHERE, "idempotent": ELSEWHERE}),
        trial("3.9.2", "b", {"plain": ELSEWHERE, "idempotent": ELSEWHERE}),
        trial("4.4.0", "a", {"plain": ELSEWHERE, "idempotent": ELSEWHERE}),
        trial("4.4.0", "b", {"plain": "REFUSED", "idempotent": ELSEWHERE}),
    ]
    assert address_lines(trials).splitlines() == [
        "- `a`, `b` (3.9.2): plain and idempotent: written elsewhere",
        "- `b` (4.4.0): plain: `REFUSED`; idempotent: written elsewhere",
    ]


def test_trials_that_differ_are_counted() -> None:
    trials = [
        trial("3.9.2", "a", {"plain": ELSEWHERE, "transactional": "FENCED"}, brokers=2),
        trial("4.4.0", "a", {"plain": WORKS, "transactional": WORKS}),
        trial("4.4.0", "a", {"plain": "TIMED_OUT"}),
        trial("4.4.0", "a", {"plain": WORKS, "transactional": WORKS}),
    ]
    rows = added(trials)
    assert [(row.brokers, row.broker) for row in rows] == [(1, "4.4.0"), (2, "3.9.2")]
    assert rows == added(rows)
    assert [address_lines([row]) for row in rows] == [
        "- `a`: plain: `TIMED_OUT` 1/3, ✓ 2/3; transactional: ✓\n",
        "- `a`: plain: written elsewhere\n",
    ]


def test_each_client_has_all_its_trials() -> None:
    for client in read_addresses():
        played = {sum(results.values()) for results in client.results.values()}
        assert played == {REPEATS}, client
