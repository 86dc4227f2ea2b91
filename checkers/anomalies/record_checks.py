"""Find anomalies of single records.

The kinds are duplicate, G1a, precommitted-read, phantom, lost-write and unseen. The functions read
only the rows of records that may show an anomaly.
"""

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.missing_records import missing_records
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Groups,
    Numbers,
    any_of,
    arrow,
    at_place,
    choose,
    first_of,
    grouped,
    look_up,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.findings import (
    COPY,
    FINDING,
    OF_FIRST,
    end_rows,
    findings,
    mix,
    reference,
    steps,
)
from highwater.checkers.history.record_summaries import DOUBTFUL, bits
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

LATE: Final = "late"
UNDECIDABLE: Final = "undecidable"
"""The reasons why an acknowledged record is unseen. LATE: no reader is known to have reached the
record's offset. UNDECIDABLE: the record's offset is unknown."""

_DOUBTS: Final = {
    "duplicate": "twice",
    "G1a": "aborted",
    "precommitted-read": "own",
    "phantom": "phantom",
    "lost-write": "unread",
    "unseen": "unread",
}
CONTENTS: Final = frozenset(_DOUBTS)

_LOST: Final = 1
_UNSEEN: Final = 2
_UNREAD: Final = schema("key", "slot", "client", "at", "last", "bound", "fate", fate=pa.int32())
"""A record that no reader returned. ``client`` and ``at`` identify the row that sent the record.
``last`` is the record's greatest known offset. ``bound`` is the offset up to which the partition
was read. ``fate`` is lost or unseen."""

_FURTHEST: Final = schema("slot", "client", "at")


def contents(view: ClientHistory, kinds: frozenset[str]) -> list[Rows]:
    """Return the findings of these kinds, as rows of ``FINDING``."""
    suspected = {kind for kind, doubt in _DOUBTS.items() if kind in kinds and view.suspects[doubt]}
    tables = []
    if "duplicate" in suspected:
        tables.append(_duplicates(view))
    if wrong := frozenset(suspected & {"G1a", "precommitted-read", "phantom"}):
        rows = view.doubtful.where(bits(*(_DOUBTS[kind] for kind in wrong)), "doubts")
        kernel = partial(wrong_records, kinds=wrong, adrift=view.adrift["key"])
        tables.append(rows.by(["key"], kernel, FINDING))
    if unread := frozenset(suspected & {"lost-write", "unseen"}):
        tables.append(_unread(view, unread))
    return tables


def several_places(rows: pa.Table) -> pa.Table:
    """Return a finding for each record that is at several offsets (Jepsen's ``duplicate-cases``).

    The rows are rows of ``ClientHistory.placed``. All rows of one ``key`` must be in one table.
    """
    places = first_of(numbers(rows, ("key", "offset", "client", "at")), "key", "offset")
    record = Groups.of(places["key"])
    return end_rows("duplicate", places, record, places["key"][record.first], fault=OF_FIRST)


def wrong_records(rows: pa.Table, *, kinds: frozenset[str], adrift: pa.ChunkedArray) -> pa.Table:
    """Return findings of the kinds G1a, precommitted-read and phantom.

    All rows of one ``key`` must be in one table.

    G1a: a read_committed reader read a record that was never committed (Adya). The finding names
    the first such reader. (Jepsen reports each reader.) If another operation also sent the record
    and did not fail, there is no finding: the reader may have read that copy.

    precommitted-read: an operation read a record that it sent, before it committed the record.

    phantom: a record was read, and no client sent it. Jepsen's checker fails on such a record.

    Args:
        rows: rows of ``DOUBTFUL``.
        kinds: the kinds to find.
        adrift: the keys in ``ClientHistory.adrift``. These records are not phantoms, because their
            value was sent to an unknown partition.
    """
    columns = numbers(rows, DOUBTFUL.names)
    facts = columns["facts"]
    tables = [FINDING.empty_table()]
    if "G1a" in kinds:
        wrong = any_of(facts, flags.SENT_FAIL) & any_of(facts, flags.READ_OK)
        wrong &= ~any_of(facts, flags.SENT_OK | flags.SENT_INFO)
        tables.append(_read("G1a", choose(columns, wrong), flags.SENT_FAIL, flags.READ_OK, "key"))
    if "precommitted-read" in kinds:
        by = ("key", "operation")
        tables.append(_read("precommitted-read", columns, flags.SENT, flags.READ_BY_ANY, *by))
    if "phantom" in kinds:
        nobodys = ~any_of(facts, flags.SENT)
        nobodys &= look_up(adrift.to_numpy(), columns["key"]) == NONE
        seen = first_of(choose(columns, nobodys & any_of(columns["fact"], flags.SEEN)), "key")
        reader = (seen["client"], seen["at"])
        tables.append(steps("phantom", seen["key"], [reader], offset=seen["offset"]))
    return pa.concat_tables(tables)


def unread_records(rows: pa.Table, *, bounds: pa.Table, adrift: pa.Table) -> pa.Table:
    """Return the lost and the unseen records, as ``_UNREAD`` rows.

    All rows of one ``key`` must be in one table. ``checkers.anomalies.missing_records`` defines
    lost and unseen. Jepsen counts lost records as unseen, too.

    Args:
        rows: rows of ``DOUBTFUL``.
        bounds: ``slot, bound``: the offset up to which a partition was read.
        adrift: ``key, seen`` of ``ClientHistory.adrift``: records that may be in any partition. If
            ``seen``, a reader returned the record's value from some partition.
    """
    columns, group = grouped(numbers(rows, DOUBTFUL.names), "key", then=("at",))
    fact = columns["fact"]
    took_effect = any_of(fact, flags.SENT_OK)
    took_effect |= any_of(fact, flags.SENT_INFO) & any_of(fact, flags.PROVEN)
    sent = group.first_place(took_effect)
    last = group.greatest(columns["offset"], took_effect | any_of(fact, flags.READ_BY_ANY))
    record = choose(columns, group.first)
    facts = record["facts"]
    seen = look_up_columns(adrift.select(["key", "seen"]), "key", record["key"])["seen"] == 1
    bound = look_up_columns(bounds, "slot", record["slot"])["bound"]
    lost, unseen = missing_records(
        took_effect=sent != NONE,
        acknowledged=any_of(facts, flags.SENT_OK),
        returned=any_of(facts, flags.SEEN_OK) | (any_of(facts, flags.ADRIFT) & seen),
        passed=(last != NONE) & (last <= bound),
    )
    client, at = reference(columns, sent)
    record |= {"client": client, "at": at, "last": last, "bound": bound}
    record["fate"] = np.where(lost, _LOST, np.where(unseen, _UNSEEN, 0))
    return arrow(choose(record, lost | unseen), _UNREAD)


def unread_findings(rows: pa.Table, *, kinds: frozenset[str], furthest: pa.Table) -> pa.Table:
    """Return the findings about unread records.

    Args:
        rows: rows of ``_UNREAD``.
        kinds: lost-write, unseen, or both.
        furthest: for each partition, the row of the first read at the offset ``bound``, in
            ``_FURTHEST``.
    """
    columns = numbers(rows)
    tables = [FINDING.empty_table()]
    if "lost-write" in kinds:
        lost = choose(columns, any_of(columns["fate"], _LOST))
        reader = look_up_columns(furthest, "slot", lost["slot"])
        ends = [(step["client"], step["at"]) for step in (lost, reader)]
        tables.append(steps("lost-write", lost["key"], ends, offset=lost["last"]))
    if "unseen" in kinds:
        unseen = choose(columns, any_of(columns["fate"], _UNSEEN))
        key, last, sent = unseen["key"], unseen["last"], (unseen["client"], unseen["at"])
        note = pa.array(np.where(last == NONE, UNDECIDABLE, LATE), pa.string())
        copy = {"client": sent[0], "at": sent[1], "offset": last, "place": last, "note": note}
        tables.append(steps("unseen", key, [sent], offset=last))
        tables.append(findings("unseen", key, part=COPY, **copy))
    return pa.concat_tables(tables)


def _read(kind: str, rows: Numbers, sent: int, read: int, *by: str) -> pa.Table:
    """Return a finding for each group of rows that has both a send and a read: its two steps."""
    rows, group = grouped(rows, *by, then=("at",))
    places = [group.first_place(any_of(rows["fact"], bits)) for bits in (sent, read)]
    both = (places[0] != NONE) & (places[1] != NONE)
    writer, reader = (place[both] for place in places)
    key, operation = (rows[name][group.first[both]] for name in ("key", "operation"))
    finding = key if by == ("key",) else mix(key, operation)
    ends = [reference(rows, place) for place in (writer, reader)]
    return steps(kind, finding, ends, offset=at_place(rows["offset"], reader))


def _duplicates(view: ClientHistory) -> Rows:
    twice = view.doubtful.where(bits("twice"), "doubts")
    rows = twice.not_null("offset").where(flags.SENT_OK | flags.READ_BY_ANY)
    if view.late:
        rows = rows.union(view.placed_late.join(twice.select(["key"]), ["key"], "semi"))
    return rows.by(["key"], several_places, FINDING)


def _unread(view: ClientHistory, kinds: frozenset[str]) -> Rows:
    doubtful = view.doubtful.where(bits("unread"), "doubts")
    bounds = view.sums.filter(pc.greater(view.sums["unread"], 0)).select(["slot", "bound"])
    kernel = partial(unread_records, bounds=bounds, adrift=view.adrift)
    unread = doubtful.by(["key"], kernel, _UNREAD).persist()
    furthest = _FURTHEST.empty_table()
    if "lost-write" in kinds:
        lost = unread.where(_LOST, "fate").distinct(["slot", "bound"])
        furthest = _furthest(view, lost.rename_columns(["slot", "offset"]))
    return unread.map(partial(unread_findings, kinds=kinds, furthest=furthest), FINDING)


def _furthest(view: ClientHistory, places: pa.Table) -> pa.Table:
    """Return the first row that read each offset in ``places``, as ``_FURTHEST`` rows."""
    if not len(places):
        return _FURTHEST.empty_table()
    readers = view.rows.where(flags.SEEN_OK).join(view.engine.table(places), ["slot", "offset"])
    return readers.persist().by(["slot"], first_readers, _FURTHEST).table()


def first_readers(rows: pa.Table) -> pa.Table:
    """Return each ``slot``'s row with the least ``at``. All rows of a slot are in one table."""
    return pa.table(first_of(numbers(rows, _FURTHEST.names), "slot"))
