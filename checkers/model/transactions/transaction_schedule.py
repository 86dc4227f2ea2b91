"""A counterexample of transactions as a schedule that brokers can play, and what it must come to.

The schedule is for one librdkafka producer and one partition. A request that is late in the
counterexample is held by the wire; all others arrive by themselves.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_counterexample import (
    TransactionCounterexample,
)
from highwater.checkers.model.transactions.transaction_invariants import (
    PUBLISHED,
    UNDECIDED,
    ends,
    verdict_of,
)
from highwater.checkers.model.transactions.transaction_layout import (
    COORDINATOR,
    Request,
    Status,
    leader,
    message,
)
from highwater.checkers.model.transactions.transaction_machine import TransactionSettings
from highwater.checkers.model.transactions.transaction_moves import TransactionMove, take
from highwater.checkers.model.transactions.transaction_scope import (
    transaction_constants,
    transaction_initial,
)
from highwater.checkers.model.transactions.transaction_state import record_name, request_in_words
from highwater.harness.base.errors import UsageError

END: Final = "end"
"""The name of a held EndTxn, as ``m1`` is of a held Produce."""

Row = tuple[int, int, int]


class TransactionAction(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a schedule.

    Attributes:
        action: ``begin``, ``send``, ``commit``, ``abort``, ``renew``; ``given-up`` (its producer
            closes the connection of a held request), ``release`` (a held request goes on),
            ``answered`` (there is an answer about every record), ``await`` (for the log alone).
        held: name of the request that this step sends and the wire holds, or that it is about.
        says: the step of the counterexample as a sentence.
        length: entries of the log after it; None where the next step comes by itself.
        refused: whether the record that it sends is refused for good.
    """

    action: str
    record: str = ""
    held: str = ""
    says: str
    length: int | None
    refused: bool = False


class ForetoldRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of records in the end, on a release.

    Attributes:
        lost: of committed transactions, and in no log or aborted there.
        published: of transactions that the application aborted.
        hanging: first records of transactions that nobody ends.
        refused: those with which a producer failed that nobody had fenced.
        lengths: entries of the log after each step.
    """

    lost: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()

    @property
    def harms(self) -> bool:
        """True if anything is broken in the end."""
        return bool(self.lost or self.published or self.hanging or self.refused)


def transaction_schedule(
    counterexample: TransactionCounterexample, kafka: str
) -> tuple[TransactionAction, ...]:
    """Return the steps that a player takes on brokers of a release.

    Raises:
        UsageError: it cannot be replayed; the message says why.
    """
    _require_playable(counterexample)
    rows = _rows(counterexample)
    states = _states(counterexample)
    fate = foretell_records(counterexample, kafka)
    named = [_action(rows, states, number) for number in range(len(rows))]
    by_itself = [action == "await" for action, _, _ in [*named[1:], ("", "", "")]]
    pending = [int(state[layout.PENDING]) != 0 for state in states[1:]]
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


def foretell_records(counterexample: TransactionCounterexample, kafka: str) -> ForetoldRecords:
    """Play its steps by the rules of a release, which need not be that of its search.

    A step that the rules refuse is left out. An application aborts in the end what is open.
    """
    settings = TransactionSettings(
        kafka=kafka,
        client=counterexample.client,
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
        refused=tuple(refused),
        lengths=tuple(lengths),
    )


def _subject(state: State, slot: int) -> str:
    """Return the record that a request sends, or ``end``."""
    produces = message(state, slot, layout.M_KIND) == Request.PRODUCE
    return record_name(message(state, slot, layout.M_ARGUMENT)) if produces else END


def _same_request(row: Row, before: State, state: State) -> list[Row]:
    """Return the same move in another state, where the same request may be another message."""
    kind, slot, _ = row
    if kind != TransactionMove.ARRIVE:
        return [row]
    request = request_in_words(before, slot)
    return [
        (kind, other, 0)
        for other in range(layout.MAX_MESSAGES)
        if message(state, other, layout.M_KIND) and request_in_words(state, other) == request
    ]


def _require_playable(counterexample: TransactionCounterexample) -> None:
    scope, moves = counterexample.scope, {step.move for step in counterexample.steps}
    problems = {
        "its client is another": counterexample.client != "librdkafka",
        "it has several partitions": scope.partitions > 1,
        "its application does not wait for answers": not scope.in_turn,
        "its rules are not those of a release": bool(counterexample.switched),
        "it has moves that brokers make by themselves": bool(
            moves & {"expire", "forget", "repeat_marker"}
        ),
    }
    for why, there in problems.items():
        if there:
            raise UsageError(
                f"this counterexample cannot be replayed: {why}",
                hint="Search with --client librdkafka --bound in_turn=1, for one partition.",
            )


def _rows(counterexample: TransactionCounterexample) -> list[Row]:
    return [
        (int(TransactionMove[step.move.upper()]), *step.arguments) for step in counterexample.steps
    ]


def _states(counterexample: TransactionCounterexample) -> list[State]:
    """Return the state before each step, and the last one."""
    leaps = counterexample.replay()
    if leaps is None:
        raise UsageError(
            "this counterexample breaks nothing by the rules of today",
            hint="Find it again: highwater model explore --transactions --out FILE",
        )
    return [transaction_initial(), *(leap.after for leap in leaps)]


def _action(rows: Sequence[Row], states: Sequence[State], number: int) -> tuple[str, str, str]:
    """Return an action, the record that it sends, and the request that it holds or is about."""
    kind, a, b = rows[number]
    before = states[number]
    if kind == TransactionMove.SEND:
        r = int(before[layout.SENT])
        name = record_name(r)
        return "send", name, name if _is_held(rows, states, number, r) else ""
    if kind in (TransactionMove.COMMIT, TransactionMove.ABORT):
        action = "commit" if kind == TransactionMove.COMMIT else "abort"
        later = rows[number + 1 : number + 2]
        is_late = bool(later) and later[0][0] == TransactionMove.GIVE_UP
        return action, "", END if is_late else ""
    if kind == TransactionMove.GIVE_UP:
        return ("await", "", "") if b == COORDINATOR else ("given-up", "", _newest(before))
    if kind == TransactionMove.ARRIVE:
        return _arrival(before, a, rows, states, number)
    names = {TransactionMove.BEGIN: "begin", TransactionMove.OPEN_PRODUCER: "renew"}
    return names.get(TransactionMove(kind), "await"), "", ""


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
    return ("release", "", END) if late else ("await", "", "")


def _is_held(rows: Sequence[Row], states: Sequence[State], sent: int, r: int) -> bool:
    """Return whether a Produce waits: its producer gives it up, or another is to come first."""
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
