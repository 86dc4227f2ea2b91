"""The state of the model of transactions in readable form, for reports, files and drawings."""

from typing import Final

import msgspec

from highwater.checkers.model.protocol.compiled import Constants
from highwater.checkers.model.protocol.compiled import State as Vector
from highwater.checkers.model.protocol.readable_state import members
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_layout import (
    CoordinatorState,
    Phase,
    RecordState,
    Request,
    Status,
    leader,
    message,
    producer,
)
from highwater.checkers.model.transactions.transaction_scope import K_PARTITIONS, K_PRODUCERS

PRODUCER_NAMES: Final = "PQ"
_MARKERS: Final = {layout.COMMIT: "commit", layout.ABORT: "abort"}


class SentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record, with the data that its producer sends with it.

    Attributes:
        transaction: the number of the record's transaction, from 1 on.
        sequence: the record's sequence number; None before the record is sent.
        state: the state of the record for its producer.
    """

    record: str
    transaction: int
    partition: int
    epoch: int
    sequence: int | None
    state: str


class ModelProducer(msgspec.Struct, frozen=True, kw_only=True):
    """A producer: its phase, its epoch, and the transaction that it is in (0 for none)."""

    name: str
    phase: str
    epoch: int
    transaction: int


class PartitionLeader(msgspec.Struct, frozen=True, kw_only=True):
    """A leader's log, and its state of the producer.

    Attributes:
        log: names of records, and ``commit`` and ``abort`` for markers.
        epoch: the producer epoch that the leader knows; None for none.
        sequence: the last sequence number of that epoch; None for none.
        open_from: the first offset of the open transaction; None for none.
    """

    log: tuple[str, ...]
    epoch: int | None
    sequence: int | None
    open_from: int | None


class TransactionState(msgspec.Struct, frozen=True, kw_only=True):
    """The complete state of the model at one time.

    Attributes:
        coordinator, epoch: the state and the producer epoch of the ``transactional.id``.
        partitions, markers: the partitions in the transaction, and those that still need a marker.
        transactions: the outcome of each transaction for its application, in order.
        on_the_way: requests that have not arrived yet, as text.
    """

    coordinator: str
    epoch: int
    partitions: tuple[int, ...]
    markers: tuple[int, ...]
    transactions: tuple[str, ...]
    producers: tuple[ModelProducer, ...]
    records: tuple[SentRecord, ...]
    leaders: tuple[PartitionLeader, ...]
    on_the_way: tuple[str, ...]


def record_name(number: int) -> str:
    """Return the name of a record, by its number from 0 on."""
    return f"m{number + 1}"


def words(member: CoordinatorState | Phase | Status | RecordState) -> str:
    """Return the name of a state in words."""
    return member.name.lower().replace("_", " ")


def decode_transactions(s: Vector, k: Constants) -> TransactionState:
    """Return a state vector in readable form."""
    sent, partitions = int(s[layout.SENT]), range(int(k[K_PARTITIONS]))
    return TransactionState(
        coordinator=words(CoordinatorState(int(s[layout.STATE]))),
        epoch=int(s[layout.EPOCH]),
        partitions=members(int(s[layout.PARTS])),
        markers=members(int(s[layout.PENDING])),
        transactions=tuple(
            words(Status(int(s[layout.STATUS + number]))) for number in range(int(s[layout.BEGUN]))
        ),
        producers=tuple(
            ModelProducer(
                name=PRODUCER_NAMES[c],
                phase=words(Phase(producer(s, c, layout.PHASE))),
                epoch=producer(s, c, layout.OWN_EPOCH),
                transaction=producer(s, c, layout.TRANSACTION),
            )
            for c in range(int(k[K_PRODUCERS]))
        ),
        records=tuple(_record(s, r) for r in range(sent)),
        leaders=tuple(_leader(s, p) for p in partitions),
        on_the_way=tuple(
            request_in_words(s, slot)
            for slot in range(layout.MAX_MESSAGES)
            if message(s, slot, layout.M_KIND)
        ),
    )


def request_in_words(s: Vector, slot: int) -> str:
    """Return a request as text, such as ``P's late EndTxn commit (epoch 0)``."""
    kind, argument = Request(message(s, slot, layout.M_KIND)), message(s, slot, layout.M_ARGUMENT)
    way, epoch = message(s, slot, layout.M_WAY), message(s, slot, layout.M_EPOCH)
    late = "late " if message(s, slot, layout.M_CONNECTION) else ""
    if kind is Request.MARKER:
        word = "commit" if argument & 1 else "abort"
        return f"{late}marker {word} to partition {argument >> 1} (epoch {epoch})"
    who = PRODUCER_NAMES[way // (layout.MAX_PARTITIONS + 1)]
    if kind is Request.PRODUCE:
        epoch, number = int(s[layout.R_EPOCH + argument]), int(s[layout.R_SEQUENCE + argument])
        name = record_name(argument)
        return f"{who}'s {late}Produce of {name} (epoch {epoch}, sequence {number})"
    if kind is Request.ADD_PARTITION:
        return f"{who}'s {late}AddPartitionsToTxn of partition {argument} (epoch {epoch})"
    return f"{who}'s {late}EndTxn {'commit' if argument else 'abort'} (epoch {epoch})"


def _record(s: Vector, r: int) -> SentRecord:
    state = RecordState(int(s[layout.R_STATE + r]))
    return SentRecord(
        record=record_name(r),
        transaction=int(s[layout.R_TRANSACTION + r]),
        partition=int(s[layout.R_PARTITION + r]),
        epoch=int(s[layout.R_EPOCH + r]),
        sequence=None if state is RecordState.QUEUED else int(s[layout.R_SEQUENCE + r]),
        state=words(state),
    )


def _leader(s: Vector, p: int) -> PartitionLeader:
    entries = [leader(s, p, layout.LOG + offset) for offset in range(leader(s, p, layout.LENGTH))]
    return PartitionLeader(
        log=tuple(_MARKERS.get(entry) or record_name(entry - 1) for entry in entries),
        epoch=leader(s, p, layout.LEADER_EPOCH) - 1 if leader(s, p, layout.LEADER_EPOCH) else None,
        sequence=leader(s, p, layout.LAST) - 1 if leader(s, p, layout.LAST) else None,
        open_from=leader(s, p, layout.OPEN) - 1 if leader(s, p, layout.OPEN) else None,
    )
