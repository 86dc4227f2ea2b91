"""Make a verdict from the checkers' findings: decision, headline, and explained anomalies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.anomaly_files import AnomalyCounts
from highwater.checkers.catalogue import all_kinds, kind
from highwater.checkers.core.anomaly_kinds import (
    COORDINATOR_DIVERGENCE,
    CORRUPT,
    DIVERGENCE,
    DOUBLED_INPUT,
    DOUBLED_OUTPUT,
    DUPLICATE,
    HALF_INPUT,
    HANGING,
    LOST,
    LOST_DECISION,
    LOST_INPUT,
    LOST_OUTPUT,
    METADATA_DIVERGENCE,
    OVERTAKEN_INPUT,
    PROCESSED_TWICE,
    REMOTE_DIVERGENCE,
    STALE_REPLICA,
    TORN,
    UNDELIVERED,
    UNPROCESSED,
    UNREACHED_INPUT,
    VANISHED,
)
from highwater.checkers.lineage import client_steps
from highwater.checkers.lineage.evidence import RecordEvidence, Row
from highwater.checkers.lineage.sentences import sentence
from highwater.checkers.lineage.story import witnesses
from highwater.checkers.lineage.subject import Subject
from highwater.checkers.policy import Promise, decide, elections, promised
from highwater.checkers.run_files import RunFiles
from highwater.harness.base.errors import StoreError
from highwater.harness.base.wording import count, joined
from highwater.harness.runs.availability import Availability
from highwater.harness.runs.faults.counts import FaultCounts, Happening, requested
from highwater.harness.runs.history import DECISIONS_TABLE, OPERATIONS_TABLE
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import COORDINATORS_FOLDER, REMOTE_TIER, Run
from highwater.harness.runs.verdict import (
    ACKNOWLEDGED,
    Account,
    Anomaly,
    Ledger,
    UnusedFile,
    Verdict,
    Witness,
)

DETAILED_MAX: Final = 50
"""The greatest number of anomalies of a run that a verdict explains with evidence. Other anomalies
are only stated."""

NOTHING: Final = Ledger(sent=0, acknowledged=0, failed=0, unknown=0, read=0, lost=0, unseen=0)

_SOURCES: Final = {
    **dict.fromkeys((DIVERGENCE, CORRUPT, STALE_REPLICA), "replicas"),
    METADATA_DIVERGENCE: "coordination",
    COORDINATOR_DIVERGENCE: COORDINATORS_FOLDER,
    REMOTE_DIVERGENCE: REMOTE_TIER,
    LOST_DECISION: DECISIONS_TABLE,
}
_UNSTRUCK: Final = "No fault was injected (planned: {}), so no guarantee was tested."


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings about one run.

    Attributes:
        ledger: the run's record counts; None if they could not be computed.
        fault_counts: the numbers of injected faults; None if their table is missing.
        crashed: the error of each crashed checker, by the checker's name.
        idle: the reason why a checker has nothing to judge, by the checker's name.
        availability: None if it could not be measured.
        evidence: None if there was nothing to explain, or the evidence could not be read.
        untold: the reason why the evidence could not be read; empty if it was read.
        half_read: replicas that could not be read to their ends.
    """

    case: RunFiles
    anomaly_counts: AnomalyCounts
    ledger: Ledger | None
    fault_counts: FaultCounts | None
    crashed: dict[str, str] = field(default_factory=dict)
    idle: dict[str, str] = field(default_factory=dict)
    availability: Availability | None = None
    evidence: RecordEvidence | None = None
    untold: str = ""
    half_read: Sequence[str] = ()

    @property
    def exceeded(self) -> list[str]:
        """One sentence for each limit that an outage exceeded."""
        measured = self.availability or Availability()
        return [*measured.exceeded(self.case.plan.availability_limits)]

    @property
    def unread(self) -> tuple[UnusedFile, ...]:
        """The missing or damaged files, and the replicas that could not be read to the end."""
        late = (UnusedFile(path=path, why="cannot be read to its end") for path in self.half_read)
        return (*self.case.unread, *late)

    @property
    def account(self) -> Account:
        """The part of the history that the record counts include: whole, begun or none."""
        if self.ledger is None or self.case.lacks(OPERATIONS_TABLE):
            return "none"
        if self.case.plan.read_only:
            return "received"
        return "begun" if self.case.cut else "whole"


OF_READERS: Final = frozenset(
    (
        *(VANISHED, "inconsistent-offsets", "poll-skip", "int-poll-skip"),
        *("nonmonotonic-poll", "int-nonmonotonic-poll", "shared-epoch"),
    )
)
"""The kinds of anomaly that can be judged in a run that only reads."""

_OF_PRODUCERS: Final = {
    DUPLICATE: "in the log twice",
    "nonmonotonic-send": "before records that were sent earlier",
}


def verdict(findings: Findings) -> Verdict:
    """Return the judge's verdict on one run."""
    case, counts, fault_counts = (
        findings.case,
        findings.anomaly_counts.counts,
        findings.fault_counts,
    )
    # If the table of faults cannot be read, a fault may have been injected.
    promise = promised(case.plan, faults=1 if fault_counts is None else fault_counts.count)
    unstruck = [_UNSTRUCK.format(requested(case.plan))] if _unstruck(findings) else []
    measured = findings.availability or Availability()
    word, reasons = decide(
        promise,
        counts,
        unjudged=_unjudged(findings),
        untested=[*unstruck, *measured.untested(case.plan.availability_limits)],
        exceeded=findings.exceeded,
    )
    if following := sum(findings.anomaly_counts.following.values()):
        anomalies_follow = "anomaly follows" if following == 1 else "anomalies follow"
        reasons = (*reasons, f"{following} more {anomalies_follow} from these.")
    if missing := _never_injected(findings):
        reasons = (
            *reasons,
            f"The program was not tested against {joined(missing)}: no such fault was injected.",
        )
    if case.plan.read_only:
        reasons = (*reasons, *_unread_data(findings))
    elif case.copyless:
        reasons = (*reasons, "No disk was compared: the inventory has no command to copy one.")
    ledger = findings.ledger or NOTHING
    return Verdict(
        run=case.run.name,
        kafka=case.plan.played_on,
        acks="-" if case.plan.read_only else case.plan.workload.acks,
        verdict=word,
        reasons=reasons,
        promise=promise.says,
        headline=_headline(findings, counts, promise),
        happened=Happening.of(case.plan, fault_counts).says,
        ledger=ledger,
        counts={name: counts.get(name, 0) for name in all_kinds()},
        following=findings.anomaly_counts.following,
        anomalies=_anomalies(findings, promise),
        checkers=_outcomes(findings),
        cut=case.cut,
        unread=findings.unread,
        account=findings.account,
        availability=findings.availability,
    )


def unreadable(run: Run, error: StoreError) -> Verdict:
    """Return the verdict on a run whose plan or status cannot be read. Nothing is judged."""
    return Verdict(
        run=run.name,
        kafka="unknown",
        acks="unknown",
        verdict="unknown",
        reasons=(f"{error.message.rstrip('.')}.",),
        unread=(UnusedFile(path="plan.json and status.json", why="were not read"),),
        account="none",
        promise="The run's guarantee is not known.",
        headline="This run could not be judged",
        ledger=NOTHING,
        counts=dict.fromkeys(all_kinds(), 0),
        anomalies=(),
        checkers=dict.fromkeys(all_kinds(), "not run"),
    )


def detailed(rows: Sequence[Row]) -> list[Row]:
    """Return the anomalies to explain: the first anomaly of each kind, then the second, and so on.

    Anomalies with steps are not returned, because the steps are their evidence.
    """
    rank: dict[str, int] = {}
    ranked: list[tuple[int, int, Row]] = []
    for row in rows:
        rank[row["kind"]] = rank.get(row["kind"], 0) + 1
        if not row["steps"]:
            ranked.append((rank[row["kind"]], len(ranked), row))
    ranked.sort(key=lambda ranked_row: ranked_row[:2])
    return [row for _, _, row in ranked[:DETAILED_MAX]]


def fault_counts_of(case: RunFiles) -> FaultCounts | None:
    """Return the counts of faults in a run's cluster; None if they cannot be read."""
    if "events/faults" not in case.tables:
        return None
    try:
        rows = pq.read_table(case.tables["events/faults"]).to_pylist()
    except (OSError, pa.ArrowException):
        return None
    return FaultCounts.of(rows)


def _unstruck(findings: Findings) -> bool:
    """Return True if a complete run injected none of its planned faults."""
    case, fault_counts = findings.case, findings.fault_counts
    whole = case.status.phase == "frozen"
    return whole and not case.plan.calm and fault_counts is not None and fault_counts.nothing


def _never_injected(findings: Findings) -> list[str]:
    case, fault_counts = findings.case, findings.fault_counts
    if case.plan.program is None or case.plan.steps or fault_counts is None or fault_counts.nothing:
        return []
    return fault_counts.missing(case.plan)


def _unjudged(findings: Findings) -> list[str]:
    case, ledger = findings.case, findings.ledger
    reasons = [*case.reasons, *(_sentence(problem) for problem in case.status.problems)]
    reasons += _standing(findings)
    reasons += [f"{path} cannot be read to its end." for path in findings.half_read]
    reasons += [f"The checker {name} crashed: {why}" for name, why in findings.crashed.items()]
    if ledger is None:
        return [*reasons, "The records could not be counted, so the run has no ledger."]
    if findings.account == "none":
        return reasons
    reasons += [f"The ledger's counts contradict each other: {error}." for error in ledger.errors()]
    if case.plan.read_only:
        return [*reasons, *_unjudged_reads(ledger)]
    to_program = case.plan.without_input and LOST_OUTPUT not in findings.idle
    if not (ledger.acknowledged or to_program):
        reasons.append("No record was acknowledged, so no guarantee was tested.")
    return reasons


def _unjudged_reads(ledger: Ledger) -> list[str]:
    """Return the reason why the records that readers received could not be judged, if any."""
    if not ledger.received:
        return ["No read_committed reader received a record during the run, so nothing was tested."]
    if ledger.received == ledger.replaced:
        return ["Every record that a reader received has expired, so nothing was tested."]
    missed = count(ledger.unseen, "record was", "records were")
    return [f"{missed} not reached by the final read."] if ledger.unseen else []


def _unread_data(findings: Findings) -> list[str]:
    """Return sentences about the data of the user's topic that a run did not judge."""
    expired = findings.ledger.replaced if findings.ledger else 0
    gone = (
        f"{count(expired, 'record is', 'records are')} not judged: retention or a deletion moved"
        " the log's first offset past them."
    )
    copies = "No replica's log was copied or compared: a run that only reads copies no data."
    return [*([gone] if expired else []), copies]


def _standing(findings: Findings) -> list[str]:
    """Return sentences about partitions whose final read ended at the last stable offset (LSO).

    A partition is ignored if a hanging transaction begins at that offset.
    """
    topic = findings.case.plan.topic.name
    hangs = {
        (row["topic"], row["partition"], row["offset"])
        for row in findings.anomaly_counts.listed
        if row["kind"] == HANGING
    }
    return [
        f"The last stable offset of {topic}-{end.partition} was blocked at {end.lso} for"
        f" {end.seconds:.1f} s, before the fence at {end.fence}: a transaction is open there, and"
        " the disks do not show that its coordinator has ended it."
        for end in findings.case.status.standing
        if (topic, end.partition, end.lso) not in hangs
    ]


def _outcomes(findings: Findings) -> dict[str, str]:
    """Return each checker's result, and a crash of the code that explains anomalies.

    A run that only reads has results of the checkers that its readers' history concerns.
    """
    names = [n for n in all_kinds() if n in OF_READERS or not findings.case.plan.read_only]
    outcomes = {name: _outcome(name, findings) for name in names}
    if why := findings.crashed.get("availability"):
        outcomes["availability"] = f"crashed: {why}"
    return outcomes | ({"lineage": f"crashed: {findings.untold}"} if findings.untold else {})


def _outcome(name: str, findings: Findings) -> str:
    if name in findings.crashed:
        return f"crashed: {findings.crashed[name]}"
    if number := findings.anomaly_counts.counts.get(name, 0):
        return f"found {number}"
    if findings.case.cut or findings.unread:
        return "not judged"
    why = findings.idle.get(name)
    return f"not judged: {why}" if why else "held"


def _headline(findings: Findings, counts: dict[str, int], promise: Promise) -> str:
    """Return the headline: one sentence that claims no more than the run recorded."""
    plan = findings.case.plan
    acks = "" if plan.read_only else f"acks={plan.workload.acks}, "
    settings = f"({acks}{elections(plan)})"
    if findings.account == "none":
        return f"The records of Kafka {plan.software} cannot be judged {settings}"
    assert findings.ledger is not None
    if findings.case.cut:
        cut = f"ended early while {findings.case.cut}, and was not judged completely"
        return f"Kafka {plan.software}: {cut} {settings}"
    did = _kept_sentence(findings.ledger, plan)
    if findings.ledger.lost and (VANISHED if plan.read_only else LOST) not in promise.breaking:
        did += f", {_no_promise(plan)}"
    did += _other_findings(counts) + _out_of_place(counts, promise)
    if findings.exceeded:
        did += ", with longer outages than its limits allow"
    if plan.program is not None:
        processed = "The outcomes of the inputs are not known"
        if LOST_INPUT not in findings.idle:
            processed = _processed(findings, counts)
        elif LOST_OUTPUT not in findings.idle:
            return f"{_wrote(counts)}, with Kafka {plan.software} ({elections(plan)})"
        return f"{processed}; Kafka {plan.software} {did} {settings}"
    if _unstruck(findings):
        did += ", and no fault was injected"
    elif plan.calm:
        did += " in a run without faults"
    return f"Kafka {plan.software} {did} {settings}"


def _processed(findings: Findings, counts: dict[str, int]) -> str:
    program = findings.case.plan.program
    read = findings.ledger.read if findings.ledger else 0
    total = f"{read:,} {'input' if read == 1 else 'inputs'}"
    needy = " that need an output" if program is not None and program.when else ""
    words = {
        LOST_INPUT: "lost",
        HALF_INPUT: "processed half",
        DOUBLED_INPUT: "doubled",
        UNREACHED_INPUT: "not reached",
        OVERTAKEN_INPUT: "out of order",
    }
    outcomes = _counted(words, counts)
    return f"Of {total} {outcomes}" if outcomes else f"Of {total} all{needy} were processed once"


def _wrote(counts: dict[str, int]) -> str:
    outcomes = _counted({LOST_OUTPUT: "lost", DOUBLED_OUTPUT: "doubled"}, counts)
    return f"Of the records acknowledged to the program {outcomes or 'none is lost or doubled'}"


def _counted(words: Mapping[str, str], counts: Mapping[str, int]) -> str:
    """Return the counts of some kinds of anomaly in words: ``3 are lost and 1 is doubled``."""
    parts = [
        f"{number:,} {'is' if number == 1 else 'are'} {word}"
        for name, word in words.items()
        if (number := counts.get(name))
    ]
    return joined(parts)


def _no_promise(plan: Plan) -> str:
    match plan.workload.acks, plan.topic.unclean_leader_election:
        case "0" | "1" as acks, _:
            return f"which acks={acks} does not promise to keep"
        case _, True:
            return "which unclean elections do not promise to keep"
        case _:
            return "which no guarantee covers"


def _other_findings(counts: dict[str, int]) -> str:
    did = ""
    if forks := counts.get(DIVERGENCE, 0):
        did += f" and holds different records at {forks:,} offset{'s' * (forks > 1)}"
    if aborted := counts.get("G1a", 0):
        records = "record" if aborted == 1 else "records"
        did += f" and let readers see {aborted:,} {records} of aborted transactions"
    if hanging := counts.get(HANGING, 0):
        transactions = "a transaction" if hanging == 1 else f"{hanging:,} transactions"
        did += f" and has {transactions} that no client will end"
    if forgotten := counts.get(LOST_DECISION, 0):
        decisions = f"{forgotten:,} decisions of controllers"
        did += f" and lost {'a decision of a controller' if forgotten == 1 else decisions}"
    if withheld := counts.get(UNDELIVERED, 0):
        records = "record" if withheld == 1 else "records"
        did += f" and never delivered {withheld:,} {records} to a consumer group"
    if torn := counts.get(TORN, 0):
        transactions = "a transaction" if torn == 1 else f"{torn:,} transactions"
        did += f" and committed {transactions} in part"
    if twice := counts.get(PROCESSED_TWICE, 0):
        did += f" and let a group process {twice:,} {'record' if twice == 1 else 'records'} twice"
    if left := counts.get(UNPROCESSED, 0):
        did += f" and let a group skip {left:,} {'record' if left == 1 else 'records'}"
    return did


def _out_of_place(counts: dict[str, int], promise: Promise) -> str:
    broken = {kind: number for kind, number in counts.items() if kind in promise.breaking}
    places = _counted(_OF_PRODUCERS, broken)
    and_or_but = "and" if counts.get(LOST) else "but"
    return f", {and_or_but} of its idempotent producers' records {places}" if places else ""


def _kept_sentence(ledger: Ledger, plan: Plan) -> str:
    if plan.read_only:
        return _still_there(ledger, plan.read_only)
    acks, keyed = plan.workload.acks, plan.workload.keys > 0
    total = ledger.acknowledged
    records = "record" if total == 1 else "records"
    if acks in ACKNOWLEDGED:  # with acks=0 no broker acknowledges
        records = f"{records} that {ACKNOWLEDGED[acks]}"
    else:
        records = f"acknowledged {records}"
    if ledger.lost:
        return f"lost {ledger.lost:,} of {total:,} {records}"
    if total and ledger.replaced and ledger.read + ledger.replaced == total:
        if keyed:
            return f"kept the last values of the keys of all {total:,} {records}"
        return f"kept all {ledger.read:,} of {total:,} {records} that were not deleted on request"
    if total and ledger.read == total:
        return f"kept all {total:,} {records}" if total > 1 else f"kept its only {records}"
    return f"returned {ledger.read:,} of {total:,} {records}"


def _still_there(ledger: Ledger, topic: str) -> str:
    """Return what became of the records that readers of another's topic received."""
    judged = ledger.received - ledger.replaced
    received = f"that readers received from {topic}"
    received += " and that did not expire" if ledger.replaced else ""
    if not judged:
        return f"returned no record of {topic} that can be judged"
    if ledger.lost:
        return f"lost {ledger.lost:,} of {count(judged, 'record')} {received}"
    if ledger.read == judged:
        return f"still has {'all ' * (judged > 1)}{count(judged, 'record')} {received}"
    return f"returned {ledger.read:,} of {count(judged, 'record')} {received}"


def _anomalies(findings: Findings, promise: Promise) -> tuple[Anomaly, ...]:
    rows = findings.anomaly_counts.listed
    detailed_ids = {id(row) for row in detailed(rows)} if findings.evidence else set()
    listed = [
        _anomaly(row, promise, findings.evidence if id(row) in detailed_ids else None)
        for row in rows
    ]
    order = list(all_kinds())
    listed.sort(key=lambda anomaly: (not anomaly.breaks, order.index(anomaly.kind)))
    return tuple(listed)


def _anomaly(row: Row, promise: Promise, evidence: RecordEvidence | None) -> Anomaly:
    about_topic = evidence is not None and row["topic"] == evidence.topic
    subject = _subject(row, evidence) if evidence is not None and about_topic else None
    named = kind(row["kind"])
    if named.says is not None:
        sentence_text = named.says(row)
    else:
        sentence_text = client_steps.sentence(row) if row["steps"] else sentence(row, subject)
    return Anomaly(
        kind=row["kind"],
        topic=row["topic"],
        partition=-1 if row["partition"] is None else row["partition"],
        offset=row["offset"],
        value=row["value"],
        sentence=sentence_text,
        breaks=row["kind"] in promise.breaking,
        witnesses=named.evidence(row)
        if named.evidence is not None
        else witnesses(subject)
        if subject
        else _basic(row, sentence_text),
    )


def _subject(row: Row, evidence: RecordEvidence) -> Subject:
    return Subject(
        evidence=evidence,
        kind=row["kind"],
        partition=row["partition"],
        offset=row["offset"],
        value=row["value"],
    )


def _basic(row: Row, sentence_text: str) -> tuple[Witness, ...]:
    if row["steps"]:
        return client_steps.witnesses(row)
    source = _SOURCES.get(row["kind"], OPERATIONS_TABLE)
    return (Witness(who="judge", what="found", says=sentence_text, source=source),)


def _sentence(words: str) -> str:
    words = words.strip().rstrip(".")
    return f"{words[:1].upper()}{words[1:]}."
