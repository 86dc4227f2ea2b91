"""How transactions ended, as their coordinator wrote it."""

import struct
from pathlib import Path

import pytest

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.transactions.coordinated import transactions_on_disk
from tests.support.logdirs import batch
from tests.unit.checkers.programs.test_inputs import written

EMPTY, ONGOING, COMMITTING, ABORTING, COMMITTED, ABORTED = range(6)


def state(base: int, at_ms: int, status: int, *, epoch: int = 0, name: str = "tx") -> bytes:
    """A record of a coordinator, with a time-out of 10 s."""
    key = struct.pack(">hh", 0, len(name)) + name.encode()
    value = struct.pack(">hqhib", 0, 7, epoch, 10_000, status) + bytes(20)
    return batch(base, [(key, value)], time_ms=at_ms)


def log(*states: tuple[int, ...]) -> bytes:
    """A coordinator's log; each state with its time and epoch."""
    return b"".join(
        state(base, at_ms, status, epoch=epoch)
        for base, (at_ms, status, epoch) in enumerate(states)
    )


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (log((10, ONGOING, 0), (20, ONGOING, 0), (30, COMMITTING, 0), (31, COMMITTED, 0)),
         [(10, 30, "committed", False)]),
        (log((10, ONGOING, 0), (30, ABORTING, 0), (31, ABORTED, 0), (40, ONGOING, 0)),
         [(10, 30, "aborted", False), (40, FOREVER, "open", False)]),
        (log((10, ONGOING, 0), (30, ABORTING, 1), (31, ABORTED, 1), (32, EMPTY, 2)),
         [(10, 30, "fenced", True)]),
        (log((10, ONGOING, 0), (10_015, ABORTING, 1), (10_020, ABORTED, 1)),
         [(10, 10_015, "timed out", False)]),
        # Clients that raise the epoch at each end (KIP-890) may have aborted it themselves.
        (log((10, ONGOING, 0), (20, COMMITTING, 1), (21, COMMITTED, 1), (30, ONGOING, 1),
             (40, ABORTING, 2), (41, ABORTED, 2)),
         [(10, 20, "committed", False), (30, 40, "aborted", False)]),
        (b"", []),
    ],
)  # fmt: skip
def test_the_end_of_a_transaction(
    tmp_path: Path, states: bytes, expected: list[tuple[int, int, str, bool]]
) -> None:
    case = written(tmp_path, states=states)
    transactions = transactions_on_disk(case)
    assert [(of.begin_ms, of.end_ms, of.end, of.succeeded) for of in transactions] == expected
    assert {of.name for of in transactions} <= {"tx"}


def test_transactional_ids_are_apart(tmp_path: Path) -> None:
    states = (
        state(0, 20, ONGOING, name="b")
        + state(1, 30, ONGOING, name="a")
        + state(2, 40, COMMITTING, name="b")
    )
    transactions = transactions_on_disk(written(tmp_path, states=states))
    assert [(of.name, of.end) for of in transactions] == [("b", "committed"), ("a", "open")]
