"""Final coverage: the final readers must reach the greatest offset that any client knew.

At the end of a test (``final-polls`` of ``jepsen.tests.kafka``), each of Jepsen's clients seeks the
beginning of every key. Then it polls until it has read up to the last written offset. If no client
reaches that offset, there are three possible causes: the partition's disk was lost, its records
expired, or its leader did not respond. In each case the polls are empty. Jepsen's checker judges
such a history as valid.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import NEVER, NONE, any_of, numbers, schema
from highwater.checkers.history.offset_runs import READS, SENDS
from highwater.checkers.history.view import ClientHistory

SHOWN_MAX: Final = 8

_END: Final = schema("slot", "offset")


def short(view: ClientHistory) -> list[tuple[str, int, int]]:
    """Return at most SHOWN_MAX partitions whose greatest known offset no final reader reached.

    A final reader is a client that called ``seek`` to the beginning (a null offset) after that
    offset was known. A partition without a final reader is not returned.
    """
    if not view.tells(flags.SEEK_FLAG):
        return []
    ends = view.offset_runs.by(["slot"], _short, _END).table()
    names = view.names.select(["slot", "topic", "partition"])
    rows = ends.join(names, "slot", join_type="inner").to_pylist()
    unread = sorted((row["topic"], row["partition"], row["offset"]) for row in rows)
    return unread[:SHOWN_MAX]


def _short(offset_runs: pa.Table) -> pa.Table:
    """Return partitions of ``OFFSET_RUN`` rows whose greatest offset no final reader reached.

    All rows of one ``slot`` must be in one table.
    """
    columns = numbers(offset_runs)
    what, at, last_at = columns["what"], columns["at"], columns["last_at"]
    slots, slot = np.unique(columns["slot"], return_inverse=True)
    client = np.unique(columns["client"], return_inverse=True)[1]
    readers, reader = np.unique(slot * len(client) + client, return_inverse=True)
    far = np.isin(what, (READS, SENDS)) & columns["ok"]
    end = np.full(len(slots), NONE)
    np.maximum.at(end, slot[far], columns["last_place"][far])
    there = far & (columns["last_place"] == end[slot])
    since = np.full(len(slots), NEVER)
    np.minimum.at(since, slot[there], last_at[there])
    begun = any_of(what, flags.SEEK_FLAG) & ~any_of(what, flags.EVERYWHERE)
    begun &= columns["place"] == NONE
    late = begun & (at > since[slot])
    first_seek = np.full(len(readers), NONE)
    np.maximum.at(first_seek, reader[late], at[late])
    there &= (what == READS) & (first_seek[reader] != NONE) & (last_at > first_seek[reader])
    missed = np.setdiff1d(slot[late], slot[there])
    return pa.table([slots[missed], end[missed]], _END)
