"""A coordinator's log, folded once to the states that the coordinator may answer with.

A coordinator keeps its state in memory, and writes each change to its log first. A client asks for
the state, and notes where the log ended before. The answer must be a state that the log gives at
that end, or at any later one: the next coordinator, which loads the log, would answer so.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

Row = dict[str, Any]
Place = tuple[str, int]
"""A group, or a transactional id, and a partition."""


class Placed(Protocol):
    """A change of the state of a place."""

    @property
    def place(self) -> Place:
        """The place whose state changes."""


class Fold(Protocol):
    """A coordinator's state, record by record, as a coordinator loads its log."""

    def apply(self, row: Row) -> Iterable[Placed]:
        """Apply the next record; return the changes that take effect by it."""

    def possible(self, place: Place) -> frozenset[Any]:
        """Return the states that a coordinator may have for a place; None: it has none."""


class CoordinatorAnswer(NamedTuple):
    """A coordinator's answer.

    Attributes:
        end: where the log ended before the question.
    """

    place: Place
    state: Any
    end: int


class Contradiction(NamedTuple):
    """An answer that no whole replica of a log gives.

    Attributes:
        log: the longest whole replica.
        expected: the states that its end gives.
    """

    answer: CoordinatorAnswer
    log: Sequence[Row]
    expected: frozenset[Any]


def whole(log: Sequence[Row]) -> bool:
    """Return whether a replica begins at offset 0, and compaction left no gap in it."""
    return all(row["offset"] == at for at, row in enumerate(log))


def contradicted(
    answers: Sequence[CoordinatorAnswer], replicas: Iterable[Sequence[Row]], new: Callable[[], Fold]
) -> Iterator[Contradiction]:
    """Yield the answers that contradict every whole replica which is not shorter than their end."""
    logs: list[tuple[Sequence[Row], Fold, list[set[Any]]]] = []
    for log in sorted(filter(whole, replicas), key=len, reverse=True):
        if not any(log == before for before, *_ in logs):
            fold = new()
            logs.append((log, fold, _possible(log, fold, answers)))
    for number, answer in enumerate(dict.fromkeys(answers)):
        long = [entry for entry in logs if len(entry[0]) >= answer.end]
        if long and not any(answer.state in states[number] for *_, states in long):
            log, fold, _ = long[0]
            yield Contradiction(answer, log, fold.possible(answer.place))


def _possible(
    log: Sequence[Row], fold: Fold, answers: Sequence[CoordinatorAnswer]
) -> list[set[Any]]:
    """Return for each distinct answer the states of its place at its end of a log, or later."""
    distinct = [*dict.fromkeys(answers)]
    states: list[set[Any]] = [set() for _ in distinct]
    waiting = sorted(range(len(distinct)), key=lambda number: -distinct[number].end)
    watched: dict[Place, list[set[Any]]] = defaultdict(list)
    for at, row in enumerate((*log, None)):
        while waiting and distinct[waiting[-1]].end <= at:
            number = waiting.pop()
            place = distinct[number].place
            states[number] |= fold.possible(place)
            watched[place].append(states[number])
        for change in () if row is None else fold.apply(row):
            for later in watched.get(change.place, ()):
                later.update(fold.possible(change.place))
    return states
