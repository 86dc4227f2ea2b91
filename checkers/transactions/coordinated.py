"""Transactions as their coordinator wrote them: their begin, their end and its kind.

A coordinator writes each state of a transactional id to ``__transaction_state``. A transaction that
its client ends keeps the producer's epoch. The coordinator raises the epoch when it ends a
transaction after a timeout, or for a new producer with its transactional id (KIP-98). With KIP-890
clients raise the epoch, too: then it is not known which of them ended a transaction.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Final, NamedTuple

from highwater.checkers.coordinator_logs import coordinator_records
from highwater.checkers.groups.events import FOREVER
from highwater.checkers.run_files import RunFiles
from highwater.harness.runs.store import COORDINATOR_TOPICS

TOPIC: Final = COORDINATOR_TOPICS[0]
VALUE: Final = struct.Struct(">hqhib")
"""The first fields of every version of TransactionLogValue: version, producer id, producer epoch,
timeout, status."""

_EMPTY, _ONGOING, _COMMITTING, _ABORTING = range(4)
_TIME_OUT_SLACK_MS: Final = 500
_KEY_BYTES: Final = 4

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
FENCED: Final = "fenced"
TIMED_OUT: Final = "timed out"
OPEN: Final = "open"


class CoordinatedTransaction(NamedTuple):
    """A transaction, as its coordinator wrote it.

    Attributes:
        name: the transactional id.
        begin_ms: when the transaction got its first partition, since 1970.
        end_ms: when the coordinator decided its end, since 1970; FOREVER without an end.
        end: committed, aborted, fenced (by another producer with the same transactional id), timed
            out, or open.
        succeeded: whether a producer with this transactional id was initialised afterwards.
    """

    name: str
    producer_id: int
    begin_ms: int
    end_ms: int
    end: str
    succeeded: bool


class _State(NamedTuple):
    at_ms: int
    producer_id: int
    epoch: int
    timeout_ms: int
    status: int


def transactions_on_disk(case: RunFiles) -> list[CoordinatedTransaction]:
    """Return all transactions in order of their begin; empty if no disk has them."""
    states: dict[str, list[_State]] = defaultdict(list)
    for row in coordinator_records(case, TOPIC) or ():
        value = row["value"]
        if row["key"] and value is not None and len(value) >= VALUE.size:
            _, producer, epoch, timeout_ms, status = VALUE.unpack_from(value)
            name = bytes(row["key"])[_KEY_BYTES:].decode(errors="replace")
            states[name].append(_State(row["timestamp_ms"], producer, epoch, timeout_ms, status))
    by_name = (_transactions(name, of_name) for name, of_name in states.items())
    return sorted(chain.from_iterable(by_name), key=lambda transaction: transaction.begin_ms)


def _transactions(name: str, states: list[_State]) -> Iterable[CoordinatedTransaction]:
    raises_epochs = any(
        (before.status, after.status) == (_ONGOING, _COMMITTING) and after.epoch != before.epoch
        for before, after in pairwise(states)
    )
    begin: _State | None = None
    for number, state in enumerate(states):
        if state.status == _ONGOING and begin is None:
            begin = state
        elif begin is not None and state.status != _ONGOING:
            succeeded = any(later.status == _EMPTY for later in states[number:])
            end = _end(begin, state, raises_epochs=raises_epochs)
            yield CoordinatedTransaction(
                name, begin.producer_id, begin.at_ms, state.at_ms, end, succeeded
            )
            begin = None
    if begin is not None:
        yield CoordinatedTransaction(
            name, begin.producer_id, begin.at_ms, FOREVER, OPEN, succeeded=False
        )


def _end(begin: _State, end: _State, *, raises_epochs: bool) -> str:
    if end.status == _COMMITTING:
        return COMMITTED
    if end.at_ms - begin.at_ms >= begin.timeout_ms - _TIME_OUT_SLACK_MS:
        return TIMED_OUT
    return FENCED if end.epoch != begin.epoch and not raises_epochs else ABORTED
