"""When sends to a partition waited, and when the partition acknowledged any, as ranges of time."""

from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Groups,
    Ints,
    Numbers,
    any_of,
    arrow,
    choose,
    schema,
    sort,
)

SHORT_NS: Final = 100_000_000
"""A pause between two acknowledgements that is not longer is no outage."""

SPAN: Final = schema("slot", "since", "until")
"""A range of time of a slot, in ns."""


def waits(rows: Numbers) -> pa.Table:
    """Return the ranges of time in which a send of ``ROW`` to its partition waited.

    A send that was never answered has no known end, so it counts only with its begin.
    """
    rows = choose(rows, any_of(rows["fact"], flags.SENT) & ~any_of(rows["fact"], flags.ADRIFT))
    since, until = rows["invoke_ns"], rows["complete_ns"]
    return merged(rows["slot"], since, np.where(until == NONE, since, until))


def acknowledged(rows: Numbers) -> pa.Table:
    """Return the ranges of time in which no pause between acknowledgements is an outage."""
    done = any_of(rows["fact"], flags.SENT_OK) & ~any_of(rows["fact"], flags.ADRIFT)
    rows = choose(rows, done & (rows["complete_ns"] != NONE))
    return merged(rows["slot"], rows["complete_ns"], rows["complete_ns"], SHORT_NS)


def merged(slot: Ints, since: Ints, until: Ints, within: int = 0) -> pa.Table:
    """Return ranges of each slot, joined where the next begins at most ``within`` after the last.

    They are in order, as rows of ``SPAN``. A kernel's results over parts may be merged again.
    """
    rows = sort({"slot": slot, "since": since, "until": until}, "slot", "since")
    slot, since, until = rows["slot"], rows["since"], rows["until"]
    if not len(slot):
        return SPAN.empty_table()
    slots = np.split(until, Groups.of(slot).first[1:])
    latest = np.concatenate([np.maximum.accumulate(ends) for ends in slots])
    goes_on = (slot[1:] == slot[:-1]) & (since[1:] - latest[:-1] <= within)
    span = Groups.joined(goes_on, len(slot))
    ends = {"slot": slot[span.first], "since": since[span.first], "until": latest[span.last]}
    return arrow(ends, SPAN)
