"""``torn-transaction``: the final read returns some records of a transaction, and not the others.

A transaction is all or nothing (KIP-98). Of one whose commit was acknowledged every record that is
not there is lost, and of one that was aborted every record that is there is read wrongly; other
checkers say so. This one judges those whose outcome nobody knows: a time-out, a crash within the
commit. A record is not there if the final read passed the offset that its producer was told, or
the whole partition.
"""

from functools import partial
from typing import Final

import pyarrow as pa

from highwater.checkers.core.anomaly_kinds import TORN
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    any_of,
    arrow,
    choose,
    grouped,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.findings import COPY, OF_LAST, findings, reference, steps
from highwater.checkers.history.record_summaries import DOUBTFUL, read_at_the_end
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

SENDING: Final = schema("deed", "slot", "client", "at", "offset", "there", "gone", gone=pa.bool_())
"""A send of a transaction whose outcome nobody knows: the offset its producer was told; where the
final read returned the record (``there``; null: nowhere), and whether it is surely not there."""


def sendings(view: ClientHistory, limits: pa.Table) -> Rows:
    """Return the sends of transactions whose outcome nobody knows, in ``SENDING``.

    Args:
        view: of the runs.
        limits: how far the final read came, as ``record_outcomes.limits`` has it.
    """
    rows = view.doubtful.where(flags.SENT_INFO, "facts")
    return rows.by(["key"], partial(whereabouts, limits=limits), SENDING).persist()


def whereabouts(rows: pa.Table, *, limits: pa.Table) -> pa.Table:
    """Return sends with where their records are, in ``SENDING``. A kernel by ``key``."""
    columns, record = grouped(numbers(rows, DOUBTFUL.names), "key", then=("at",))
    offset = columns["offset"]
    limit = look_up_columns(limits, "slot", columns["slot"])
    columns["there"] = record.spread(record.least(offset, read_at_the_end(columns)))
    reached = (offset != NONE) & (limit["reach"] != NONE) & (offset <= limit["reach"])
    columns["gone"] = (columns["there"] == NONE) & (reached | (limit["complete"] == 1))
    return arrow(choose(columns, any_of(columns["fact"], flags.SENT_INFO)), SENDING)


def torn(rows: pa.Table) -> pa.Table:
    """Return the transactions of which a part is there, in ``FINDING``. A kernel by ``deed``."""
    columns, deed = grouped(numbers(rows, SENDING.names), "deed", then=("at",))
    there, gone = (deed.first_place(mask) for mask in (columns["there"] != NONE, columns["gone"]))
    both = (there != NONE) & (gone != NONE)
    there, gone = there[both], gone[both]
    finding = columns["deed"][there]
    ends = [reference(columns, place) for place in (there, gone)]
    copies = findings(
        TORN,
        finding,
        part=COPY,
        fault=OF_LAST,
        offset=columns["offset"][gone],
        place=columns["there"][there],
        **choose({name: columns[name] for name in ("client", "at")}, there),
    )
    offset = columns["offset"][gone]
    return pa.concat_tables([steps(TORN, finding, ends, fault=OF_LAST, offset=offset), copies])
