"""Moves of readers: assignments, seeks, rebalances.

A *step* leads from one row of a client to another row in the same partition. If a step is wrong, a
move may excuse it:

- Between the two rows, the client was assigned or subscribed without this partition. This also
  excuses sends, because each of Jepsen's clients both sends and reads.
- Between the two rows, the client called ``seek`` with another offset in the partition.
- A rebalance gave or took the partition in one of the two operations, or between them. The history
  does not record when in its operation a rebalance happened. So the rebalance excuses the steps
  into, inside and out of the operation. (Jepsen excuses only the steps inside the operation. In a
  test with rebalances, it permits all other steps.)
"""

from typing import Final

import pyarrow as pa

from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    Ints,
    Numbers,
    any_of,
    choose,
    first_of,
    numbers,
    schema,
    so_far,
)

MOVED: Final = schema("client", "slot", "op", "at", "fact", fact=pa.int32())
"""A row of a history that changed which partitions a client reads, or from which offset."""


def unexcused(rows: pa.Table) -> pa.Table:
    """Return clients' steps that no assignment, seek or rebalance excuses.

    All rows of one ``client`` must be in one table.

    Args:
        rows: steps (``checkers.history.steps.STEP``), and moves (``MOVED``, with ``delta`` null).
    """
    steps = rows.filter(rows["delta"].is_valid())
    moves = numbers(rows.filter(rows["delta"].is_null()), MOVED.names)
    end = numbers(steps, ("client", "slot", "sent", "from_op", "from_at", "op", "at"))
    begin = end | {"op": end["from_op"], "at": end["from_at"]}
    before = end | {"op": end["from_op"] - 1}
    assigned, seeks, shaken, everywhere = (
        any_of(moves["fact"], bits)
        for bits in (flags.ASSIGNED, flags.SEEK_FLAG, flags.REBALANCED, flags.EVERYWHERE)
    )
    # An assignment has a row for each partition. All these rows have its operation's number.
    all_of_them = first_of(choose(moves, assigned), "client", "op")
    first_assigned = first_of(choose(moves, assigned & ~everywhere), "client", "slot", "op")
    left = _between(begin, end, all_of_them, "client", "op")
    left -= _between(begin, end, first_assigned, "client", "slot", "op")
    moved = 0 * left
    for here, whose in ((everywhere, ("client",)), (~everywhere, ("client", "slot"))):
        moved += _between(begin, end, choose(moves, seeks & here), *whose, "op", "at")
        moved += _between(before, end, choose(moves, shaken & here), *whose, "op")
    excused = (left > 0) | (~end["sent"] & (moved > 0))
    return steps.filter(pa.array(~excused))


def _between(begin: Numbers, end: Numbers, moves: Numbers, *by: str) -> Ints:
    keys = [moves[name] for name in by]
    until, since = (so_far(keys, [rows[name] for name in by]) for rows in (end, begin))
    return until - since
