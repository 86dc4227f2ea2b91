"""A counterexample of transactions as a schedule for brokers, and its predicted outcome.

The schedule is for one producer and one partition. The relay (a proxy) delays each request that is
late in the counterexample; all other requests pass. The client and the release may differ from the
client and release of the search.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_invariants import (
    PUBLISHED,
    UNDECIDED,
    ends,
    verdict_of,
)
from highwater.checkers.model.transactions.transaction_layout import (
    COORDINATOR,
    Phase,
    RecordState,
    Request,
    Status,
    leader,
    message,
    producer,
)
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
    TransactionSettings,
)
from highwater.checkers.model.transactions.transaction_moves import TransactionMove, take
from highwater.checkers.model.transactions.transaction_rules import transaction_rules_of
from highwater.checkers.model.transactions.transaction_scope import (
    transaction_constants,
    transaction_initial,
)
from highwater.checkers.model.transactions.transaction_state import record_name
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE

END: Final = "end"
"""The name of a delayed EndTxn in a schedule. (A delayed Produce has its record's name, such as
``m1``.)"""

MARKER: Final = "marker"
"""The name of a delayed WriteTxnMarkers request in a schedule."""

_FORGETS_ALONE: Final = (3, 4)
"""The first release with a separate setting for the time after which a leader forgets a producer
(KIP-854)."""

_BY_THEMSELVES: Final = ("await", "answered")
_ENDING: Final = {int(phase) for phase in (Phase.DRAINING, Phase.COMMITTING, Phase.ABORTING)}

Row = tuple[int, int, int]


class TransactionAction(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a schedule.

    Attributes:
        action: ``begin``, ``send``, ``commit``, ``abort``; ``renew`` (a second producer replaces
            the first), ``given-up`` (the sender of a delayed request closes its connection),
            ``release`` (a delayed request is sent), ``answered`` (every record has a response),
            ``forgotten`` (the leader has no state of the producer), ``await`` (wait for the log).
        held: name of the delayed request of this step.
        says: the step of the counterexample as a sentence.
        length: entries in the log after the step; None if the log may grow without a command.
        refused: whether the record of the step gets a permanent error.
    """

    action: str
    record: str = ""
    held: str = ""
    says: str
    length: int | None
    refused: bool = False


class ForetoldRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted outcome of the records on a release.

    Attributes:
        lost: records of committed transactions that the log lacks, or has as aborted.
        published: committed records of transactions that the application aborted or left open.
        hanging: first records of transactions that never end.
        repeated: records that are in the log twice.
        refused: records for which a producer got a permanent error, although it was not fenced.
        lengths: number of entries in the log after each step.
    """

    lost: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()

    @property
    def harms(self) -> bool:
        """True if any record is lost, published, hanging, repeated or refused."""
        return bool(self.lost or self.published or self.hanging or self.repeated or self.refused)


def transaction_schedule(
    counterexample: TransactionCounterexample, kafka: str, client: str
) -> tuple[TransactionAction, ...]:
    """Return the steps of a replay with a client of the model on brokers of a release.

    Raises:
        UsageError: the counterexample cannot be replayed; the message has the reason.
    """
    rows = _rows(counterexample)
    states = _states(counterexample)
    _require_playable(counterexample, kafka)
    _require_client(counterexample, kafka, client)
    fate = predict_records(counterexample, kafka, client)
    named = [_action(rows, states, number) for number in range(len(rows))]
    by_itself = [action in _BY_THEMSELVES for action, _, _ in [*named[1:], ("", "", "")]]
    pending = [_goes_on(state) for state in states[1:]]
    return tuple(
        TransactionAction(
            action=action,
            record=record,
            held=request,
            says=step.says,
            length=None if follows or undecided else length,
            refused=record in fate.refused,
        )
        for (action, record, request), step, length, follows, undecided in zip(
            named, counterexample.steps, fate.lengths, by_itself, pending, strict=True
        )
    )


def predict_records(
    counterexample: TransactionCounterexample, kafka: str, client: str
) -> ForetoldRecords:
    """Return the outcome of a counterexample's steps by the rules of a release and a client.

    Release and client may differ from those of the search. A step that the rules refuse is ignored.
    At the end the application aborts an open transaction.
    """
    settings = TransactionSettings(
        kafka=kafka,
        client=client,
        scope=counterexample.scope,
        switched=counterexample.switched,
    )
    k = transaction_constants(settings.scope, settings.rules())
    state, lengths, refused = transaction_initial(), list[int](), list[str]()
    for before, row in zip(_states(counterexample), _rows(counterexample), strict=False):
        for candidate in _same_request(row, before, state):
            after = state.copy()
            if take(after, k, *candidate):
                if int(after[layout.FLAGS]) != int(state[layout.FLAGS]):
                    refused.append(_subject(state, candidate[1]))
                state = after
                break
        lengths.append(leader(state, 0, layout.LENGTH))
    records = range(int(state[layout.SENT]))
    numbers = {r: int(state[layout.R_TRANSACTION + r]) for r in records}
    status = {r: int(state[layout.STATUS + number - 1]) for r, number in numbers.items()}
    fates = {r: verdict_of(state, r) for r in records}
    open_from = leader(state, 0, layout.OPEN)
    return ForetoldRecords(
        lost=tuple(
            record_name(r)
            for r in records
            if status[r] == Status.COMMITTED and not fates[r] & (PUBLISHED | UNDECIDED)
        ),
        published=tuple(
            record_name(r)
            for r in records
            if status[r] in (Status.ABORTED, Status.OPEN) and fates[r] & PUBLISHED
        ),
        hanging=()
        if ends(state)
        else (record_name(leader(state, 0, layout.LOG + open_from - 1) - 1),),
        repeated=tuple(record_name(r) for r in records if _places(state, r) > 1),
        refused=tuple(refused),
        lengths=tuple(lengths),
    )


def _places(state: State, r: int) -> int:
    """Return the number of times that a record is in the log."""
    length = leader(state, 0, layout.LENGTH)
    return sum(leader(state, 0, layout.LOG + offset) == r + 1 for offset in range(length))


def _subject(state: State, slot: int) -> str:
    """Return the record that a request sends, or ``end``."""
    produces = message(state, slot, layout.M_KIND) == Request.PRODUCE
    return record_name(message(state, slot, layout.M_ARGUMENT)) if produces else END


def _same_request(row: Row, before: State, state: State) -> list[Row]:
    """Return the moves for another state that deliver the same request; other moves are unchanged.

    In that state the request may have another index and, with version 2 of transactions, another
    epoch.
    """
    kind, slot, _ = row
    if kind != TransactionMove.ARRIVE:
        return [row]
    request = _identity(before, slot)
    return [
        (kind, other, 0)
        for other in range(layout.MAX_MESSAGES)
        if message(state, other, layout.M_KIND) and _identity(state, other) == request
    ]


def _goes_on(state: State) -> bool:
    """Return whether the log may grow without a command, because a transaction is ending."""
    phases = {producer(state, c, layout.PHASE) for c in range(layout.MAX_PRODUCERS)}
    return int(state[layout.PENDING]) != 0 or bool(phases & _ENDING)


def _identity(state: State, slot: int) -> tuple[int, int, int, bool]:
    """Return the fields that identify a request: kind, connection, argument, and lateness."""
    return (
        message(state, slot, layout.M_KIND),
        message(state, slot, layout.M_WAY),
        message(state, slot, layout.M_ARGUMENT),
        message(state, slot, layout.M_CONNECTION) != 0,
    )


def _require_playable(counterexample: TransactionCounterexample, kafka: str) -> None:
    scope, moves = counterexample.scope, {step.move for step in counterexample.steps}
    together = CATALOGUE[kafka].number < _FORGETS_ALONE
    problems = {
        "it has several partitions": scope.partitions > 1,
        "its application does not wait for responses": not scope.in_turn,
        "its rules are not those of a release": bool(counterexample.switched),
        "the coordinator ends a transaction that lasts too long": "expire" in moves,
        "up to 3.3, a leader and the coordinator forget a producer at the same time": (
            together and "forget" in moves
        ),
    }
    for why, there in problems.items():
        if there:
            raise UsageError(
                f"this counterexample cannot be replayed: {why}",
                hint="Search with --bound in_turn=1 for one partition, without expiries.",
            )


def _require_client(counterexample: TransactionCounterexample, kafka: str, client: str) -> None:
    """Raise an error if the steps have an abort that acts differently with this client."""
    searched = transaction_rules_of(counterexample.kafka, counterexample.client)
    played = transaction_rules_of(kafka, client)
    if played.purges_unanswered == searched.purges_unanswered:
        return
    if _aborts_unanswered(_rows(counterexample), _states(counterexample)):
        whose = "librdkafka's" if searched.purges_unanswered else "Java's"
        raise UsageError(
            f"this counterexample needs {whose} producer: at an abort, the other client handles"
            " unanswered records differently",
            hint="Leave --client out.",
        )


def _aborts_unanswered(rows: Sequence[Row], states: Sequence[State]) -> bool:
    return any(
        row[0] == TransactionMove.ABORT
        and any(
            int(before[layout.R_STATE + r]) == RecordState.UNANSWERED
            for r in range(int(before[layout.SENT]))
        )
        for row, before in zip(rows, states, strict=False)
    )


def _rows(counterexample: TransactionCounterexample) -> list[Row]:
    return [step.numbers() for step in counterexample.steps]


def _states(counterexample: TransactionCounterexample) -> list[State]:
    """Return the state before each step, and the last state."""
    leaps = counterexample.replay()
    if leaps is None:
        raise UsageError(
            "under the present rules this counterexample breaks no invariant",
            hint="Find it again: highwater model explore --transactions --out FILE",
        )
    return [transaction_initial(), *(leap.after for leap in leaps)]


def _action(rows: Sequence[Row], states: Sequence[State], number: int) -> tuple[str, str, str]:
    """Return the names of a step's action, record and delayed request."""
    kind, a, b = rows[number]
    before = states[number]
    if kind == TransactionMove.SEND:
        r = int(before[layout.SENT])
        name = record_name(r)
        return "send", name, name if _is_held(rows, states, number, r) else ""
    if kind in (TransactionMove.COMMIT, TransactionMove.ABORT):
        action = "commit" if kind == TransactionMove.COMMIT else "abort"
        return action, "", _held_at_end(rows, number)
    if kind == TransactionMove.GIVE_UP:
        return ("await", "", "") if b == COORDINATOR else ("given-up", "", _newest(before))
    if kind == TransactionMove.REPEAT_MARKER:
        return "given-up", "", MARKER
    if kind == TransactionMove.ARRIVE:
        return _arrival(before, a, rows, states, number)
    names = {
        TransactionMove.BEGIN: "begin",
        TransactionMove.OPEN_PRODUCER: "renew",
        TransactionMove.FORGET: "forgotten",
    }
    return names.get(TransactionMove(kind), "await"), "", ""


def _held_at_end(rows: Sequence[Row], number: int) -> str:
    """Return the name of the request that the relay delays while a transaction ends."""
    following = [row[0] for row in rows[number + 1 :]]
    if following[:1] == [TransactionMove.GIVE_UP]:
        return END
    until = following.index(TransactionMove.BEGIN) if TransactionMove.BEGIN in following else None
    return MARKER if TransactionMove.REPEAT_MARKER in following[:until] else ""


def _arrival(
    before: State, slot: int, rows: Sequence[Row], states: Sequence[State], number: int
) -> tuple[str, str, str]:
    kind, argument = message(before, slot, layout.M_KIND), message(before, slot, layout.M_ARGUMENT)
    late = bool(message(before, slot, layout.M_CONNECTION))
    if kind == Request.PRODUCE:
        sent = next(
            n
            for n, row in enumerate(rows)
            if row[0] == TransactionMove.SEND and int(states[n][layout.SENT]) == argument
        )
        if late:
            return "release", "", record_name(argument)
        given_up = any(
            row[0] == TransactionMove.GIVE_UP and row[2] != COORDINATOR for row in rows[sent:number]
        )
        if given_up:
            return "answered", "", ""
        name = record_name(argument) if _is_held(rows, states, sent, argument) else ""
        return ("release" if name else "await"), name, name
    if not late:
        return "await", "", ""
    return "release", "", MARKER if kind == Request.MARKER else END


def _is_held(rows: Sequence[Row], states: Sequence[State], sent: int, r: int) -> bool:
    """Return whether the relay delays a Produce: given up, or overtaken by a late request."""
    for number in range(sent + 1, len(rows)):
        kind, slot, receiver = rows[number]
        before = states[number]
        if kind == TransactionMove.GIVE_UP and receiver != COORDINATOR:
            return True
        if kind != TransactionMove.ARRIVE:
            continue
        if message(before, slot, layout.M_CONNECTION):
            return True
        of_record = message(before, slot, layout.M_ARGUMENT) == r
        if message(before, slot, layout.M_KIND) == Request.PRODUCE and of_record:
            return False
    return False


def _newest(state: State) -> str:
    return record_name(int(state[layout.SENT]) - 1)
