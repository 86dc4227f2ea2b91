"""Moves of readers: assignments, seeks, rebalances.

A step from one row to another is excused where between them the client

- was assigned, or subscribed to, partitions without this one (like Jepsen we keep the positions of
  those that stay, of producers too, because Jepsen's clients are both in one),
- sought another place in the partition, to any offset, or
- lost or got the partition in a rebalance, in either operation or between them. The point of a
  rebalance inside its operation is not recorded, so it excuses the steps into and out of the
  operation as well as those inside (Jepsen excuses those inside alone, and allows the others for
  the whole test).

Only steps that look wrong are examined.
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
"""A row of a history that moved a client."""


def unexcused(rows: pa.Table) -> pa.Table:
    """Return the steps that no move excuses. A kernel by ``client``.

    Args:
        rows: in ``checkers.history.steps.STEP``, and rows of ``MOVED``, whose ``delta`` is null.
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
    # An assignment has a row for each partition, which all bear the number of its operation.
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
    """Return how many moves come after each begin and not after the end."""
    keys = [moves[name] for name in by]
    until, since = (so_far(keys, [rows[name] for name in by]) for rows in (end, begin))
    return until - since
