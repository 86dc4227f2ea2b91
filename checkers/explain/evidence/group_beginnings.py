"""Explains records that a group never received, because it began to read after them.

A group without a committed offset begins where ``auto.offset.reset`` says (ConsumerConfig,
KIP-1327). This happens in a new partition, which a consumer finds only when it refreshes its
metadata. It also happens after the group's offsets have expired (``offsets.retention.minutes``,
KIP-211). Up to 4.3 a share group begins in a new partition where ``share.auto.offset.reset`` says
(KAFKA-20742). Every share group begins there again if the leader changes before the group has
acknowledged a record of the partition: only then is its start offset stored
(``SharePartition.maybeInitialize``).
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Chain,
    Links,
    Row,
    acknowledged,
    event_link,
    fault_link,
    leader_changes,
    leader_of,
    refuse,
)
from highwater.checkers.explain.evidence.licences import (
    SEEN_TO_HAPPEN,
    Explainer,
    explains,
    hazard_of_clients,
    hazard_of_release,
)
from highwater.checkers.explain.observations import LEADERS
from highwater.checkers.explain.tolerances import SECOND
from highwater.checkers.explain.trace import RunTraces, Trace
from highwater.checkers.groups.commits import offsets_retention_ns
from highwater.checkers.groups.events import FOREVER, by_place, ended_ns
from highwater.checkers.hazards.catalogue import find_hazard
from highwater.checkers.hazards.evaluate import of_release
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.cluster_facts import POSITIONS_RETENTION
from highwater.harness.runs.history import OK, READ, REBALANCE, SEEK, SUBSCRIBE

SHARE_HAZARD: Final = "KAFKA-20742"
SHARE_SKIPS: Final = hazard_of_release(SHARE_HAZARD)
UNSAVED_START: Final = "unsaved-start"
UNSEEN_RECORD: Final = "unseen-record"
_ANSWERS: Final = frozenset(("accept", "release", "reject"))


@explains(
    "auto.offset.reset",
    SEEN_TO_HAPPEN | SHARE_SKIPS,
    "A partition was added. The group had committed no offset for it, and began after the record. "
    "Share groups do this up to 4.3 (KAFKA-20742).",
    needs=LEADERS,
)
def _before_its_beginning(case: AnomalyCase) -> Chain:
    """Return links if the group began to read a new partition after the record; else a refusal."""
    observed, anomaly = case.observed, case.anomaly
    send = observed.suspects.get(anomaly["value"])
    trace = observed.traces.get(anomaly["partition"])
    group = anomaly["copies"][0]["note"]
    rows = _of_members(observed.ops, group)
    given = [row for row in rows if row["kind"] == READ and row["complete_ns"] is not None]
    here = [row for row in given if row["partition"] == anomaly["partition"]]
    if send is None or trace is None or not trace.leaderships or not here:
        return refuse("The history lacks the record's send, or the group's reads of its partition.")
    added_ns, first = trace.leaderships[0].time_ns, min(here, key=lambda row: row["complete_ns"])
    if min(row["complete_ns"] for row in given) > added_ns:
        return refuse("The partition existed before the group had read any record.")
    links = [_added(observed, anomaly, trace, group), acknowledged(observed, trace, send)]
    if first["complete_ns"] < send["complete_ns"]:
        return refuse(
            "The group already read that partition when the record was acknowledged.", *links
        )
    begins = _beginning(rows, anomaly["partition"])
    if begins is not None and begins["offset"] is not None:
        return refuse(f"The group began at a known offset, {begins['offset']}.", *links)
    if begins is None and not _skips(observed, added_ns, first["complete_ns"]):
        why = "From 4.4 on a share group reads an added partition from its beginning."
        return refuse(why, *links)
    begun = _shared(first, added_ns, group) if begins is None else _reset(begins, first, added_ns)
    return Chain(links=(*links, begun))


@explains(
    UNSAVED_START,
    hazard_of_release(UNSAVED_START),
    "The leader changed before the share group had acknowledged a record of the partition.",
    needs=LEADERS,
)
def _before_its_start_was_stored(case: AnomalyCase) -> Links:
    """Return links if the next leader began after the record, and no start offset was stored."""
    observed, anomaly = case.observed, case.anomaly
    send = observed.suspects.get(anomaly["value"])
    trace, group = observed.traces.get(anomaly["partition"]), anomaly["copies"][0]["note"]
    journal = _journal(observed, group, anomaly["partition"])
    given = [row for row in journal if row["event"] == "acquired"]
    before = [row for row in given if row["offset"] < anomaly["offset"]]
    beyond = [row for row in given if row["offset"] > anomaly["offset"]]
    if send is None or trace is None or not before or not beyond:
        return ()
    began_ns, next_ = ended_ns(before[0]), beyond[0]
    stored = any(
        row["event"] in _ANSWERS and row["outcome"] == OK and ended_ns(row) < ended_ns(next_)
        for row in journal
    )
    changes = [
        now
        for partition, _, now in leader_changes(observed, began_ns, ended_ns(next_))
        if partition == anomaly["partition"]
    ]
    if stored or not changes:
        return ()
    says = f"{leader_of(changes[-1])} led. No start offset of {group} was stored, because its"
    return (
        acknowledged(observed, trace, send),
        event_link(
            UNSAVED_START,
            f"{says[:1].upper()}{says[1:]} members had acknowledged no record of the partition.",
            changes[-1],
            changes[-1].leader,
        ),
        ExplanationLink(
            rule=UNSAVED_START,
            says=f"So the group began at the position of share.auto.offset.reset. The next record"
            f" that {next_['process']} received is at offset {next_['offset']}.",
            event=f"{next_['process']}: acquired",
            time_ns=next_["complete_ns"],
        ),
    )


@explains(
    UNSEEN_RECORD,
    hazard_of_release(UNSEEN_RECORD),
    "The responses that delivered the record to the share group were lost.",
)
def _never_received(case: AnomalyCase) -> Links:
    """Return links for the first fault that took a member's responses from the record's send on."""
    observed, anomaly = case.observed, case.anomaly
    send = observed.suspects.get(anomaly["value"])
    trace, group = observed.traces.get(anomaly["partition"]), anomaly["copies"][0]["note"]
    journal = _journal(observed, group, anomaly["partition"])
    beyond = [
        row for row in journal if row["event"] == "acquired" and row["offset"] > anomaly["offset"]
    ]
    if send is None or trace is None or not beyond:
        return ()
    for fault in observed.faults:
        takes = "ShareFetch.answer" in fault.says
        if takes and fault.start_ns <= ended_ns(beyond[0]) and send["invoke_ns"] <= fault.until_ns:
            return (acknowledged(observed, trace, send), fault_link(fault))
    return ()


@explains(
    "early-commit",
    hazard_of_clients("KAFKA-18641"),
    "A member crashed while it processed the record. Its client had already committed the "
    "position after the record (KAFKA-18641).",
)
def _committed_at_work(case: AnomalyCase) -> Links:
    """Return links if another member took the partition over after the record was acknowledged."""
    observed, anomaly = case.observed, case.anomaly
    send = observed.suspects.get(anomaly["value"])
    trace = observed.traces.get(anomaly["partition"])
    if send is None or trace is None:
        return ()
    rows = [
        row
        for row in _of_members(observed.ops, anomaly["copies"][0]["note"])
        if row["partition"] == anomaly["partition"]
    ]
    begins = [row for row in rows if row["kind"] == SEEK and row["offset"] is None]
    before = [row for row in begins if row["complete_ns"] <= send["invoke_ns"]]
    later = [row for row in begins if row["complete_ns"] > send["complete_ns"]]
    if not before or not later or before[-1]["process"] == later[0]["process"]:
        return ()
    heir = later[0]["process"]
    given = [row for row in rows if row["kind"] == READ and row["process"] == heir]
    links = [_taken_over(before[-1], later[0], first) for first in given[:1]]
    return (acknowledged(observed, trace, send), *links) if links else ()


def _of_members(ops: pa.Table, group: str) -> list[Row]:
    """Return all rows of a group's members in the history, in the history's order."""
    joined = pc.and_(pc.equal(ops["kind"], SUBSCRIBE), pc.equal(ops["value"], group))
    members = pc.unique(ops["process"].filter(joined))
    rows: list[Row] = ops.filter(pc.is_in(ops["process"], members)).to_pylist()
    return rows


def _beginning(rows: Sequence[Row], partition: int) -> Row | None:
    assigned = any(row["kind"] == REBALANCE and row["partition"] == partition for row in rows)
    seeks = [row for row in rows if row["kind"] == SEEK and row["partition"] == partition]
    return seeks[0] if assigned and seeks else None


def _skips(observed: RunTraces, *times_ns: int) -> bool:
    """Return whether, at these times, share groups can skip an added partition's first records."""
    ran = {software.kafka for time_ns in times_ns for software in observed.software.at(time_ns)}
    return all(of_release(find_hazard(SHARE_HAZARD), release(kafka)) for kafka in ran)


def _added(observed: RunTraces, anomaly: Row, trace: Trace, group: str) -> ExplanationLink:
    first = trace.leaderships[0]
    return ExplanationLink(
        rule="added-partition",
        says=f"Partition {anomaly['partition']} was added to {observed.topic}, from which {group}"
        f" had read records before; broker {first.leader} led the partition.",
        event="the first observation of the partition",
        broker=first.leader if first.leader >= 0 else None,
        time_ns=first.time_ns,
    )


def _reset(begins: Row, first: Row, added_ns: int) -> ExplanationLink:
    return ExplanationLink(
        rule="auto.offset.reset",
        says=f"{begins['process']} was assigned the partition {_after(begins, added_ns)}. Its group"
        " had no committed offset for the partition, so it began at the position of "
        "auto.offset.reset. The "
        "first"
        f" record that it received is {first['value']}, at offset {first['offset']}.",
        event=f"{begins['process']}: {SEEK}, to an unknown offset",
        time_ns=begins["complete_ns"],
    )


def _taken_over(owner: Row, heir: Row, first: Row) -> ExplanationLink:
    return ExplanationLink(
        rule="early-commit",
        says=f"{owner['process']} had the partition when the record was sent, and crashed."
        f" {heir['process']} continued at the group's offset. The first record that it received"
        f" is {first['value']}, at offset {first['offset']}.",
        event=f"{heir['process']}: {SEEK}, to the group's offset",
        time_ns=heir["complete_ns"],
    )


def _shared(first: Row, added_ns: int, group: str) -> ExplanationLink:
    return ExplanationLink(
        rule="share.auto.offset.reset",
        says=f"The first record of the partition that {group} received is {first['value']}, at"
        f" offset {first['offset']}, {_after(first, added_ns)}. Before that, the group's "
        f"coordinator"
        " had begun at the position of share.auto.offset.reset.",
        event=f"{first['process']}: {READ} {first['value']}",
        time_ns=first["complete_ns"],
    )


def _after(row: Row, added_ns: int) -> str:
    return f"{(row['complete_ns'] - added_ns) / SECOND:.1f} s after it was added"


@explains(
    "offsets.retention",
    SEEN_TO_HAPPEN,
    "The group's offsets had expired.",
)
def _after_its_offset_expired(case: AnomalyCase) -> Links:
    """Return links for the group's last commit, and for an OffsetFetch after the commit expired."""
    observed, anomaly = case.observed, case.anomaly
    send = observed.suspects.get(anomaly["value"])
    trace, group = observed.traces.get(anomaly["partition"]), anomaly["copies"][0]["note"]
    if send is None or trace is None:
        return ()
    retention_ns = offsets_retention_ns(observed.plan)
    rows = _of_members(observed.ops, group)
    journal = _journal(observed, group, anomaly["partition"])
    commits = [row for row in journal if row["event"] == "commit" and row["outcome"] == OK]
    for question in journal:
        before = [row for row in commits if ended_ns(row) < question["invoke_ns"]]
        if question["event"] != "committed" or question["offset"] is not None or not before:
            continue
        last = before[-1]
        here = [row for row in rows if row["process"] == question["process"]]
        begins = _beginning(here, anomaly["partition"])
        is_known = begins is None or begins["offset"] is not None
        if is_known or ended_ns(question) - last["invoke_ns"] < retention_ns:
            continue
        return (
            _committed(last),
            acknowledged(observed, trace, send),
            _expired(question, last, retention_ns),
        )
    return ()


def _committed(commit: Row) -> ExplanationLink:
    return ExplanationLink(
        rule="offsets.retention",
        says=f"{commit['process']} committed offset {commit['offset']} of partition"
        f" {commit['partition']} for {commit['group']}. This is the group's last commit for that "
        f"partition.",
        event=f"{commit['process']}: commit, {OK}",
        time_ns=commit["complete_ns"],
    )


def _expired(question: Row, last: Row, retention_ns: int) -> ExplanationLink:
    away_s = (ended_ns(question) - last["invoke_ns"]) / SECOND
    return ExplanationLink(
        rule="offsets.retention",
        says=f"{away_s:.1f} s later {question['process']} joined, and the coordinator had no"
        f" offset. It keeps the offsets of a group without members for {retention_ns / SECOND:g} s"
        f" ({POSITIONS_RETENTION}). So the group began at the position of auto.offset.reset.",
        event=f"{question['process']}: committed, no offset",
        time_ns=question["complete_ns"],
    )


@explains(
    "recreated-topic",
    SEEN_TO_HAPPEN,
    "The offset belongs to a deleted topic of the same name.",
)
def _of_an_earlier_topic(case: AnomalyCase) -> Links | Chain:
    """Return a link for the OffsetFetch that returned the offset, if no member committed before."""
    observed, anomaly = case.observed, case.anomaly
    trace = observed.traces.get(anomaly["partition"])
    here = [row for row in observed.journal if row["partition"] == anomaly["partition"]]
    answers = [row for row in here if row["event"] == "committed"]
    matching = [row for row in answers if row["offset"] == anomaly["offset"]]
    if trace is None or not trace.leaderships or not matching:
        return refuse("The members' journals do not show which member received the offset.")
    begun_ns = min((row["invoke_ns"] for row in here if row["event"] == "commit"), default=FOREVER)
    if begun_ns < ended_ns(matching[0]):
        return refuse("A member of the group may have committed the offset before.")
    return (_returned(matching[0]),)


def _journal(observed: RunTraces, group: str, partition: int) -> Sequence[Row]:
    """Return the rows of the members' journals about a partition."""
    return by_place(observed.journal).get((group, partition), [])


def _returned(answer: Row) -> ExplanationLink:
    return ExplanationLink(
        rule="recreated-topic",
        says=f"{answer['process']} asked for the group's offset. The coordinator returned"
        f" {answer['offset']}. No member had committed since the topic was created, so the "
        f"offset is"
        " from an earlier topic with this name. A coordinator stores offsets by topic name. If it"
        " is down while a topic is deleted, it keeps the topic's offsets.",
        event=f"{answer['process']}: committed, offset {answer['offset']}",
        time_ns=answer["complete_ns"],
    )


foreign: Final = Explainer((_of_an_earlier_topic,))

undelivered: Final = Explainer(
    (
        _after_its_offset_expired,
        _before_its_beginning,
        _before_its_start_was_stored,
        _never_received,
        _committed_at_work,
    ),
    "The history does not show where the group began.",
)
