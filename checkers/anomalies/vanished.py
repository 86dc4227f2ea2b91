"""Find records that a client read and that then disappeared from the log.

A record vanished if it was acknowledged, and after its last read a row shows that the log lacks it:

- a reader skipped the record's offset, perhaps after a ``seek`` to an offset before the record;
- the last reader of the offset got another record;
- the log ended at or before the record's offset. A client requested the log's end
  (``harness.runs.history.END``), or a later send got the record's offset or a lower one.

Jepsen does not report this anomaly: it treats a record that was read once as safe.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.shared_offsets import crowded, places
from highwater.checkers.core.anomaly_kinds import VANISHED
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NEVER,
    NONE,
    Groups,
    Ints,
    Numbers,
    any_of,
    arrow,
    at_place,
    choose,
    grouped,
    numbers,
    schema,
)
from highwater.checkers.history.findings import FINDING, reference, steps
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

GONE: Final = schema("key", "client", "at")
"""A record (``key``), and a row that shows that the record was no longer in the log."""

_OF_OFFSETS: Final = ("slot", "offset", "key", "fact")
_OF_TIMES: Final = (*_OF_OFFSETS, "client", "at", "invoke_ns", "complete_ns")


def vanished(view: ClientHistory, passed: Rows) -> Rows | None:
    """Return findings about acknowledged records that vanished after a client read them.

    ``passed`` are records at offsets that a reader skipped, as ``GONE`` rows. The result is None if
    no row shows that a record had disappeared.
    """
    gone = [passed] if len(passed) else []
    order = places(view)
    slots = crowded(view, order)
    if len(slots):
        gone.append(_replaced(view, slots))
    shorter = order.filter(pc.less_equal(order["end"], order["far"])).select(["slot"])
    suspects = pa.concat_tables([slots, shorter]).group_by("slot").aggregate([])
    if len(suspects):
        gone.append(_cut_off(view, suspects))
    if not gone:
        return None
    records = gone[0].union(*gone[1:]).persist()
    rows = view.rows.where(flags.SENT_OK | flags.SEEN_OK).join(records, ["key"], "semi")
    rows = rows.select(["key", "client", "at", "offset", "fact"])
    return rows.union(records).by(["key"], vanished_records, FINDING)


def vanished_records(rows: pa.Table) -> pa.Table:
    """Return a finding for each record that vanished. All rows of one ``key`` must be in one table.

    Args:
        rows: rows of ``ROW`` without some columns, and rows of ``GONE``. ``fact`` is null in
            ``GONE``.
    """
    of_gone = rows["fact"].is_null().to_numpy()
    rows = rows.set_column(rows.column_names.index("fact"), "fact", pc.fill_null(rows["fact"], 0))
    columns, record = grouped(numbers(rows) | {"gone": of_gone}, "key", then=("at",))
    sent = record.first_place(any_of(columns["fact"], flags.SENT_OK))
    seen = record.last_place(any_of(columns["fact"], flags.SEEN_OK))
    gone = record.last_place(columns["gone"])
    at = at_place(columns["at"], seen)
    wrong = (sent != NONE) & (seen != NONE) & (at < at_place(columns["at"], gone))
    ends = [reference(columns, place[wrong]) for place in (sent, seen, gone)]
    offset = at_place(columns["offset"], seen[wrong])
    return steps(VANISHED, columns["key"][record.first][wrong], ends, offset=offset)


def replaced(rows: pa.Table) -> pa.Table:
    """Return records at whose offset the last read returned another record, as ``GONE`` rows.

    All rows of an offset must be in one table.

    Args:
        rows: rows of ``ROW``, and rows of ``ClientHistory.placed_late`` with ``at`` null.
    """
    columns = numbers(rows, (*_OF_OFFSETS, "client", "at"))
    columns = choose(columns, columns["offset"] != NONE)
    columns, place = grouped(columns, "slot", "offset", then=("at",))
    fact, late = columns["fact"], columns["at"] == NONE
    reader = place.spread(place.last_place(any_of(fact, flags.SEEN_OK) & ~late))
    other = (any_of(fact, flags.SENT_OK | flags.READ_BY_ANY) | late) & (reader != NONE)
    other &= columns["key"] != at_place(columns["key"], reader)
    client, at = reference(columns, reader[other])
    return arrow({"key": columns["key"][other], "client": client, "at": at}, GONE)


def cut_off(rows: pa.Table) -> pa.Table:
    """Return records whose log became shorter after their last read, as ``GONE`` rows.

    All rows of one ``slot`` must be in one table. Readers read below the high watermark, and a
    leader's log never ends before it (KIP-101). So a record has vanished in two cases. A later send
    got the record's offset or a lower one, and a reader returned the sent record. Or a client later
    got a log end at or before the record, and no client got a higher offset after the read. Without
    these conditions, a former leader may have appended the sent record or reported the end.
    """
    columns = numbers(rows, _OF_TIMES)
    fact, offset, began = columns["fact"], columns["offset"], columns["invoke_ns"]
    seen, sent_ok, ended = (any_of(fact, bits) for bits in (flags.SEEN, flags.SENT_OK, flags.ENDED))
    over = np.where(columns["complete_ns"] == NONE, NEVER, columns["complete_ns"])
    columns |= {"time": np.where(seen, over, began), "seen": seen, "sent_ok": sent_ok}
    far = choose(columns, (seen | ended) & (offset != NONE))
    far["offset"] = far["offset"] + far["seen"]
    ends = choose(columns, ended)
    placed, record = grouped(choose(columns, (seen | sent_ok) & (offset != NONE)), "key")
    read = record.any(placed["seen"])
    sends = choose(placed, record.spread(read) & placed["sent_ok"])
    records = choose(placed, record.first) | {
        "place": record.least(placed["offset"]),
        # The send of a record itself does not show that the record has vanished.
        "time": record.greatest(placed["time"]),
    }
    records = choose(records, read)
    place = records["place"]
    sent = _best_since(sends, records, (sends["at"], sends["offset"]))
    furthest = _best_since(far, records, (-far["offset"],))
    end = _best_since(ends, records, (-ends["at"],))
    back = (sent != NONE) & (at_place(sends["offset"], sent) <= place)
    short = (furthest != NONE) & (at_place(far["offset"], furthest) <= place) & (end != NONE)
    pairs = zip(reference(sends, sent), reference(ends, end), strict=True)
    client, at = (np.where(back, of_send, of_end) for of_send, of_end in pairs)
    gone = back | short
    return arrow(choose({"key": records["key"], "client": client, "at": at}, gone), GONE)


def _best_since(events: Numbers, records: Numbers, by: tuple[Ints, ...]) -> Ints:
    """Return the index of the best event after each record in its partition; NONE without one.

    Args:
        events, records: columns ``slot, time``.
        by: the columns that sort the events, the best event first; the last column is the most
            significant (``lexsort``).
    """
    size = len(events["slot"])
    best = np.lexsort(by)
    rank = np.full(size + len(records["slot"]), size)
    rank[best] = np.arange(size)
    slot, time = (np.concatenate((events[name], records[name])) for name in ("slot", "time"))
    # Times descend. An event at the same time as a record does not count as later.
    order = np.lexsort((np.arange(len(rank)) < size, -time, slot))
    slots = Groups.of(slot[order])
    # After the subtraction, all ranks in a partition are less than all ranks in the partition
    # before it.
    base = slots.spread(np.arange(len(slots))) * (size + 1)
    least_since = np.empty(len(rank), np.int64)
    least_since[order] = np.minimum.accumulate(rank[order] - base) + base
    after = least_since[size:]
    return at_place(np.append(best, NONE), after)


def _replaced(view: ClientHistory, slots: pa.Table) -> Rows:
    crowds = view.engine.table(slots)
    rows = view.rows.where(flags.SENT_OK | flags.READ_BY_ANY | flags.SEEN_OK)
    rows = rows.join(crowds, ["slot"], "semi").select([*_OF_OFFSETS, "client", "at"])
    if view.late:
        late = view.placed_late.join(crowds, ["slot"], "semi")
        rows = rows.union(late.select(_OF_OFFSETS))
    return rows.by(["slot", "offset"], replaced, GONE)


def _cut_off(view: ClientHistory, slots: pa.Table) -> Rows:
    rows = view.rows.where(flags.SEEN | flags.SENT_OK | flags.ENDED)
    rows = rows.join(view.engine.table(slots), ["slot"], "semi")
    return rows.select(_OF_TIMES).by(["slot"], cut_off, GONE)
