"""Find records that were read and then disappeared.

A record vanished when it was acknowledged, a client read it, and the last reader after that did not
find it: it stepped over the record's offset, sought a place before it and got one behind it, or
read another record there. Or no reader followed, and the log is known to have ended at or before
its offset since: a client asked where it ends (``harness.runs.history.END``), or a send that began
later got an offset there. Jepsen calls such a history valid, or lists only its other anomalies: it
takes a record that was read once as safe.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.shared_offsets import crowded, places
from highwater.checkers.history.columns import NONE, Ints, Numbers, any_of, groups, numbers, sizes
from highwater.checkers.history.findings import FINDING
from highwater.checkers.history.kernel_tools import (
    at_place,
    choose,
    first_place,
    last_place,
    reference,
    sort,
    steps,
)
from highwater.checkers.history.row_flags import ENDED, READ_BY_ANY, SEEN, SEEN_OK, SENT_OK
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

VANISHED: Final = "vanished"

GONE: Final = pa.schema([(name, pa.int64()) for name in ("key", "client", "at")])
"""A record, and a row that shows that it was not there any more."""

_OF_TIMES: Final = (
    *("slot", "key", "client", "at"),
    *("offset", "invoke_ns", "complete_ns", "fact"),
)
_NEVER: Final = np.iinfo(np.int64).max


def vanished(view: ClientHistory, passed: Rows) -> Rows | None:
    """Return findings of acknowledged records that were read, and not found by the last reader.

    Args:
        view: the history.
        passed: in ``GONE``, records at offsets that a reader stepped over.

    Returns:
        Rows of ``FINDING``; None: every reader found what was there.
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
    rows = view.rows.where(SENT_OK | SEEN_OK).join(records, ["key"], "semi")
    rows = rows.select(["key", "client", "at", "offset", "fact"])
    return rows.union(records).by(["key"], vanished_records, FINDING)


def vanished_records(rows: pa.Table) -> pa.Table:
    """Return records that vanished, in ``FINDING``. A kernel by ``key``.

    Args:
        rows: some columns of ``ROW``, and rows of ``GONE``, where ``fact`` is null.
    """
    of_gone = rows["fact"].is_null().to_numpy()
    rows = rows.set_column(rows.column_names.index("fact"), "fact", pc.fill_null(rows["fact"], 0))
    columns = sort(numbers(rows) | {"gone": of_gone}, "key")
    fact, first = columns["fact"], groups(columns["key"])
    sent = first_place(first, any_of(fact, SENT_OK))
    seen = last_place(first, any_of(fact, SEEN_OK))
    gone = last_place(first, columns["gone"])
    at = at_place(columns["at"], seen)
    wrong = (sent != NONE) & (seen != NONE) & (at < at_place(columns["at"], gone))
    ends = [reference(columns, place[wrong]) for place in (sent, seen, gone)]
    offset = at_place(columns["offset"], seen[wrong])
    return steps(VANISHED, columns["key"][first][wrong], ends, offset)


def replaced(rows: pa.Table) -> pa.Table:
    """Return records at whose offset another was read last, in ``GONE``. By ``slot, offset``.

    Args:
        rows: of ``ROW``, and rows of ``ClientHistory.placed_late`` once more, whose ``at`` is null.
    """
    columns = numbers(rows, ("slot", "offset", "key", "client", "at", "fact"))
    columns = sort(choose(columns, columns["offset"] != NONE), "slot", "offset")
    if not len(columns["at"]):
        return GONE.empty_table()
    fact, late = columns["fact"], columns["at"] == NONE
    first = groups(columns["slot"], columns["offset"])
    reader = last_place(first, any_of(fact, SEEN_OK) & ~late)
    reader = np.repeat(reader, sizes(first, len(fact)))
    other = (any_of(fact, SENT_OK | READ_BY_ANY) | late) & (reader != NONE)
    other &= columns["key"] != at_place(columns["key"], reader)
    client, at = reference(columns, reader[other])
    return pa.table({"key": columns["key"][other], "client": client, "at": at})


def cut_off(rows: pa.Table) -> pa.Table:
    """Return records where the log was shorter after all of their readers. A kernel by ``slot``.

    Readers read below the high watermark, and a leader's log never ends before that (KIP-101). So a
    record has vanished if a send that began after its last reader had ended got an offset at or
    before it, and was read there: a deposed leader may append records that no reader gets. An
    answer about the log's end came from such a leader if any client was further at any time since.

    Args:
        rows: some columns of ``ROW``.

    Returns:
        Rows of ``GONE``.
    """
    columns = numbers(rows, _OF_TIMES)
    fact, offset, began = columns["fact"], columns["offset"], columns["invoke_ns"]
    seen, ended = any_of(fact, SEEN), any_of(fact, ENDED)
    over = np.where(columns["complete_ns"] == NONE, _NEVER, columns["complete_ns"])
    columns["time"] = np.where(seen, over, began)
    far = choose(columns, (seen | ended) & (offset != NONE))
    far["offset"] = far["offset"] + any_of(far["fact"], SEEN)
    ends = choose(columns, ended)
    placed = sort(choose(columns, any_of(fact, SEEN | SENT_OK) & (offset != NONE)), "key")
    first = groups(placed["key"])
    size = sizes(first, len(placed["key"]))
    read = np.logical_or.reduceat(any_of(placed["fact"], SEEN), first)
    sends = choose(placed, np.repeat(read, size) & any_of(placed["fact"], SENT_OK))
    records = {
        **{name: placed[name][first] for name in ("slot", "key")},
        "place": np.minimum.reduceat(placed["offset"], first),
        # Its own send is no word against a record, either.
        "time": np.maximum.reduceat(placed["time"], first),
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
    return pa.table({"key": records["key"][gone], "client": client[gone], "at": at[gone]})


def _best_since(events: Numbers, records: Numbers, by: tuple[Ints, ...]) -> Ints:
    """Return for each record the place of the best event of its slot after it; NONE without one.

    Args:
        events: with ``slot, time``.
        records: with ``slot, time``.
        by: what makes an event better, least first; the last column comes first, as in lexsort.
    """
    size = len(events["slot"])
    best = np.lexsort(by)
    rank = np.full(size + len(records["slot"]), size)
    rank[best] = np.arange(size)
    slot, time = (np.concatenate((events[name], records[name])) for name in ("slot", "time"))
    # Backwards in time, and an event at the time of a record is not after it.
    order = np.lexsort((np.arange(len(rank)) < size, -time, slot))
    fresh = np.zeros(len(rank), np.int64)
    fresh[groups(slot[order])] = 1
    base = np.cumsum(fresh) * (size + 1)  # the ranks of a slot are less than all of those before
    least_since = np.empty(len(rank), np.int64)
    least_since[order] = np.minimum.accumulate(rank[order] - base) + base
    after = least_since[size:]
    return at_place(np.append(best, NONE), after)


def _replaced(view: ClientHistory, slots: pa.Table) -> Rows:
    crowds = view.engine.table(slots)
    names = ["slot", "offset", "key", "client", "at", "fact"]
    rows = view.rows.where(SENT_OK | READ_BY_ANY | SEEN_OK).join(crowds, ["slot"], "semi")
    rows = rows.select(names)
    if view.late:
        late = view.placed_late.join(crowds, ["slot"], "semi")
        rows = rows.union(late.select(["slot", "offset", "key", "fact"]))
    return rows.by(["slot", "offset"], replaced, GONE)


def _cut_off(view: ClientHistory, slots: pa.Table) -> Rows:
    rows = view.rows.where(SEEN | SENT_OK | ENDED).join(view.engine.table(slots), ["slot"], "semi")
    return rows.select(_OF_TIMES).by(["slot"], cut_off, GONE)
