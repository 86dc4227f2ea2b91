"""Find what is wrong with single records.

duplicate, G1a, precommitted-read, phantom, lost-write and unseen. A kernel gets all rows of a
record together, and only records in doubt.
"""

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.anomalies.missing_records import missing_records
from highwater.checkers.history.columns import (
    NONE,
    Ints,
    Numbers,
    any_of,
    greatest,
    groups,
    nullable,
    numbers,
    sizes,
)
from highwater.checkers.history.findings import COPY, END, FINDING, OF_FIRST, findings
from highwater.checkers.history.kernel_tools import (
    at_place,
    choose,
    first_of,
    first_place,
    look_up,
    look_up_columns,
    reference,
    sort,
    steps,
)
from highwater.checkers.history.record_summaries import DOUBTFUL, bits
from highwater.checkers.history.row_flags import (
    ADRIFT,
    PROVEN,
    READ_BY_ANY,
    READ_OK,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
)
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

LATE: Final = "late"
UNDECIDABLE: Final = "undecidable"
"""Why an acknowledged record is unseen: no reader is known to have reached its offset, or its
offset is not known."""

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
_UNREAD: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("key", "slot", "client", "at", "last", "bound")),
        ("fate", pa.int32()),
    ]
)
"""An unread record: the row that sent it, its greatest known offset, how far its slot was read, and
whether it is lost or unseen."""

_FURTHEST: Final = pa.schema([(name, pa.int64()) for name in ("slot", "client", "at")])


def contents(view: ClientHistory, kinds: frozenset[str]) -> list[Rows]:
    """Return the findings of these kinds, in ``FINDING``."""
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
    """Return records at several offsets, in ``FINDING``. A kernel by ``key``.

    Args:
        rows: of ``ClientHistory.placed``, whose offset is known (Jepsen's ``duplicate-cases``).
    """
    columns = numbers(rows, ("key", "offset", "client", "at"))
    places = first_of(columns, "key", "offset")
    first = groups(places["key"])
    return end_rows("duplicate", places, first, places["key"][first], fault=OF_FIRST)


def wrong_records(rows: pa.Table, *, kinds: frozenset[str], adrift: pa.ChunkedArray) -> pa.Table:
    """Return what is wrong with each record by itself, in ``FINDING``. A kernel by ``key``.

    G1a: a read_committed reader read a record that was never committed (Adya). One for each record,
    with the first of its readers; Jepsen has one for each reader. A record that was sent again, in
    an operation that did not fail, may be that one.
    precommitted-read: an operation read what it sent: pollers must not see it before it commits.
    phantom: it was read, and no client sent it. Jepsen's checker fails on it.

    Args:
        rows: in ``DOUBTFUL``.
        kinds: those to find.
        adrift: the keys of records that a client may have sent to an unknown partition.
    """
    columns = numbers(rows, DOUBTFUL.names)
    facts = columns["facts"]
    tables = [FINDING.empty_table()]
    if "G1a" in kinds:
        wrong = any_of(facts, SENT_FAIL) & any_of(facts, READ_OK)
        wrong &= ~any_of(facts, SENT_OK | SENT_INFO)
        tables.append(_read("G1a", choose(columns, wrong), SENT_FAIL, READ_OK, "key"))
    if "precommitted-read" in kinds:
        tables.append(_read("precommitted-read", columns, SENT, READ_BY_ANY, "key", "deed"))
    if "phantom" in kinds:
        nobodys = ~any_of(facts, SENT) & (look_up(adrift.to_numpy(), columns["key"]) == NONE)
        seen = first_of(choose(columns, nobodys & any_of(columns["fact"], SEEN)), "key")
        reader = (seen["client"], seen["at"])
        tables.append(steps("phantom", seen["key"], [reader], seen["offset"]))
    return pa.concat_tables(tables)


def unread_records(rows: pa.Table, *, bounds: pa.Table, adrift: pa.Table) -> pa.Table:
    """Return records that took effect and were not read, in ``_UNREAD``. A kernel by ``key``.

    ``checkers.anomalies.missing_records`` says which; Jepsen counts lost ones among its unseen.

    Args:
        rows: in ``DOUBTFUL``.
        bounds: ``slot, bound``, how far each slot was read.
        adrift: ``key, seen``, as ``ClientHistory.adrift`` has it: a record that may stand in any
            partition was read if its value was read in any.
    """
    columns = sort(numbers(rows, DOUBTFUL.names), "key")
    fact, offset, first = columns["fact"], columns["offset"], groups(columns["key"])
    took_effect = any_of(fact, SENT_OK) | (any_of(fact, SENT_INFO) & any_of(fact, PROVEN))
    sent = first_place(first, took_effect)
    last = greatest(first, offset, took_effect | any_of(fact, READ_BY_ANY))
    record = choose(columns, first)
    seen = look_up_columns(adrift.select(["key", "seen"]), "key", record["key"])["seen"] == 1
    bound = look_up_columns(bounds, "slot", record["slot"])["bound"]
    lost, unseen = missing_records(
        took_effect=sent != NONE,
        acknowledged=any_of(record["facts"], SENT_OK),
        returned=any_of(record["facts"], SEEN_OK) | (any_of(record["facts"], ADRIFT) & seen),
        passed=(last != NONE) & (last <= bound),
    )
    client, at = reference(columns, sent)
    fate = np.where(lost, _LOST, np.where(unseen, _UNSEEN, 0))
    reads_columns = {"client": client, "at": at, "last": last, "bound": bound, "fate": fate}
    doubtful = fate != 0
    arrays = [nullable((record | reads_columns)[name][doubtful]) for name in _UNREAD.names]
    return pa.table(arrays, names=_UNREAD.names)


def unread_findings(rows: pa.Table, *, kinds: frozenset[str], furthest: pa.Table) -> pa.Table:
    """Return the findings of unread records, in ``FINDING``.

    Args:
        rows: in ``_UNREAD``.
        kinds: lost-write, unseen.
        furthest: in ``_FURTHEST``, the first row that read each slot up to its bound.
    """
    columns = numbers(rows)
    tables = [FINDING.empty_table()]
    if "lost-write" in kinds:
        lost = choose(columns, any_of(columns["fate"], _LOST))
        reader = look_up_columns(furthest, "slot", lost["slot"])
        ends = [(step["client"], step["at"]) for step in (lost, reader)]
        tables.append(steps("lost-write", lost["key"], ends, lost["last"]))
    if "unseen" in kinds:
        unseen = choose(columns, any_of(columns["fate"], _UNSEEN))
        key, last = unseen["key"], unseen["last"]
        sent, offset = (unseen["client"], unseen["at"]), nullable(last)
        note = pa.array(np.where(last == NONE, UNDECIDABLE, LATE), pa.string())
        copy = {"client": sent[0], "at": sent[1], "offset": offset, "place": offset, "note": note}
        tables.append(steps("unseen", key, [sent], last))
        tables.append(findings("unseen", key, part=COPY, **copy))
    return pa.concat_tables(tables)


def end_rows(kind: str, rows: Numbers, first: Ints, finding: Ints, *, fault: int) -> pa.Table:
    """Return a finding for each group of several rows; each row is an END at its own offset.

    Args:
        kind: the anomaly's name.
        rows: in the order of their groups and then of their offsets.
        first: where each group begins.
        finding: a number for each group.
        fault: of ``checkers.history.findings``; the offset at fault is the group's least.
    """
    size = sizes(first, len(rows["at"]))
    several = np.repeat(size > 1, size)
    offset = np.repeat(rows["offset"][first], size)[several]
    rows = choose(rows, several)
    columns = {"client": rows["client"], "at": rows["at"], "place": rows["offset"]}
    number = np.repeat(finding, size)[several]
    return findings(kind, number, part=END, fault=fault, offset=offset, **columns)


def mix(first: Ints, other: Ints) -> Ints:
    """Return a number for each pair of numbers, as unlikely to be shared as a hash."""
    return first ^ (other * np.int64(-7046029254386353131))  # 2**64 divided by the golden ratio


def _read(kind: str, rows: Numbers, sent: int, read: int, *by: str) -> pa.Table:
    """Return a finding for each group in which a row sent a record and another read it."""
    rows = sort(rows, *by)
    first = groups(*(rows[name] for name in by))
    writer, reader = (first_place(first, any_of(rows["fact"], bits)) for bits in (sent, read))
    both = (writer != NONE) & (reader != NONE)
    ends = [reference(rows, place[both]) for place in (writer, reader)]
    group = choose(rows, first[both])
    finding = group["key"] if by == ("key",) else mix(group["key"], group["deed"])
    return steps(kind, finding, ends, at_place(rows["offset"], reader[both]))


def _duplicates(view: ClientHistory) -> Rows:
    twice = view.doubtful.where(bits("twice"), "doubts")
    rows = twice.not_null("offset").where(SENT_OK | READ_BY_ANY)
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
    """Return the first row that read at each of some places, one a slot, in ``_FURTHEST``."""
    if not len(places):
        return _FURTHEST.empty_table()
    readers = view.rows.where(SEEN_OK).join(view.engine.table(places), ["slot", "offset"])
    return readers.persist().by(["slot"], first_readers, _FURTHEST).table()


def first_readers(rows: pa.Table) -> pa.Table:
    """Return the first row of each slot, in ``_FURTHEST``. A kernel by ``slot``."""
    return pa.table(first_of(numbers(rows, _FURTHEST.names), "slot"))
