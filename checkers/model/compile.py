"""A counterexample as a schedule that real brokers can follow.

Only one that was found by rounds can be: between its commands everybody who is not frozen runs until
nothing is left to do, as real brokers do. What is expected after each step is what the rules of the
release make of it that the schedule is played on, which need not be the one that it was found on.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Final

from checkers.model.compiled import Constants
from checkers.model.compiled import State as Vector
from checkers.model.counterexample import Counterexample
from checkers.model.layout import LIVE, is_up, isr_of, leader_of, newest
from checkers.model.moves import Move, apply
from checkers.model.reference import Setting
from checkers.model.rules import rules_of
from checkers.model.schedule import Action, Expect, Schedule, Step
from checkers.model.scope import constants, initial
from checkers.model.sentences import says
from checkers.model.view import State, decode
from harness.errors import UsageError

Row = tuple[int, int, int]
"""A move: its kind and its two arguments."""

_ROUNDS: Final = (Move.RUN, Move.TELL, Move.SAVE)
_ACTIONS: Final[dict[Move, Action]] = {
    Move.SEND: "send",
    Move.KILL: "kill",
    Move.PAUSE: "pause",
    Move.RESUME: "resume",
    Move.START: "start",
    Move.STOP: "stop",
    Move.MOVE: "move",
    Move.EXPIRE: "expire",
    Move.RUN: "run",
    Move.TELL: "tell",
    Move.SAVE: "checkpoint",
}


def compile_for(found: Counterexample, kafka: str) -> Schedule:
    """The schedule that plays a counterexample on a release.

    Raises:
        UsageError: it was found by messages, or its elections need an order of the assignment that
            there is not; or the model knows no such release.
    """
    if found.scope.by != "round":
        raise UsageError(
            "this counterexample was found message by message, and messages cannot be held back",
            hint="Find one with highwater model explore --by round.",
        )
    rows = [step.numbers() for step in found.steps]
    rows = _eager(found.setting, found.invariant, rows)
    k = constants(found.scope, rules_of(kafka))
    path = _played(rows, initial(found.scope), k)
    steps = tuple(_step(n, path, rows, k, kraft=rules_of(kafka).kraft) for n in range(len(rows)))
    return Schedule(
        kafka=kafka,
        name=f"{found.invariant} on {found.kafka}",
        replicas=found.scope.brokers,
        acks=found.scope.acks,
        min_isr=found.scope.min_isr,
        unclean=found.scope.unclean,
        order=_order(rows, path, found.scope.brokers),
        steps=steps,
        moves=tuple(rows),
    )


def _eager(setting: Setting, invariant: str, rows: Sequence[Row]) -> list[Row]:
    """The same with a round right after each command, if that breaks the invariant too.

    Real brokers that are not frozen do not wait until the next command has been given.
    """
    machine = setting.machine()
    bit = machine.invariants[invariant]
    eager: list[Row] = []
    for n, row in enumerate(rows):
        eager.append(row)
        if row[0] not in _ROUNDS and (runs := _next_run(rows, n)):
            eager.append((int(Move.RUN), runs, 0))
    state = _played(eager, machine.initial, machine.constants)[-1]
    broken = machine.laws.broken(state, machine.constants) >> bit & 1
    return _without_repeats(eager) if broken else list(rows)


def _without_repeats(rows: Iterable[Row]) -> list[Row]:
    kept: list[Row] = []
    for row in rows:
        if not kept or kept[-1] != row:
            kept.append(row)
    return kept


def _next_run(rows: Sequence[Row], at: int) -> int:
    """Who runs in the next round; 0 if there is none."""
    return next((a for kind, a, _ in rows[at + 1 :] if kind == Move.RUN), 0)


def _played(rows: Iterable[Row], state: Vector, k: Constants) -> list[Vector]:
    """The states from the first to the last; a move that these rules do not have changes nothing.

    Whom an election chooses is the rules' own affair: where the one named cannot be chosen, another
    is.
    """
    path = [state]
    for kind, a, b in rows:
        for successor in (b, *range(3)) if kind in (Move.STOP, Move.EXPIRE) else (b,):
            after = path[-1].copy()
            if apply(after, k, kind, a, successor):
                path.append(after)
                break
        else:
            path.append(path[-1])
    return path


def _step(
    n: int, path: Sequence[Vector], rows: Sequence[Row], k: Constants, *, kraft: bool
) -> Step:
    """One step: who must be frozen meanwhile, and what must be seen after it."""
    kind, a, b = rows[n]
    before, after = path[n], path[n + 1]
    everybody = range(int(k[0]))
    up = {one for one in everybody if is_up(before, one) or is_up(after, one)}
    running = _running(Move(kind), a, _next_run(rows, n), up, kraft=kraft)
    seen = decode(after, k)
    quiet = kind in _ROUNDS or kind == Move.SEND
    return Step(
        action=_ACTIONS[Move(kind)],
        broker=None if kind in _ROUNDS else a,
        record=f"m{seen.sent}" if kind == Move.SEND else None,
        says=says(kind, a, b, before, after),
        held=frozenset(up - running),
        expect=_expect(seen, running & up if quiet else set(), Move(kind), a),
    )


def _running(kind: Move, a: int, next_run: int, up: set[int], *, kraft: bool) -> set[int]:
    """Who must not be frozen during a step."""
    if kind in _ROUNDS:
        return _members(a)
    if kind in (Move.SEND, Move.START, Move.RESUME):
        return {a}
    if kind is Move.STOP:
        return up if kraft else {a}  # KRaft lets nobody go whose news others have not heard
    return _members(next_run) - {a} if kind in (Move.KILL, Move.PAUSE) else _members(next_run)


def _expect(seen: State, asked: set[int], kind: Move, a: int) -> Expect:
    """What the controller, the brokers that run, the disks and the producers must show."""
    replicas = seen.replicas
    told = set(_members(a)) if kind in (Move.TELL, Move.SAVE) else set()
    leading = {b for b in asked if replicas[b].follows == b}
    leo = {b: replicas[b].leo for b in sorted(asked) if replicas[b].process == "up"}
    hw = {b: replicas[b].hw for b in sorted((told | leading) & set(leo))}
    return Expect(
        leader=seen.leader,
        isr=frozenset(seen.isr),
        leo=leo or None,
        hw=hw or None,
        hw_on_disk={b: replicas[b].hw_on_disk for b in told} if kind is Move.SAVE else None,
        acked=frozenset(seen.acked) if kind in _ROUNDS else None,
    )


def _members(mask: int) -> set[int]:
    return {b for b in range(3) if (mask >> b) & 1}


def _order(rows: Sequence[Row], path: Sequence[Vector], brokers: int) -> tuple[int, ...]:
    """An order of the assignment in which the first that can be elected is the one that was."""
    for order in permutations(range(brokers)):
        if order[0] == 0 and _fits(list(order), rows, path):
            return order
    raise UsageError(
        "no order of the assignment has these elections end as they do",
        hint="Search for another counterexample: other bounds, or one invariant alone.",
    )


def _fits(order: list[int], rows: Sequence[Row], path: Sequence[Vector]) -> bool:
    for (kind, a, _), before, after in zip(rows, path, path[1:], strict=False):
        leader = leader_of(after, newest(after))
        if kind == Move.MOVE and leader == a:
            order = [a, *(one for one in order if one != a)]
        if kind in (Move.STOP, Move.EXPIRE) and leader_of(before, newest(before)) == a:
            able = isr_of(before, newest(before)) & int(after[LIVE]) & ~(1 << a)
            first = next((one for one in order if (able >> one) & 1), -1)
            if leader not in (first, -1):
                return False
    return True
