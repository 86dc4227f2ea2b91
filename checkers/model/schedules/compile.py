"""Convert a counterexample to a schedule that real brokers can follow.

This module handles counterexamples of a search by rounds; ``compile_messages`` handles those of a
search by messages. Before and after each command, every broker that is not frozen runs until it is
idle, as real brokers do. The schedule may be for another release than the search. The expected
states follow from the rules of the schedule's release.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Final

import numpy as np

from highwater.checkers.model.protocol.compiled import Constants
from highwater.checkers.model.protocol.compiled import State as Vector
from highwater.checkers.model.protocol.moves import ROUNDS, Move, attempt
from highwater.checkers.model.protocol.readable_state import State, decode, members
from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.checkers.model.protocol.scope import K_BROKERS, K_KRAFT, constants, initial
from highwater.checkers.model.protocol.state_layout import (
    LIVE,
    PROCESS,
    ProcessState,
    get,
    is_up,
    isr_of,
    leader_of,
    newest,
)
from highwater.checkers.model.protocol.step_sentences import NAMES, says
from highwater.checkers.model.schedules.compile_messages import (
    Row,
    action_of,
    compile_by_message,
    ends_itself,
    schedule_of,
    sent_by,
)
from highwater.checkers.model.schedules.schedule import Expect, Schedule, ScheduleStep
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.checkers.model.search.situations import situation_of, situations
from highwater.harness.base.errors import UsageError

_EVERYBODY: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledStep:
    """A step of a schedule: a command, the brokers that run meanwhile (a mask), and its moves.

    Attributes:
        moves: the model's moves of the step. Brokers that are not frozen do not wait for a command,
            so there is a round before and after it.
    """

    move: Row
    running: int
    moves: tuple[Row, ...]


def compile_for(
    counterexample: Counterexample, kafka: str, visited: Collection[int] = ()
) -> Schedule:
    """Return the schedule that replays a counterexample on a release.

    A counterexample of a search by messages goes to ``compile_by_message``. On a path to a
    situation the observer also sees the situations before it.

    Args:
        visited: numbers of situations on the path that the observer need not see.

    Raises:
        UsageError: the model does not know the release, or real brokers cannot follow the
            counterexample: a broker would take too many steps, or no order of the assignment leads
            to its elections.
    """
    if counterexample.scope.by == "message":
        return compile_by_message(counterexample, kafka)
    beats = _arrange(counterexample)
    rules = rules_of(kafka)
    # A path to a situation ends with one more record.
    scope = replace(counterexample.scope, records=counterexample.scope.records + 1)
    k = constants(scope, rules)
    path = [initial(scope)]
    for beat in beats:
        path.append(_played(beat.moves, path[-1], k))
    reached = len(beats)
    if situation_of(counterexample.invariant):
        for beat in _ending(path[-1], k):
            beats.append(beat)
            path.append(_played(beat.moves, path[-1], k))
    killed = {beat.move[1] for beat in beats if beat.move[0] == Move.KILL}
    revived, revival = _revived(path[-1], k, killed)
    steps: list[ScheduleStep] = []
    seen = {*visited, _situation(path[0], k)} - {situation_of(counterexample.invariant)}
    for number, beat in enumerate(beats, 1):
        steps.append(_step(beat, path[number - 1], path[number], k))
        here = _situation(path[number], k)
        if situation_of(counterexample.invariant) and number <= reached and here not in seen:
            steps.append(_observed(path[number], k))
            seen.add(here)
    return schedule_of(
        counterexample,
        kafka,
        order=_order(beats, path, counterexample.scope.brokers, kraft=rules.kraft),
        partition=int(any(beat.move[0] == Move.REASSIGN for beat in beats)),
        steps=(*steps, *revived),
        moves=(*(row for beat in beats for row in beat.moves), *revival),
    )


def _arrange(counterexample: Counterexample) -> list[CompiledStep]:
    """Return the steps, with brokers that run during each command so that the invariant breaks."""
    machine = counterexample.settings.machine()
    breach = counterexample.breach(machine)
    rows = [step.numbers() for step in counterexample.steps]
    kraft = counterexample.settings.rules().kraft
    for chosen in product(*_choices(rows, kraft=kraft)):
        beats = [_beat(row, running) for row, running in zip(rows, chosen, strict=True)]
        moves = [row for beat in beats for row in beat.moves]
        state = _played(moves, machine.initial, machine.constants)
        if breach(state):
            return beats
    raise UsageError(
        "brokers cannot follow this counterexample: a broker that a command needs runs ahead",
        hint="Search for another counterexample, with other bounds or without clean shutdowns.",
    )


def _choices(rows: Sequence[Row], *, kraft: bool) -> list[list[int]]:
    """Return the sets of brokers that may run during each move, in the order in which to try them.

    On KRaft some broker must run to forward the command to the controller.
    """
    choices, before, down = [], 0, 0
    for n, (kind, a, _) in enumerate(rows):
        if kind in (Move.KILL, Move.PAUSE, Move.STOP):
            down |= 1 << a
        elif kind in (Move.START, Move.RESUME):
            down &= ~(1 << a)
        after = next((who for later, who, _ in rows[n + 1 :] if later == Move.RUN), 0)
        if kind in ROUNDS:
            before = a
            choices.append([a])
        elif kind in (Move.SEND, Move.BATCH, Move.START, Move.RESUME):
            choices.append([1 << a])
        elif kind == Move.STOP:
            sets = dict.fromkeys((_EVERYBODY, before, before & after, after))
            choices.append([running | 1 << a for running in sets] if kraft else [1 << a])
        else:
            single = (1, 2, 4) if kind in (Move.REASSIGN, Move.CANCEL) else ()
            sets = dict.fromkeys(
                (before & after, after, before, *single) if kraft else (0, before & after)
            )
            # The replay asks a running broker for the decisions of KRaft's controller; if all
            # replicas are down, it asks a broker without a replica.
            choices.append(
                [running & ~down for running in sets if running & ~down or not kraft]
                or [running for running in (1, 2, 4) if not running & down]
                or [0]
            )
    return choices


def _beat(row: Row, running: int) -> CompiledStep:
    run = (int(Move.RUN), running, 0)
    moves = (row,) if row[0] in ROUNDS else (run, row, run)
    return CompiledStep(move=row, running=running, moves=moves)


def _played(rows: Iterable[Row], state: Vector, k: Constants) -> Vector:
    """Return the model's state after some moves; a move that the rules forbid changes nothing."""
    for row in rows:
        after = attempt(state, k, row)
        state = state if after is None else after
    return state


def _ending(state: Vector, k: Constants) -> list[CompiledStep]:
    """Return steps that restart every broker and send one more record, for the replay to judge."""
    everybody = (1 << int(k[K_BROKERS])) - 1
    run = (int(Move.RUN), everybody, 0)
    rows: list[Row] = []
    for b in members(everybody):
        dead = get(state, b, PROCESS) == ProcessState.DEAD
        again = ((int(Move.EXPIRE), b, b), (int(Move.START), b, 0))
        for row in again if dead else ((int(Move.RESUME), b, 0),):
            if (after := attempt(state, k, row)) is not None:
                rows.append(row)
                state = after
    state = _played([run], state, k)
    rows += [run, (int(Move.SEND), leader_of(state, newest(state)), 0), run]
    return [_beat(row, everybody) for row in rows]


def _situation(state: Vector, k: Constants) -> int:
    [number] = situations(np.asarray(state, np.int8).reshape(1, -1), int(k[K_BROKERS]))
    return number


def _observed(state: Vector, k: Constants) -> ScheduleStep:
    """Return the step in which the observer sees a situation on a path."""
    up = {number for number in range(int(k[K_BROKERS])) if is_up(state, number)}
    seen = decode(state, k)
    here = sorted(up & set(seen.assigned) if seen.assigned else up)
    return ScheduleStep(
        action="observe",
        says="the observer queries every broker",
        expect=Expect(
            leader=seen.leader,
            isr=frozenset(seen.isr),
            leo={b: seen.replicas[b].leo for b in here} or None,
            hw={b: seen.replicas[b].hw for b in here} or None,
        ),
    )


def _revived(
    state: Vector, k: Constants, killed: set[int]
) -> tuple[tuple[ScheduleStep, ...], tuple[Row, ...]]:
    """Return steps that restart each broker that exited because it was ahead of its leader.

    The replay kills such a broker first, because the shutdown of 0.10.2.2 may never end.
    """
    everybody = (1 << int(k[K_BROKERS])) - 1
    run = (int(Move.RUN), everybody, 0)
    state = _played([run], state, k)
    dead = [
        b for b in {*members(everybody)} - killed if get(state, b, PROCESS) == ProcessState.DEAD
    ]
    steps: list[ScheduleStep] = []
    moves: list[Row] = [run] if dead else []
    for b in dead:
        expire, start = (int(Move.EXPIRE), b, b), (int(Move.START), b, 0)
        after = _played([expire], state, k)
        steps += [
            ends_itself(b),
            _step(CompiledStep(move=expire, running=everybody, moves=(expire,)), state, after, k),
            ScheduleStep(action="start", broker=b, says=f"{NAMES[b]} starts again"),
        ]
        state = _played([start], after, k)
        moves += [expire, start]
    return tuple(steps), tuple(moves)


def _step(beat: CompiledStep, before: Vector, after: Vector, k: Constants) -> ScheduleStep:
    """Return a schedule's step, with the brokers to freeze and the state expected after it.

    After a clean shutdown on KRaft all brokers have run (``rounds.shut_down``), so the expected
    state has all of them.
    """
    kind, a, b = beat.move
    up = {
        number
        for number in range(int(k[K_BROKERS]))
        if is_up(before, number) or is_up(after, number)
    }
    seen, running = decode(after, k), {*members(beat.running)}
    settled = up if kind == Move.STOP and k[K_KRAFT] else running & up
    return ScheduleStep(
        action=action_of(Move(kind)),
        broker=None if kind in ROUNDS or kind == Move.REASSIGN else a,
        replicas=_reassigned(beat.move),
        record=sent_by(beat.move, seen),
        says=says(kind, a, b, before, after),
        held=frozenset(up - running),
        expect=_expect(seen, settled, Move(kind), a),
    )


def _reassigned(move: Row) -> tuple[int, ...]:
    """Return the replicas that a reassignment requests, the preferred replica first."""
    kind, a, b = move
    return (b, *sorted({*members(a)} - {b})) if kind == Move.REASSIGN else ()


def _expect(seen: State, numbers: set[int], kind: Move, a: int) -> Expect:
    """Return the expected state of the controller, the running brokers, disks and producers."""
    replicas = seen.replicas
    named = {*members(a)} if kind in (Move.TELL, Move.SAVE) else set[int]()
    leading = {b for b in numbers if replicas[b].follows == b}
    here = numbers & set(seen.assigned) if seen.assigned else numbers
    leo = {b: replicas[b].leo for b in sorted(here) if replicas[b].process == "up"}
    hw = {b: replicas[b].hw for b in sorted((named | leading) & set(leo))}
    return Expect(
        leader=seen.leader,
        isr=frozenset(seen.isr),
        leo=leo or None,
        hw=hw or None,
        hw_on_disk={b: replicas[b].hw_on_disk for b in named} if kind is Move.SAVE else None,
        acked=frozenset(seen.acked) if kind in ROUNDS else None,
    )


def _order(
    beats: Sequence[CompiledStep], path: Sequence[Vector], brokers: int, *, kraft: bool
) -> tuple[int, ...]:
    """Return an order of the assignment with which the elections are those of the counterexample.

    Kafka elects the first electable replica in this order. On KRaft any order is possible, because
    the replay changes the order before an election.
    """
    for order in permutations(range(brokers)):
        if order[0] == 0 and _fits(list(order), beats, path):
            return order
    if kraft:
        return tuple(range(brokers))
    raise UsageError(
        "no order of the replicas in the assignment leads to the elections of this counterexample",
        hint="Search for another counterexample, with other bounds or for a single invariant.",
    )


def _fits(order: list[int], beats: Sequence[CompiledStep], path: Sequence[Vector]) -> bool:
    for beat, before, after in zip(beats, path, path[1:], strict=False):
        kind, a, _ = beat.move
        leader = leader_of(after, newest(after))
        if kind == Move.MOVE and leader == a:
            order = [a, *(broker for broker in order if broker != a)]
        leader_before = leader_of(before, newest(before))
        if kind == Move.ELECT or (kind in (Move.STOP, Move.EXPIRE) and leader_before == a):
            in_sync = isr_of(before, newest(before)) & int(after[LIVE])
            able = in_sync & ~(1 << a) if leader_before == a else in_sync or int(after[LIVE])
            first = next((broker for broker in order if (able >> broker) & 1), -1)
            if leader not in (first, -1):
                return False
    return True
