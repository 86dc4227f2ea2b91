"""Sentences that describe the moves of the model of transactions."""

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_layout import (
    CoordinatorState,
    Phase,
    RecordState,
    Request,
    leader,
    message,
    producer,
)
from highwater.checkers.model.transactions.transaction_moves import TransactionMove
from highwater.checkers.model.transactions.transaction_state import (
    PRODUCER_NAMES,
    record_name,
    request_in_words,
    words,
)


def says_transaction(kind: int, a: int, b: int, before: State, after: State) -> str:
    """Return a move as a sentence, from the states before and after it."""
    move = TransactionMove(kind)
    if move is TransactionMove.ARRIVE:
        return _arrives(a, before, after)
    if move in (TransactionMove.MARKER, TransactionMove.REPEAT_MARKER, TransactionMove.FORGET):
        return _of_leader(move, a, before)
    if move is TransactionMove.EXPIRE:
        return "the transaction lasts too long: the coordinator aborts it, in a new epoch"
    return _of_producer(move, a, b, before, after)


def _of_producer(move: TransactionMove, c: int, b: int, before: State, after: State) -> str:
    name = PRODUCER_NAMES[c]
    number = producer(before, c, layout.TRANSACTION)
    sentences = {
        TransactionMove.BEGIN: f"{name} begins transaction {int(after[layout.BEGUN])}",
        TransactionMove.SEND: f"{name} sends {record_name(int(before[layout.SENT]))} to partition"
        f" {b}, in transaction {number}",
        TransactionMove.COMMIT: f"the application commits transaction {number}",
        TransactionMove.ABORT: f"the application aborts transaction {number}"
        f"{_dropped(before, after)}",
        TransactionMove.RETRY: f"{name} sends its records without an answer to partition {b} again",
    }
    if move in sentences:
        return sentences[move]
    if move is TransactionMove.OPEN_PRODUCER:
        done = producer(after, c, layout.PHASE) == Phase.READY
        epoch = int(after[layout.EPOCH])
        return (
            f"{name} takes the place of {PRODUCER_NAMES[0]}, with epoch {epoch}"
            if done
            else f"{name} asks for the place of {PRODUCER_NAMES[0]}, whose transaction is aborted"
        )
    whom = "the coordinator" if b == layout.COORDINATOR else f"the leader of partition {b}"
    return f"{name} gives up its connection to {whom}: {_given_up(before, after)}"


def _of_leader(move: TransactionMove, p: int, before: State) -> str:
    commits = int(before[layout.STATE]) == CoordinatorState.PREPARE_COMMIT
    marker = "commit" if commits else "abort"
    if move is TransactionMove.MARKER:
        return f"the marker {marker} is written to partition {p}"
    if move is TransactionMove.FORGET:
        return f"the leader of partition {p} forgets the producer"
    return f"the coordinator sends the marker {marker} to partition {p} again, as the first is late"


def _arrives(slot: int, before: State, after: State) -> str:
    request = request_in_words(before, slot)
    return f"{request} arrives: {_effect(slot, before, after)}"


def _effect(slot: int, before: State, after: State) -> str:
    kind, argument = message(before, slot, layout.M_KIND), message(before, slot, layout.M_ARGUMENT)
    if kind == Request.PRODUCE:
        return _appended(argument, before, after)
    if kind == Request.MARKER:
        p = argument >> 1
        grows = leader(before, p, layout.LENGTH) < leader(after, p, layout.LENGTH)
        return "written" if grows else "refused"
    return _decided(slot, before, after)


def _appended(r: int, before: State, after: State) -> str:
    p = int(before[layout.R_PARTITION + r])
    offset = leader(before, p, layout.LENGTH)
    if offset < leader(after, p, layout.LENGTH):
        return f"appended at offset {offset}"
    acknowledged = [
        int(state[layout.R_STATE + r]) == RecordState.ACKNOWLEDGED for state in (before, after)
    ]
    if acknowledged == [False, True]:
        return "the leader takes it for a copy of a record that it has, and acknowledges it"
    return "not appended"


def _decided(slot: int, before: State, after: State) -> str:
    states = [words(CoordinatorState(int(state[layout.STATE]))) for state in (before, after)]
    if states[0] != states[1]:
        return f"the transaction is {states[1]}"
    if int(before[layout.PARTS]) != int(after[layout.PARTS]):
        return "the partition is added"
    c = message(before, slot, layout.M_WAY) // (layout.MAX_PARTITIONS + 1)
    if producer(before, c, layout.PHASE) == producer(after, c, layout.PHASE):
        return f"the transaction stays {states[1]}"
    failed = producer(after, c, layout.PHASE) == Phase.FAILED
    return "refused for good" if failed else f"answered, the transaction is {states[1]}"


def _dropped(before: State, after: State) -> str:
    names = [
        record_name(r)
        for r in range(int(before[layout.SENT]))
        if int(after[layout.R_STATE + r]) == RecordState.DROPPED
        and int(before[layout.R_STATE + r]) == RecordState.UNANSWERED
    ]
    return f"; the client drops {', '.join(names)}, and has no answer about it" if names else ""


def _given_up(before: State, after: State) -> str:
    late = _late(after)
    for request in _late(before):
        late.remove(request)
    return ", ".join(late)


def _late(state: State) -> list[str]:
    """Return the requests whose connection was closed, as text."""
    return [
        request_in_words(state, slot)
        for slot in range(layout.MAX_MESSAGES)
        if message(state, slot, layout.M_KIND) and message(state, slot, layout.M_CONNECTION)
    ]
