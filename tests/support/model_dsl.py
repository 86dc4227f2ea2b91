"""A play on the model, move by move: what its tests are written in.

A script names one move a line, or several with a comma between: ``send A``, ``fetch B``, and of two
brokers ``expire A B`` (B is elected; ``expire A A``: nobody). Brokers of a round run together:
``run AB``; ``batch A 2`` are two records. ``reassign CA`` asks for the replicas C and A, the first
of them C. Every move must be possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from highwater.checkers.model.protocol.compiled import Constants
from highwater.checkers.model.protocol.compiled import State as Vector
from highwater.checkers.model.protocol.invariants import INVARIANTS, broken
from highwater.checkers.model.protocol.moves import ROUNDS, Move, apply
from highwater.checkers.model.protocol.readable_state import State, decode
from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.checkers.model.protocol.scope import Scope, constants, initial
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.checkers.model.search.paths import play

BROKERS = "ABC"
PLENTY: Mapping[str, Any] = {
    "records": 6,
    "failures": 9,
    "moves": 9,
    "late": 9,
    "batch": 3,
    "failovers": 3,
    "wipes": 3,
    "joins": 3,
    "reassignments": 3,
}


@dataclass(slots=True, kw_only=True)
class Play:
    """The model under the rules of one release, and where it stands."""

    scope: Scope
    k: Constants
    vector: Vector = field(init=False)

    def __post_init__(self) -> None:
        self.vector = initial(self.scope)

    @classmethod
    def of(cls, kafka: str, switched: Mapping[str, bool] | None = None, **bounds: Any) -> Self:  # noqa: ANN401 - of a Scope
        """Begin. ``switched`` are rules other than the release's; ``bounds`` are the scope's."""
        scope = Scope(**{**PLENTY, **bounds})
        return cls(scope=scope, k=constants(scope, replace(rules_of(kafka), **(switched or {}))))

    def can(self, move: str) -> bool:
        """Whether a move is possible now."""
        return apply(self.vector.copy(), self.k, *row_of(move))

    def do(self, script: str) -> Self:
        """Take every move of a script."""
        for move in script.replace(",", "\n").split("\n"):
            if move.strip():
                after = self.vector.copy()
                assert apply(after, self.k, *row_of(move)), f"{move.strip()!r} is not possible"
                self.vector = after
        return self

    @property
    def now(self) -> State:
        """The state, decoded."""
        return decode(self.vector, self.k)

    def log(self, broker: str) -> str:
        """A broker's log, such as ``m1 m2``."""
        return " ".join(entry.record for entry in self.now.replicas[BROKERS.index(broker)].log)

    def hw(self, broker: str) -> int:
        """A broker's high watermark."""
        return self.now.replicas[BROKERS.index(broker)].hw

    @property
    def broken(self) -> set[str]:
        """Names of the invariants that do not hold now."""
        mask = broken(self.vector, self.k)
        return {name for name, one in INVARIANTS.items() if mask >> one.bit & 1}


def row_of(move: str) -> tuple[int, int, int]:
    """A move as the rules take it."""
    verb, *names = move.split()
    kind = Move[verb.upper()]
    if kind in ROUNDS:
        return int(kind), sum(1 << BROKERS.index(one) for one in names[0]), 0
    if kind == Move.REASSIGN:
        return (
            int(kind),
            sum(1 << BROKERS.index(one) for one in names[0]),
            BROKERS.index(names[0][0]),
        )
    numbers = [int(name) if name.isdecimal() else BROKERS.index(name) for name in names]
    first, second = (*numbers, 0, 0)[:2]
    return int(kind), first, second


def found(script: str, invariant: str, kafka: str, **bounds: Any) -> Counterexample:  # noqa: ANN401
    """A path by rounds whose last move breaks an invariant."""
    scope = Scope(**{"failures": 0, "moves": 3, "by": "round", **bounds})
    setting = ModelSettings(kafka=kafka, scope=scope)
    machine = setting.machine()
    rows = [row_of(move) for move in script.split(", ")]
    breach = setting.counterexample(invariant, ()).breach(machine)
    leaps = play(machine, rows, breach)
    assert leaps is not None
    assert [leap.move for leap in leaps] == rows
    return setting.counterexample(invariant, leaps)


CANCELLED = (
    "reassign AB, run ABC, kill B, expire B B, run AC, reassign ABC, run AC, stop A C, run C, "
    "send C, cancel A, run C, reassign ABC, start B, stop B C, run C"
)
"""The only log in sync is deleted. Its broker is added again, and leads as soon as B has left."""
