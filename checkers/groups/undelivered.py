"""``undelivered``: a group read beyond an acknowledged record, and never received it.

After a group has joined, Kafka guarantees that it receives each record at least once (KIP-932 for
share groups, Kafka's documentation of "at least once" for other groups). A record counts as
undelivered only if all of this is true:

- *The log has the record*: its send succeeded, and the final read returned it, at one offset.
- *The group had joined* before the record was sent: the group had committed an offset of the
  partition, or a member had received a record. This member had not ended when the group read beyond
  this record.
- *The group read beyond the record*: a member received a record at a greater offset of the
  partition, and every such poll began after this record was acknowledged. (Otherwise the log was
  truncated, which is another anomaly.)
- *No member skipped the record by a seek*: until then no member called ``seek`` with a known offset
  after the record, or began after it at the group's committed offset.

If a member received records just before it ended, the broker delivers them to other members again.
The history has these deliveries.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly_kinds import UNDELIVERED, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_committed_is_kept
from highwater.checkers.groups.events import FOREVER, Place, Row, ended_ns
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NEVER,
    NONE,
    Bools,
    Ints,
    Numbers,
    any_of,
    arrow,
    choose,
    grouped,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.findings import COPY, FINDING, findings, mix, steps
from highwater.checkers.history.record_summaries import read_at_the_end
from highwater.checkers.history.rows import ROW
from highwater.checkers.history.view import ClientHistory, client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows
from highwater.harness.runs.history import GROUPS_TABLE, OK, SUBSCRIBE

MEMBER: Final = schema("client", "history", "group", "since", "until", "name", name=pa.string())
"""A member of a group. The member received its first record at the time ``since`` (null: never).
Its last row in the history is at the time ``until``.

``group`` is the group's number among the groups of all histories, ``name`` is the group's name."""

_SPAN: Final = schema("client", "since", "until")

RECORD: Final = 0
GIVEN: Final = 1
MOVED_TO: Final = 2
PLACE: Final = schema("slot", "group", "what", "client", "at", "offset", "invoke_ns", "complete_ns")
"""A row about a partition and a group. Its ``what`` is RECORD for a record that the group did not
receive, GIVEN for a record that it received, or MOVED_TO for an offset from which a member
continues to read."""


def _without_groups(tables: Tables, case: RunFiles) -> str:
    return "" if case.key in client_view(tables).grouped else "no client joined a group"


@checker(
    Kind(
        UNDELIVERED,
        guarantee="A group receives every acknowledged record that is sent while it reads.",
        singular="acknowledged record was never delivered to a group that read its topic",
        plural="acknowledged records were never delivered to a group that read their topic",
        severity=Severity.SERIOUS,
        promise="at least once: a group receives every record (KIP-932, KIP-1327)",
        breaks=if_committed_is_kept,
        absence=True,
    ),
    idle=_without_groups,
)
def undelivered_records(tables: Tables) -> Rows | None:
    """Return the records that groups had to receive, but did not receive."""
    commits = {
        case.key: first_commits(case.rows(GROUPS_TABLE))
        for case in tables.cases
        if GROUPS_TABLE in case.tables
    }
    return undelivered(client_view(tables), commits)


def first_commits(rows: Iterable[Row]) -> dict[Place, int]:
    """Return the time of the first acknowledged commit of each group and partition."""
    first: dict[Place, int] = {}
    for row in rows:
        if row["event"] == "commit" and row["outcome"] == OK:
            place = row["group"], row["partition"]
            first[place] = min(ended_ns(row), first.get(place, FOREVER))
    return first


def undelivered(
    view: ClientHistory, commits: Mapping[str, Mapping[Place, int]] = MappingProxyType({})
) -> Rows | None:
    """Return findings about records that groups never received; None without groups.

    ``commits`` has, for each run, the result of ``first_commits``.
    """
    if not view.tells(flags.GROUPED):
        return None
    members = _members(view)
    names = view.names.filter(pc.is_in(view.names["history"], members["history"]))
    slots = names.select(["slot", "history"])
    rows = view.rows.join(view.engine.table(slots.select(["slot"])), ["slot"], "semi")
    kernel = partial(withheld, members=members, slots=slots)
    records = rows.where(flags.SENT | flags.SEEN).by(["key"], kernel, PLACE).persist()
    if not len(records):
        return None
    touched = view.engine.table(records.distinct(["slot"]))
    clients = view.engine.table(members.select(["client", "group"]))
    of_members = rows.join(touched, ["slot"], "semi").join(clients, ["client"])
    moves = of_members.where(flags.SEEN | flags.SEEK_FLAG).map(places, PLACE)
    kernel = partial(passed, members=members, committed=_committed(commits, view.names))
    return records.union(moves).by(["slot"], kernel, FINDING)


def _committed(
    commits: Mapping[str, Mapping[Place, int]], names: pa.Table
) -> dict[tuple[int, str], int]:
    columns = names.select(["slot", "run", "partition"]).to_pylist() if commits else []
    return {
        (row["slot"], group): at_ns
        for row in columns
        for (group, partition), at_ns in commits.get(row["run"], {}).items()
        if partition == row["partition"]
    }


def _members(view: ClientHistory) -> pa.Table:
    joined = subscriptions(view)
    clients = view.engine.table(joined.group_by("client").aggregate([]))
    rows = view.rows.join(clients, ["client"], "semi")
    spans = rows.by(["client"], spans_of, _SPAN).table()
    return members_of(joined, view.names, spans)


def subscriptions(view: ClientHistory) -> pa.Table:
    """Return the rows of ``checkers.history.rows.WORDS`` that joined a group by its name."""
    rows = view.words.only("kind", SUBSCRIBE).table()
    return rows.filter(pc.not_equal(rows["value"], ""))


def members_of(joined: pa.Table, names: pa.Table, spans: pa.Table) -> pa.Table:
    """Return the members of groups, as ``MEMBER`` rows.

    ``joined`` are the rows of subscriptions, in ``checkers.history.rows.WORDS``.
    """
    rows = joined.group_by("client").aggregate([("run", "min"), ("value", "min")])
    run, name = rows["run_min"].combine_chunks(), rows["value_min"].combine_chunks()
    group = pc.binary_join_element_wise(run, name, "\0").dictionary_encode().indices
    histories = names.group_by("run").aggregate([("history", "min")])
    history = histories["history_min"].take(pc.index_in(run, histories["run"]))
    client = rows["client"].to_numpy()
    columns = {"client": client, "history": history, "group": group, "name": name}
    return arrow(columns | look_up_columns(spans, "client", client), MEMBER)


def spans_of(rows: pa.Table) -> pa.Table:
    """Return the time of each client's first record, and of its last row, as ``_SPAN`` rows.

    All rows of one ``client`` must be in one table.
    """
    columns, client = grouped(numbers(rows, ROW.names), "client")
    given = any_of(columns["fact"], flags.SEEN) & (columns["complete_ns"] != NONE)
    return arrow(
        {
            "client": columns["client"][client.first],
            "since": client.least(columns["complete_ns"], given),
            "until": client.greatest(columns["invoke_ns"]),
        },
        _SPAN,
    )


def withheld(rows: pa.Table, *, members: pa.Table, slots: pa.Table) -> pa.Table:
    """Return the records in the log that a group did not receive, as ``PLACE`` rows.

    All rows of one ``key`` must be in one table.

    Args:
        rows: the rows of ``ROW`` that are about records.
        members: rows of ``MEMBER``.
        slots: the partitions of the runs that have groups, as ``slot, history``.
    """
    columns, record = grouped(numbers(rows, ROW.names), "key", then=("at",))
    fact, offset = columns["fact"], columns["offset"]
    sent = any_of(fact, flags.SENT_OK) & ~any_of(fact, flags.OF_FENCE)
    sent &= columns["complete_ns"] != NONE
    final = read_at_the_end(columns)
    low, high = record.least(offset, final), record.greatest(offset, final)
    there = np.flatnonzero((low != NONE) & (low == high) & record.any(sent))
    history = look_up_columns(slots, "slot", columns["slot"][record.first[there]])["history"]
    nth, group = _pairs(history, members)
    owed = there[nth]
    reader = look_up_columns(members.select(["client", "group"]), "client", columns["client"])
    seen = any_of(fact, flags.SEEN) & (reader["group"] != NONE)
    of_record = record.spread(np.arange(len(record)))
    base = np.int64(len(members) + 1)
    given = of_record[seen] * base + reader["group"][seen]
    withheld_from = ~np.isin(owed * base + group, given)
    owed, group = owed[withheld_from], group[withheld_from]
    place = choose(columns, record.first_place(sent)[owed]) | {
        "group": group,
        "what": np.full(len(owed), RECORD),
        "offset": low[owed],
        "invoke_ns": record.least(columns["invoke_ns"], sent)[owed],
        "complete_ns": record.greatest(columns["complete_ns"], sent)[owed],
    }
    return arrow(place, PLACE)


def _pairs(history: Ints, members: pa.Table) -> tuple[Ints, Ints]:
    groups = numbers(members.group_by(["history", "group"]).aggregate([]))
    order = np.argsort(groups["history"], kind="stable")
    sorted_histories = groups["history"][order]
    begin = np.searchsorted(sorted_histories, history, side="left")
    count = np.searchsorted(sorted_histories, history, side="right") - begin
    nth = np.repeat(np.arange(len(history)), count)
    within = np.arange(len(nth)) - np.repeat(np.cumsum(count) - count, count)
    return nth, groups["group"][order][np.repeat(begin, count) + within]


def places(rows: pa.Table) -> pa.Table:
    """Return the offsets that members received, or to which they moved, as ``PLACE`` rows."""
    columns = numbers(rows)
    given = any_of(columns["fact"], flags.SEEN)
    columns["what"] = np.where(given, GIVEN, MOVED_TO)
    return arrow(choose(columns, columns["offset"] != NONE), PLACE)


def passed(
    rows: pa.Table,
    *,
    members: pa.Table,
    committed: Mapping[tuple[int, str], int] = MappingProxyType({}),
) -> pa.Table:
    """Return findings about records that a group did not receive, although it read beyond them.

    All rows of one ``slot`` must be in one table.

    Args:
        rows: rows of ``PLACE``.
        members: rows of ``MEMBER``.
        committed: the time of the first commit, by ``slot`` and the group's name.
    """
    columns, pair = grouped(numbers(rows, PLACE.names), "slot", "group", then=("offset",))
    names = dict(zip(members["group"].to_pylist(), members["name"].to_pylist(), strict=True))
    everyone = numbers(members, MEMBER.names[:-1])
    tables = [FINDING.empty_table()]
    for first, size in zip(pair.first, pair.size, strict=True):
        here = choose(columns, np.arange(first, first + size))
        group = int(here["group"][0])
        inside = choose(everyone, everyone["group"] == group)
        since_ns = committed.get((int(here["slot"][0]), names[group]), NEVER)
        tables.append(_past(here, inside, names[group], since_ns))
    return pa.concat_tables(tables)


def _past(rows: Numbers, members: Numbers, name: str, committed_ns: int) -> pa.Table:
    """Return the same findings as ``passed``, for one partition and one group.

    Args:
        rows: rows of ``PLACE``, sorted by offset.
        members: the group's members.
        committed_ns: the time of the group's first commit of the partition.
    """
    records = choose(rows, rows["what"] == RECORD)
    given = choose(rows, rows["what"] == GIVEN)
    offset = records["offset"]
    time, place = first_behind(given, offset)
    ended = np.append(given["complete_ns"], NONE)[place]
    sought_ns, _ = first_behind(choose(rows, rows["what"] == MOVED_TO), offset)
    skipped = (place < len(given["offset"])) & (time > records["complete_ns"])
    skipped &= ~np.isin(offset, given["offset"])  # another record was at this offset earlier
    skipped &= sought_ns > np.where(ended == NONE, NEVER - 1, ended)
    skipped &= _owed(records["invoke_ns"], time, members) | (records["invoke_ns"] >= committed_ns)
    records, place = choose(records, skipped), place[skipped]
    finding = mix(mix(records["client"], records["at"]), records["group"])
    of_send = (records["client"], records["at"])
    of_read = (given["client"][place], given["at"][place])
    shared = {"offset": records["offset"]}
    copies = findings(
        UNDELIVERED,
        finding,
        part=COPY,
        client=of_send[0],
        at=of_send[1],
        place=records["offset"],
        note=name,
        **shared,
    )
    return pa.concat_tables([steps(UNDELIVERED, finding, [of_send, of_read], **shared), copies])


def first_behind(rows: Numbers, offset: Ints) -> tuple[Ints, Ints]:
    """Return, for each offset, the ``invoke_ns`` and index of the earliest row at a greater offset.

    Without such a row, the time is NEVER. ``rows`` are sorted by offset.
    """
    time = np.append(rows["invoke_ns"], NEVER)[::-1]
    earliest = np.minimum.accumulate(time)
    new = np.append(True, time[1:] <= earliest[:-1])
    of_earliest = np.maximum.accumulate(np.where(new, np.arange(len(time)), 0))
    behind = len(time) - 1 - np.searchsorted(rows["offset"], offset, side="right")
    return earliest[behind], len(time) - 1 - of_earliest[behind]


def _owed(sent: Ints, past: Ints, members: Numbers) -> Bools:
    """Return a mask of the records that a member had to receive.

    This member had joined when the record was ``sent``, and had not ended when the group read
    beyond it (``past``).
    """
    since = np.where(members["since"] == NONE, NEVER, members["since"])
    before, still = since[:, None] <= sent[None, :], members["until"][:, None] >= past[None, :]
    owed: Bools = np.logical_or.reduce(before & still, axis=0)
    return owed
