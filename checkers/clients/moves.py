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
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from checkers.clients.columns import Ints, Numbers, any_of, groups, numbers
from checkers.clients.facts import ASSIGNED, EVERYWHERE, REBALANCED, SOUGHT
from checkers.clients.kernels import choose

MOVED: Final = pa.schema(
    [*((name, pa.int64()) for name in ("client", "slot", "op", "at")), ("fact", pa.int32())]
)
"""A row of a history that moved a client."""

_FIRST: Final = -1  # before all rows of its operation
_LAST: Final = 1 << 62  # after all of them
_ASSIGNED, _KEPT, _MOVED, _INSIDE = np.eye(4, dtype=np.int64)
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
    begin = choose_columns(named, {"op": "from_op", "at": "from_at"})
    end = choose_columns(named, {"op": "op", "at": "at"})
    before, after = _counted(moves, begin), _counted(moves, end)
    assigned, kept, moved, _ = np.abs(after - before).T
    inside = np.maximum(after, before)[:, 3] * 0 + after[:, 3]
    excused = (assigned != kept) | (~named["sent"] & ((moved > 0) | (inside > 0)))
    return steps.filter(pa.array(~excused))
