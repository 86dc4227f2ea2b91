"""The result of a search: whether an invariant can be broken, and how."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from highwater.checkers.model.search.breadth_first import (
    Limits,
    Reason,
    SearchOutcome,
    SearchProgress,
    explore,
)
from highwater.checkers.model.search.machine import Machine
from highwater.checkers.model.search.paths import PathStep

File_co = TypeVar("File_co", covariant=True)
"""The type of the file in which a model stores its counterexamples."""


class Question(Protocol[File_co]):
    """The settings of a search, with the interface that both kinds of settings have."""

    @property
    def kafka(self) -> str:
        """The release of Kafka whose rules the model applies."""

    @property
    def client(self) -> str | msgspec.UnsetType:
        """The client library of the producers; unset if the model has no clients."""

    @property
    def scope(self) -> Any:  # noqa: ANN401 - each model has bounds of its own
        """The bounds of the search."""

    @property
    def switched(self) -> Mapping[str, bool]:
        """The rules that differ from the release's rules."""

    def machine(self) -> Machine:
        """Return the model as a machine."""

    def says(self, invariant: str) -> str:
        """Return an invariant as a sentence."""

    def counterexample(self, invariant: str, path: Sequence[PathStep]) -> File_co:
        """Return the counterexample of a shortest path that breaks an invariant."""


class SearchAnswer(msgspec.Struct, Generic[File_co], frozen=True, kw_only=True):
    """The answer of a search to the question: can a state within these bounds break the invariant?

    Attributes:
        holds: true if no state within the bounds breaks the invariant; false if a state breaks it;
            null if the search ended early and found no state that breaks it.
        reason: the reason why ``holds`` is null: ``memory``, ``time``, ``stopped`` or ``overflow``;
            else null.
        states: number of distinct states that the search reached.
        depth: number of moves from the initial state to the farthest state that the search found.
        seconds: search time; ``compile_seconds`` is the time before it to compile machine code.
        rate: states per second of search time.
        peak_bytes: the largest amount of memory that the process used.
        collision: upper bound of the probability that a fingerprint made the search miss a state.
        counterexample: the steps to a state that breaks the invariant; null if there is none.
    """

    kafka: str
    client: str | msgspec.UnsetType = msgspec.UNSET
    scope: Any
    switched: Mapping[str, bool]
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
    peak_bytes: int
    collision: float
    counterexample: File_co | None

    def summary(self) -> dict[str, object]:
        """Return the object for ``model explore --json``; its counterexample is a list of steps."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        if self.counterexample is not None:
            plain["counterexample"] = plain["counterexample"]["steps"]
        return plain


def search(
    question: Question[File_co],
    invariants: Sequence[str],
    *,
    limits: Limits,
    jobs: int = 1,
    watch: Callable[[SearchProgress], None] = lambda _: None,
) -> tuple[SearchAnswer[File_co], ...]:
    """Return an answer for each invariant: the shortest way to break it, if the search finds one.

    The other arguments are those of ``explore``.
    """
    outcome = explore(question.machine(), invariants, limits=limits, jobs=jobs, watch=watch)
    return tuple(_answer(question, name, outcome) for name in invariants)


def _answer(
    question: Question[File_co], name: str, outcome: SearchOutcome
) -> SearchAnswer[File_co]:
    path, holds = outcome.paths.get(name), True if outcome.exhausted else None
    return SearchAnswer(
        kafka=question.kafka,
        client=question.client,
        scope=question.scope,
        switched=dict(question.switched),
        invariant=name,
        says=question.says(name),
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
        counterexample=None if path is None else question.counterexample(name, path),
    )
