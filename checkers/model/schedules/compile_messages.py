"""Convert a counterexample to a schedule that real brokers follow message by message.

The relay (a proxy between brokers) delays every message of the kinds in the model, and sends one
message in each step. So each move of the search is one step with a complete expected state. The
expected states follow from the rules of the release that replays the schedule. If a leader refuses
a request by these rules, the step must change nothing.
"""

from dataclasses import replace
from typing import Final, cast

import msgspec

from highwater.checkers.model.protocol.compiled import Constants
from highwater.checkers.model.protocol.compiled import State as Vector
from highwater.checkers.model.protocol.moves import Move, attempt
from highwater.checkers.model.protocol.readable_state import State, decode, name_of
from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.checkers.model.protocol.scope import K_BROKERS, constants, initial
from highwater.checkers.model.protocol.state_layout import (
    ANSWER,
    ANSWER_FROM,
    APPLIED_DECISION,
    FETCHER,
    HW,
    Fetcher,
    follows,
    get,
    is_up,
    leader_of,
    newest,
)
from highwater.checkers.model.protocol.step_sentences import NAMES, says
from highwater.checkers.model.schedules.schedule import (
    OLD_FORMAT,
    Action,
    Expect,
    Schedule,
    ScheduleStep,
)
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.harness.base.errors import UsageError

Row = tuple[int, int, int]

_RENAMED: Final[dict[Move, Action]] = {
    Move.BATCH: "send",
    Move.SHRINK: "lag",
    Move.SAVE: "checkpoint",
    Move.ELECT: "elect-unclean",
}
"""The names of a schedule's actions that differ from the names of the model's moves."""

_UNPLAYABLE: Final = frozenset(
    {Move.SKIP, Move.CONFIRM, Move.CHECKPOINT, Move.WIPE, Move.PROPOSE, Move.ADMIT}
    | {Move.REASSIGN, Move.CANCEL}
)
"""Steps of the model that real brokers cannot replay one message at a time."""

_REQUESTS: Final = {
    Move.FETCH: Fetcher.FETCHING,
    Move.ASK: Fetcher.FETCHING,
    Move.TRUNCATE: Fetcher.TRUNCATING,
}
"""Steps of the model in which a follower sends a request, each with the state of the follower's
fetcher before the request."""


def action_of(move: Move) -> Action:
    """Return the action of a move in schedules."""
    return _RENAMED.get(move) or cast("Action", move.name.lower())


def schedule_of(
    counterexample: Counterexample,
    kafka: str,
    *,
    order: tuple[int, ...],
    partition: int = 0,
    steps: tuple[ScheduleStep, ...],
    moves: tuple[Row, ...],
) -> Schedule:
    """Return a schedule with the settings of its counterexample's search."""
    scope = counterexample.scope
    return Schedule(
        kafka=kafka,
        name=counterexample.name,
        replicas=scope.brokers,
        acks=scope.acks,
        min_isr=scope.min_isr,
        unclean=scope.unclean,
        order=order,
        settings=dict(OLD_FORMAT) if scope.old_format else {},
        by=scope.by,
        partition=partition,
        steps=steps,
        moves=moves,
    )


def sent_by(row: Row, after: State) -> str | None:
    """Return the names of the records that a move sent, as ``m1 m2``; None if it sends none."""
    kind, _, count = row
    if kind not in (Move.SEND, Move.BATCH):
        return None
    last = count if kind == Move.BATCH else 1
    return " ".join(name_of(record) for record in range(after.sent - last, after.sent))


def ends_itself(b: int) -> ScheduleStep:
    """Return a step that kills a broker before it exits because it is ahead of its leader."""
    says = f"{NAMES[b]} is ahead of its leader and ends itself, or is killed before that"
    return ScheduleStep(action="kill", broker=b, says=says)


def compile_by_message(counterexample: Counterexample, kafka: str) -> Schedule:
    """Return the schedule that replays a counterexample on a release, message by message.

    Raises:
        UsageError: the replay does not support a move; or the release uses KRaft, where one message
            may carry several decisions; or the model does not know the release.
    """
    rules = rules_of(kafka)
    if rules.kraft:
        raise UsageError(
            f"{kafka} uses KRaft: one message may carry several controller decisions, so this "
            f"search by messages cannot be replayed",
            hint="Replay it on a release with ZooKeeper, or search by rounds.",
        )
    # The replay sends one more record at its end, and empties a replica whose fetcher has ended.
    records = counterexample.scope.records + 1
    scope = replace(counterexample.scope, records=records, failures=9, wipes=3)
    k = constants(scope, rules)
    lowered: set[int] = set()
    state = initial(scope)
    rows = [step.numbers() for step in counterexample.steps]
    rows += [(int(Move.RECEIVE), b, 0) for b in range(scope.brokers)]
    steps: list[ScheduleStep] = []
    moves: list[Row] = []
    for row in rows:
        if row[0] in _UNPLAYABLE:
            raise UsageError(
                f"a replay by messages does not support the move {Move(row[0]).name.lower()}",
                hint="Search with other bounds, or search by rounds.",
            )
        after = attempt(state, k, row)
        if after is not None:
            lowered |= _lowered(state, after, k)
            steps.append(_without_hw(_step(row, state, after, k), lowered))
            moves.append(row)
            state = after
        elif _asks(row, state):
            steps.append(_without_hw(_refusal(row, state, k), lowered))
    last_steps, last_moves = _ending(state, k)
    return schedule_of(
        counterexample,
        kafka,
        order=tuple(range(counterexample.scope.brokers)),
        steps=(*steps, *last_steps),
        moves=(*moves, *last_moves),
    )


def _lowered(before: Vector, after: Vector, k: Constants) -> set[int]:
    """Return the replicas that were truncated below their HW.

    The replay expects no HW of these replicas: the model lowers the HW, but a 2.0.1 broker keeps
    the old HW until its next fetch.
    """
    brokers = range(int(k[K_BROKERS]))
    return {b for b in brokers if is_up(after, b) and get(after, b, HW) < get(before, b, HW)}


def _without_hw(step: ScheduleStep, numbers: set[int]) -> ScheduleStep:
    """Return a step without the expected HW of some replicas."""
    hw = {b: hw for b, hw in (step.expect.hw or {}).items() if b not in numbers}
    expect = msgspec.structs.replace(step.expect, hw=hw)
    return msgspec.structs.replace(step, expect=expect)


def _replacement(b: int) -> list[Row]:
    """Return the moves that restart a follower, whose fetcher has ended, with an empty log."""
    kinds = (Move.KILL, Move.EXPIRE, Move.WIPE, Move.START)
    return [(int(kind), b, b if kind == Move.EXPIRE else 0) for kind in kinds]


def _ending(state: Vector, k: Constants) -> tuple[list[ScheduleStep], list[Row]]:
    """Return the last steps: all messages pass, and one more record is sent and acknowledged.

    So the replay has an acknowledged record to judge, even if the release refuses all others. Up to
    2.0, a broker that is ahead of its leader exits when messages pass. The replay kills such a
    broker before that, and starts it again. A follower whose fetcher has ended first gets an empty
    disk, so that it fetches again.
    """
    run: Row = (int(Move.RUN), (1 << int(k[K_BROKERS])) - 1, 0)
    rested = attempt(state, k, run)
    ahead = [
        b
        for b in range(int(k[K_BROKERS]))
        if rested is not None and is_up(state, b) and not is_up(rested, b)
    ]
    steps = [ends_itself(b) for b in ahead]
    moves = []
    again = [row for b in ahead for row in ((int(Move.EXPIRE), b, b), (int(Move.START), b, 0))]
    ended = [b for b in range(int(k[K_BROKERS])) if get(state, b, FETCHER) == Fetcher.ENDED]
    restored = [row for b in ended for row in _replacement(b)]
    for row in [*restored, run, *again, run, None, run]:
        chosen = row or (int(Move.SEND), leader_of(state, newest(state)), 0)
        after = attempt(state, k, chosen)
        if after is not None:
            step = _last_step(chosen, state, after, k)
            if chosen[0] == Move.KILL:
                step = msgspec.structs.replace(step, action="wipe")  # a wipe also kills the broker
            if chosen[0] != Move.WIPE:
                steps.append(step)
            moves.append(chosen)
            state = after
    return steps, moves


def _last_step(row: Row, before: Vector, after: Vector, k: Constants) -> ScheduleStep:
    """Return a step in which every message passes; HWs are not exact then, and are not expected."""
    kind, a, b = row
    seen = decode(after, k)
    expect = Expect()
    if kind == Move.RUN:
        expect = msgspec.structs.replace(_expect(seen, after), hw=None)
    elif kind == Move.EXPIRE:
        expect = Expect(leader=seen.leader, isr=frozenset(seen.isr))
    return ScheduleStep(
        action=action_of(Move(kind)),
        broker=None if kind == Move.RUN else a,
        record=sent_by(row, seen),
        says=says(kind, a, b, before, after),
        expect=expect,
    )


def _asks(row: Row, state: Vector) -> bool:
    """Return whether a broker sends the request of a move, even if the leader may refuse it."""
    kind, b, _ = row
    return (
        kind in _REQUESTS
        and is_up(state, b)
        and get(state, b, FETCHER) == _REQUESTS[Move(kind)]
        and get(state, b, ANSWER) == 0
    )


def _step(row: Row, before: Vector, after: Vector, k: Constants) -> ScheduleStep:
    kind, a, b = row
    seen = decode(after, k)
    asks = None
    if kind in _REQUESTS:
        asks = follows(before, a)
    elif kind == Move.RECEIVE and get(before, a, ANSWER_FROM) == follows(before, a):
        asks = get(before, a, ANSWER_FROM)
    elif kind in {Move.LAG, Move.SHRINK}:
        asks = b
    decision = None
    if kind == Move.LEARN:
        decision = get(after, a, APPLIED_DECISION)
    elif newest(after) != newest(before):
        decision = newest(after)
    ended = kind == Move.FETCH and get(after, a, FETCHER) == Fetcher.ENDED
    return ScheduleStep(
        action="end-fetch" if ended else action_of(Move(kind)),
        broker=None if kind == Move.FAILOVER else a,
        record=sent_by(row, seen),
        says=says(kind, a, b, before, after),
        asks=asks,
        decision=decision,
        expect=_expect(seen, after),
    )


def _refusal(row: Row, state: Vector, k: Constants) -> ScheduleStep:
    kind, a, _ = row
    leader = follows(state, a)
    what = "asks where its epoch ended" if kind == Move.TRUNCATE else "fetches"
    return ScheduleStep(
        action="try",
        broker=a,
        says=f"{NAMES[a]} {what}, and {NAMES[leader]} refuses",
        asks=leader,
        expect=_expect(decode(state, k), state),
    )


def _expect(seen: State, state: Vector) -> Expect:
    """Return the complete expected state, which is exact because the relay controls every message.

    A broker that has received no decision since its start is left out: it knows no replica.
    """
    aware = {
        b: replica
        for b, replica in enumerate(seen.replicas)
        if replica.process == "up" and get(state, b, APPLIED_DECISION) >= 0
    }
    return Expect(
        leader=seen.leader,
        isr=frozenset(seen.isr),
        leo={b: replica.leo for b, replica in aware.items()},
        hw={b: replica.hw for b, replica in aware.items()},
        acked=frozenset(seen.acked),
    )
