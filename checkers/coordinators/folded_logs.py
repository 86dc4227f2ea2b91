"""A coordinator's log, replayed to the states that the coordinator may return.

A coordinator has its state in memory, and writes each change to its log first. A client reads the
log's end, and then requests the state. The response is correct if the log has the returned state at
that end or at a later offset, because the next coordinator would load the same log.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

Row = dict[str, Any]
Place = tuple[str, int]
"""The subject of a coordinator's state: a group or a transactional id, and a partition."""


class Placed(Protocol):
    """A change of the state of a group or a transactional id in a partition."""

    @property
    def place(self) -> Place:
        """The group or transactional id, and the partition, whose state changes."""


class Fold(Protocol):
    """A coordinator's state. It is replayed record by record, as a coordinator loads its log."""

    def apply(self, row: Row) -> Iterable[Placed]:
        """Apply the next record of the log. Return the changes of state that the record causes."""

    def possible(self, place: Place) -> frozenset[Any]:
        """Return the states that a coordinator may have for a group or a transactional id.

        None means no state.
        """


class CoordinatorAnswer(NamedTuple):
    """A coordinator's response.

    Attributes:
        place: the group or transactional id, and the partition.
        state: the returned state.
        end: the log's end, which the client read before the request.
    """

    place: Place
    state: Any
    end: int


class Contradiction(NamedTuple):
    """A response that disagrees with every complete replica of the log.

    Attributes:
        log: the longest complete replica.
        expected: the states of the response's place at the end of this replica.
    """

    answer: CoordinatorAnswer
    log: Sequence[Row]
    expected: frozenset[Any]


def whole(log: Sequence[Row]) -> bool:
    """Return whether a replica begins at offset 0 and compaction has removed no record."""
    return all(row["offset"] == at for at, row in enumerate(log))


def contradicted(
    answers: Sequence[CoordinatorAnswer], replicas: Iterable[Sequence[Row]], new: Callable[[], Fold]
) -> Iterator[Contradiction]:
    """Yield the responses that contradict every replica that is complete up to their ``end``."""
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
    """Return, for each distinct response, the log's states of its place from its ``end`` on."""
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
