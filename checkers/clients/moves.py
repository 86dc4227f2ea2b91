"""What moves a reader on purpose: assignments, seeks, rebalances.

A step from one row to another is excused where between them the client

- was assigned, or subscribed to, partitions without this one (Jepsen keeps the positions of those
  that stay, and so do we; of producers too, as Jepsen's clients are both in one),
- sought another place in the partition, whereto does not matter, or
- had the partition taken or given in a rebalance, in either's operation or between: where in its
  operation a rebalance happened nobody tells, so that it excuses the steps into and out of it as
  well as those inside (Jepsen excuses those inside alone, and allows the others by the whole test).

Only steps that look wrong are ever asked about.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from checkers.clients.columns import Bools, Numbers, any_of, groups, numbers
from checkers.clients.facts import ASSIGNED, EVERYWHERE, REBALANCED, SOUGHT
from checkers.clients.kernels import choose, sort

MOVED: Final = pa.schema(
    [*((name, pa.int64()) for name in ("client", "slot", "op", "at")), ("fact", pa.int32())]
)
"""A row of a history that moved a client."""

_FIRST: Final = -1  # before all rows of its operation
_LAST: Final = 1 << 62  # after all of them
_ASSIGNED, _KEPT, _MOVED, _INSIDE = range(4)
_COUNTS: Final = 4
"""What is counted of what came before: assignments at all, those that kept the slot, seeks and the
edges of operations with rebalances, and such operations that have begun and not ended."""


def unexcused(rows: pa.Table) -> pa.Table:
    """The steps that nothing excuses. A kernel by ``client``.

    Args:
        rows: in ``checkers.clients.steps.STEP``, and rows of ``MOVED``, whose ``delta`` is null.
    """
    steps = rows.filter(rows["delta"].is_valid()).drop_columns(["fact"])
    moves = numbers(rows.filter(rows["delta"].is_null()), MOVED.names)
    if not len(moves["at"]) or not len(steps):
        return steps
    named = numbers(steps, ("client", "slot", "sent", "from_op", "from_at", "op", "at"))
    events = _events(moves)
    begin = named | {"op": named["from_op"], "at": named["from_at"]}
    before, after = (_counted(events, end) for end in (begin, named))
    assigned, kept, moved, _ = np.abs(after - before).T
    inside = after[:, _INSIDE] > 0
    excused = (assigned != kept) | (~named["sent"] & ((moved > 0) | inside))
    return steps.filter(pa.array(~excused))


def _events(moves: Numbers) -> Sequence[tuple[Numbers, Bools]]:
    """What changes the counts, with a ``count`` and by how ``much``, and which in all slots.

    An event stands before the rows of the same place in an operation.
    """
    fact = moves["fact"]
    everywhere = any_of(fact, EVERYWHERE)
    assigned, sought, shaken = (any_of(fact, bits) for bits in (ASSIGNED, SOUGHT, REBALANCED))
    once = _once(choose(moves, assigned), "client", "op")
    kept = _once(choose(moves, assigned & ~everywhere), "client", "slot", "op")
    found = [
        (once | _counts(once, _ASSIGNED, 1, _FIRST), np.ones(len(once["at"]), np.bool_)),
        (kept | _counts(kept, _KEPT, 1, _FIRST), np.zeros(len(kept["at"]), np.bool_)),
    ]
    seeks, some = choose(moves, sought), choose(moves, shaken)
    found.append((seeks | _counts(seeks, _MOVED, 1, None), everywhere[sought]))
    for place, inside in ((_FIRST, 1), (_LAST, -1)):
        found.append((some | _counts(some, _MOVED, 1, place), everywhere[shaken]))
        found.append((some | _counts(some, _INSIDE, inside, place), everywhere[shaken]))
    return found


def _once(rows: Numbers, *by: str) -> Numbers:
    ordered = sort(rows, *by)
    return choose(ordered, groups(*(ordered[name] for name in by))) if len(rows["at"]) else rows


def _counts(rows: Numbers, count: int, much: int, at: int | None) -> Numbers:
    size = len(rows["at"])
    found = {"count": np.full(size, count), "much": np.full(size, much)}
    return found if at is None else found | {"at": np.full(size, at)}


def _counted(events: Sequence[tuple[Numbers, Bools]], ends: Numbers) -> NDArray[np.int64]:
    """What is counted up to each of some rows, a row each: of its client, and of its slot."""
    found = np.zeros((len(ends["at"]), _COUNTS), np.int64)
    for of_all, by in ((True, ("client",)), (False, ("client", "slot"))):
        some = [choose(rows, everywhere == of_all) for rows, everywhere in events]
        names = (*by, "op", "at")
        columns = {
            name: np.concatenate([*(rows[name] for rows in some), ends[name]]) for name in names
        }
        size = len(columns["at"]) - len(found)
        asked = np.arange(len(columns["at"])) >= size
        change = np.zeros((len(asked), _COUNTS), np.int64)
        count, much = (np.concatenate([rows[name] for rows in some]) for name in ("count", "much"))
        change[np.arange(size), count] = much
        order = np.lexsort((asked, *(columns[name] for name in reversed(names))))
        first = groups(*(columns[name][order] for name in by))
        total = np.cumsum(change[order], axis=0)
        before = np.vstack((np.zeros((1, _COUNTS), np.int64), total))[first]
        sums = np.empty_like(total)
        sums[order] = total - np.repeat(before, np.diff(np.append(first, len(order))), axis=0)
        found += sums[size:]
    return found
