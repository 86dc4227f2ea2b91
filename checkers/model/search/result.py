"""The answer of a search about one invariant."""

from collections.abc import Callable, Sequence

import msgspec

from highwater.checkers.model.protocol.invariants import INVARIANTS
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.schedules.counterexample import Counterexample, counterexample
from highwater.checkers.model.search.breadth_first import (
    Limits,
    Reason,
    SearchOutcome,
    SearchProgress,
    explore,
)
from highwater.checkers.model.search.kafka_model import ModelSettings


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question: can this invariant be broken within this scope?

    Attributes:
        holds: true if no state within the scope breaks it; false if one does; null if it is not
            known, because not every state was reached.
        reason: why it is not known: ``memory``, ``time``, ``stopped`` or ``overflow``; null where
            it is.
        states: distinct states reached by the whole search.
        depth: moves from the initial state to the farthest state that was met.
        seconds: of searching; ``compile_seconds`` went before, for machine code.
        rate: states per second of searching.
        peak_bytes: most memory that the process held; null where it was not measured.
        collision: how likely it is, at most, that a state was missed for its fingerprint.
        counterexample: steps that break it; null where none was found.
    """

    kafka: str
    scope: Scope
    switched: dict[str, bool]
    invariant: str
    says: str
    holds: bool | None
    reason: Reason | None
    states: int
    transitions: int
    depth: int
    seconds: float
    compile_seconds: float
    rate: float
    peak_bytes: int | None
    collision: float
    counterexample: Counterexample | None

    def summary(self) -> dict[str, object]:
        """Return the object of ``model explore --json``: the counterexample is its steps."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        if self.counterexample is not None:
            plain["counterexample"] = msgspec.to_builtins(self.counterexample.steps)
        return plain


def search(
    setting: ModelSettings,
    invariants: Sequence[str],
    *,
    limits: Limits,
    jobs: int = 1,
    watch: Callable[[SearchProgress], None] = lambda _: None,
) -> tuple[SearchAnswer, ...]:
    """Search for the shortest way to break each invariant; a result each. As ``explore``."""
    outcome = explore(setting.machine(), invariants, limits=limits, jobs=jobs, watch=watch)
    return tuple(_answer(setting, name, outcome) for name in invariants)


def _answer(setting: ModelSettings, name: str, outcome: SearchOutcome) -> SearchAnswer:
    path, holds = outcome.paths.get(name), True if outcome.exhausted else None
    return SearchAnswer(
        kafka=setting.kafka,
        scope=setting.scope,
        switched=dict(setting.switched),
        invariant=name,
        says=INVARIANTS[name].says,
        holds=holds if path is None else False,
        reason=outcome.reason if path is None and holds is None else None,
        states=outcome.states,
        transitions=outcome.transitions,
        depth=outcome.depth,
        seconds=outcome.seconds,
        compile_seconds=outcome.compile_seconds,
        rate=outcome.states / max(outcome.seconds, 1e-9),
        peak_bytes=outcome.peak_bytes,
        collision=outcome.collision,
        counterexample=None if path is None else counterexample(setting, name, path, shortest=True),
    )
