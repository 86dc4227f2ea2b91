"""The times in which a send waited for its response, and in which responses came, by partition."""

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
"""The longest pause between two acknowledgements that is no outage."""

TOGETHER_NS: Final = 10_000_000
"""Waits with a shorter gap are one wait: a client that sends again after a failure still waits."""

SPAN: Final = schema("slot", "since", "until")
"""A range of time of a partition (``slot``), in ns."""


def waits(rows: Numbers) -> pa.Table:
    """Return the times in which a send to a partition waited for its response, as ``SPAN`` rows.

    ``rows`` are rows of ``ROW``. A send without a response waits only at its begin, because the end
    of its wait is unknown.
    """
    rows = choose(rows, any_of(rows["fact"], flags.SENT) & ~any_of(rows["fact"], flags.ADRIFT))
    since, until = rows["invoke_ns"], rows["complete_ns"]
    return merged(rows["slot"], since, np.where(until == NONE, since, until), TOGETHER_NS)


def acknowledged(rows: Numbers) -> pa.Table:
    """Return the times in which a partition acknowledged sends without a long pause, as ``SPAN``.

    A pause of more than ``SHORT_NS`` between two acknowledgements separates two ranges.
    """
    done = any_of(rows["fact"], flags.SENT_OK) & ~any_of(rows["fact"], flags.ADRIFT)
    rows = choose(rows, done & (rows["complete_ns"] != NONE))
    return merged(rows["slot"], rows["complete_ns"], rows["complete_ns"], SHORT_NS)


def merged(slot: Ints, since: Ints, until: Ints, within: int = 0) -> pa.Table:
    """Join two ranges of time if the second begins at most ``within`` ns after the first ends.

    The result has ``SPAN`` rows in order. It can be merged again with the results for other rows.
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
