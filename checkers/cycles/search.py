"""Search for short cycles in a graph of operations, with NumPy and rustworkx, as Elle does.

The kinds of cycles are those of ``elle.txn`` (``cycle-anomaly-specs``). A cycle of one kind may
imply another kind, as in ``elle.consistency-model`` (``implied-anomalies``).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import rustworkx
from numpy.typing import NDArray

from highwater.checkers.history.columns import NEVER, Bools, Groups, Ints

WW: Final = "ww"
WR: Final = "wr"
PROCESS: Final = "process"
REALTIME: Final = "realtime"

_STEP: Final = float(
    1 << 32
)  # the cost of an edge between operations; an edge between points in time costs 1
_TRIES: Final = 4  # the number of cycles that are searched in each component; the shortest is used


class _Sort(NamedTuple):
    """A kind of cycle. Its edges: ww; wr edges if ``wr``; edges of time as in ``order``."""

    name: str
    wr: bool
    order: str | None

    def implies(self, other: "_Sort") -> bool:
        """Return whether a cycle of this kind is also a cycle of the other kind."""
        strengths = (None, PROCESS, REALTIME)
        return self.wr <= other.wr and strengths.index(self.order) <= strengths.index(other.order)


SORTS: Final = (
    _Sort("G0", wr=False, order=None),
    _Sort("G1c", wr=True, order=None),
    _Sort("G0-process", wr=False, order=PROCESS),
    _Sort("G1c-process", wr=True, order=PROCESS),
    _Sort("G0-realtime", wr=False, order=REALTIME),
    _Sort("G1c-realtime", wr=True, order=REALTIME),
)
"""The kinds of cycles, in Elle's order. Later kinds may have more kinds of edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Vertices of a graph: each operation's history and process, its begin and its end.

    ``end`` is the time at which the operation is known to have succeeded. It is ``NEVER`` if the
    operation is not known to have succeeded: then no operation is known to follow it.
    """

    history: Ints
    process: Ints
    begin: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Edges that sends and reads show. ``source`` and ``target`` are indices in ``Operations``."""

    source: Ints
    target: Ints
    wr: Bools

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A step of a cycle, from one operation to the next.

    ``edge`` is the step's index in ``Dependencies``; -1 if only time orders the two operations.
    ``why`` is ``ww``, ``wr``, ``process`` or ``realtime``.
    """

    source: int
    target: int
    edge: int
    why: str


Cycle = tuple[str, list[Leg]]
"""A cycle's name, such as ``G1c-realtime``, and its steps."""


class _Graph(NamedTuple):
    """A weighted graph of ``size`` vertices: first the operations, then points in time."""

    size: int
    source: Ints
    target: Ints
    weight: NDArray[np.float64]

    def digraph(
        self, chosen: Bools | slice = slice(None)
    ) -> "rustworkx.PyDiGraph[int | None, float]":
        columns = self.source[chosen], self.target[chosen], self.weight[chosen]
        graph: rustworkx.PyDiGraph[int | None, float] = rustworkx.PyDiGraph()
        graph.add_nodes_from(range(self.size))
        edges = zip(*(column.tolist() for column in columns), strict=True)
        graph.extend_from_weighted_edge_list(edges)
        return graph

    def components(self) -> Ints:
        """Return, for each vertex, the first vertex of its strongly connected component.

        The value is -1 for a component of a single vertex.
        """
        labels = np.full(self.size, -1)
        for component in rustworkx.strongly_connected_components(self.digraph()):
            if len(component) > 1:
                labels[component] = min(component)
        return labels


def cycles(operations: Operations, dependencies: Dependencies) -> list[Cycle]:
    """Return short cycles. The kind of a cycle is the first in ``SORTS`` that allows its edges.

    As in Elle, each strongly connected component of the complete graph gives one short cycle of
    each kind, except for kinds that an earlier cycle implies.

    An operation that is known to have succeeded comes before all operations that began later
    (Elle's ``realtime-graph``). ``process`` is the same order within one process; operations that
    overlap are not ordered. Edges of time lead over points on a time line, so there are about as
    many edges as operations.
    """
    everywhere = np.ones(len(operations), np.bool_)
    whole = _graph(operations, dependencies, SORTS[-1], everywhere).components()
    whole = whole[: len(operations)]
    if not (whole >= 0).any():
        return []
    named: list[Cycle] = []
    searches: list[tuple[_Sort, Ints]] = []
    for sort in SORTS:
        implied = [holders for other, holders in searches if other.implies(sort)]
        graph = _graph(operations, dependencies, sort, whole >= 0)
        part = graph.components()
        inside = part[: len(operations)]
        news = inside >= 0
        if implied:
            news &= ~np.isin(whole, np.concatenate(implied))
        if not news.any():
            continue
        chosen = _smallest(inside, whole, news)
        searches.append((sort, np.unique(whole[np.isin(inside, chosen)])))
        part[~np.isin(part, chosen)] = -1
        paths = _shortest(graph, part, operations, dependencies, sort)
        named += [(sort.name, legs) for legs in _legs(paths, operations, dependencies, sort)]
    return named


def _graph(operations: Operations, dependencies: Dependencies, sort: _Sort, timed: Bools) -> _Graph:
    """Return the graph for a kind of cycle. Only ``timed`` operations have edges of time."""
    chosen = slice(None) if sort.wr else ~dependencies.wr
    source, target = dependencies.source[chosen], dependencies.target[chosen]
    weight = np.full(len(source), _STEP)
    size = len(operations)
    if sort.order:
        line = operations.history if sort.order == REALTIME else operations.process
        points, *edges = _time_line(operations, line, timed)
        size += points
        source, target, weight = (
            np.concatenate(both) for both in zip((source, target, weight), edges, strict=True)
        )
    return _Graph(size, source, target, weight)


def _time_line(
    operations: Operations, line: Ints, timed: Bools
) -> tuple[int, Ints, Ints, NDArray[np.float64]]:
    """Return the number of points on all time lines, and the edges of time: source, target, weight.

    The end of each operation is a point. Edges lead from an operation to its point, from a point to
    the next point on its line, and from the last point before an operation's begin to this
    operation.
    """
    count = len(operations)
    ended = np.flatnonzero(timed & (operations.end < NEVER))
    ended = ended[np.lexsort((operations.end[ended], line[ended]))]
    times = np.unique(np.concatenate([operations.end[ended], operations.begin]))
    width = len(times) + 1
    ends = line[ended] * width + np.searchsorted(times, operations.end[ended])
    begins = line * width + np.searchsorted(times, operations.begin)
    before = np.searchsorted(ends, begins) - 1
    follows = timed & (before >= 0)
    if len(ended):
        follows &= line[ended[before]] == line
    points = np.arange(count, count + len(ended))
    on = np.flatnonzero(np.diff(line[ended]) == 0)
    source = np.concatenate([ended, points[on], count + before[follows]])
    target = np.concatenate([points, points[on + 1], np.flatnonzero(follows)])
    weight = np.ones(len(source))
    weight[: len(ended)] = _STEP
    return len(ended), source, target, weight


def _smallest(part: Ints, whole: Ints, news: Bools) -> Ints:
    """Return the smallest ``part`` in each component of ``whole``, among vertices in ``news``."""
    parts, first, counts = np.unique(part[news], return_index=True, return_counts=True)
    owners = whole[news][first]
    order = np.lexsort((first, counts, owners))
    return parts[order][Groups.of(owners[order]).first]


def _shortest(
    graph: _Graph, part: Ints, operations: Operations, dependencies: Dependencies, sort: _Sort
) -> list[list[int]]:
    """Return a short cycle of each component, as a list of its operations in order.

    Usually one of the edges that lead furthest back in time is wrong. So the function returns the
    shortest cycle through one of these edges.
    """
    inside = part[graph.source] == part[graph.target]
    digraph = graph.digraph(inside & (part[graph.source] >= 0))
    usable = np.flatnonzero(
        (part[dependencies.source] == part[dependencies.target])
        & (part[dependencies.source] >= 0)
        & (~dependencies.wr | sort.wr)
    )
    back = operations.begin[dependencies.source] - operations.begin[dependencies.target]
    usable = usable[np.lexsort((usable, -back[usable], part[dependencies.source[usable]]))]
    owners = part[dependencies.source[usable]]
    nth = np.arange(len(usable)) - np.searchsorted(owners, owners)
    best: dict[int, tuple[float, list[int]]] = {}
    for attempt in range(_TRIES):
        edges = usable[nth == attempt]
        if not len(edges):
            break
        for edge, length, path in _closing(digraph, dependencies, edges, len(operations)):
            owner = int(part[dependencies.source[edge]])
            if owner not in best or length < best[owner][0]:
                best[owner] = length, path
    return [best[owner][1] for owner in sorted(best)]


def _closing(
    graph: "rustworkx.PyDiGraph[int | None, float]",
    dependencies: Dependencies,
    edges: Ints,
    count: int,
) -> list[tuple[int, float, list[int]]]:
    """Return the shortest cycle through each edge. The edges are in different components.

    Returns:
        For each edge: its index, the length of the path from its target to its source, and the
        operations of the cycle from its source on.
    """
    starts, goals = dependencies.target[edges], dependencies.source[edges]
    paths = []
    for edge, start, goal in zip(edges.tolist(), starts.tolist(), goals.tolist(), strict=True):
        way = rustworkx.dijkstra_shortest_paths(graph, start, target=goal, weight_fn=float)[goal]
        length = sum(min(graph.get_all_edge_data(*step)) for step in pairwise(way))
        # The edge itself closes the cycle.
        paths.append((edge, length, [goal, *(at for at in way[:-1] if at < count)]))
    return paths


def _legs(
    paths: list[list[int]], operations: Operations, dependencies: Dependencies, sort: _Sort
) -> list[list[Leg]]:
    """Return each cycle's steps.

    A step is a ww edge if there is one, else a wr edge, else an edge of time.
    """
    count = len(operations)
    usable = np.flatnonzero(~dependencies.wr | sort.wr)
    pairs = dependencies.source[usable] * count + dependencies.target[usable]
    order = np.lexsort((usable, dependencies.wr[usable], pairs))
    usable, pairs = usable[order], pairs[order]
    path_legs = []
    for path in paths:
        # Start at the operation that began first, so that a cycle has only one description.
        turn = min(range(len(path)), key=lambda at: (operations.begin[path[at]], path[at]))
        round_trip = [*path[turn:], *path[:turn], path[turn]]
        legs = []
        for source, target in pairwise(round_trip):
            at = int(np.searchsorted(pairs, source * count + target))
            present = at < len(pairs) and pairs[at] == source * count + target
            edge = int(usable[at]) if present else -1
            why = (WR if dependencies.wr[edge] else WW) if present else str(sort.order)
            legs.append(Leg(source=source, target=target, edge=edge, why=why))
        path_legs.append(legs)
    return path_legs
