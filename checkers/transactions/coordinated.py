"""Transactions in ``__transaction_state``: their begin, their end, and the kind of end.

A coordinator writes each state of a transactional id to ``__transaction_state``. If the client ends
a transaction, the producer epoch does not change. The coordinator increases the epoch when it ends
a transaction after a timeout, or for a new producer with the same transactional id (KIP-98). With
KIP-890 the epoch also increases when the client ends the transaction. In that case the epoch does
not show who ended the transaction.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Final, NamedTuple

from highwater.checkers.coordinator_logs import coordinator_records
from highwater.checkers.groups.events import FOREVER
from highwater.checkers.kafka_files.coordinator_records import (
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    TransactionRecord,
    transaction_record,
)
from highwater.checkers.run_files import RunFiles
from highwater.harness.runs.store import COORDINATOR_TOPICS

TOPIC: Final = COORDINATOR_TOPICS[0]
_TIME_OUT_SLACK_MS: Final = 500

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
FENCED: Final = "fenced"
TIMED_OUT: Final = "timed out"
OPEN: Final = "open"


class CoordinatedTransaction(NamedTuple):
    """A transaction, as its coordinator wrote it.

    Attributes:
        name: the transactional id.
        begin_ms: when the transaction got its first partition, in ms since 1970.
        end_ms: when the coordinator decided its end, in ms since 1970; FOREVER without an end.
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


def transactions_on_disk(case: RunFiles) -> list[CoordinatedTransaction]:
    """Return all transactions in order of their begin; empty if no disk has them."""
    states: dict[str, list[TransactionRecord]] = defaultdict(list)
    for row in coordinator_records(case, TOPIC) or ():
        record = transaction_record(row)
        if record is not None and record.status is not None:
            states[record.name].append(record)
    by_name = (_transactions(name, of_name) for name, of_name in states.items())
    return sorted(chain.from_iterable(by_name), key=lambda transaction: transaction.begin_ms)


def _transactions(name: str, states: list[TransactionRecord]) -> Iterable[CoordinatedTransaction]:
    raises_epochs = any(
        (before.status, after.status) == (ONGOING, PREPARE_COMMIT) and after.epoch != before.epoch
        for before, after in pairwise(states)
    )
    begin: TransactionRecord | None = None
    for number, state in enumerate(states):
        if state.status == ONGOING and begin is None:
            begin = state
        elif begin is not None and state.status != ONGOING:
            succeeded = any(later.status == EMPTY for later in states[number:])
            end = _end(begin, state, raises_epochs=raises_epochs)
            yield CoordinatedTransaction(
                name, begin.producer_id, begin.at_ms, state.at_ms, end, succeeded
            )
            begin = None
    if begin is not None:
        yield CoordinatedTransaction(
            name, begin.producer_id, begin.at_ms, FOREVER, OPEN, succeeded=False
        )


def _end(begin: TransactionRecord, end: TransactionRecord, *, raises_epochs: bool) -> str:
    if end.status == PREPARE_COMMIT:
        return COMMITTED
    if end.at_ms - begin.at_ms >= begin.timeout_ms - _TIME_OUT_SLACK_MS:
        return TIMED_OUT
    return FENCED if end.epoch != begin.epoch and not raises_epochs else ABORTED
