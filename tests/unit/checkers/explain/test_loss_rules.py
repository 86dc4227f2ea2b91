"""Each rule of a lost record alone: its evidence explains the loss, and nothing else does."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from highwater.checkers.explain.evidence.licences import Explanation, first
from highwater.checkers.explain.evidence.lost_record import LostRecord
from highwater.checkers.explain.evidence.other_losses import OTHERWISE
from highwater.checkers.explain.evidence.successions import SUCCESSION, Succession
from highwater.checkers.explain.evidence.unanswered_sends import UNANSWERED
from highwater.checkers.explain.lost_records import replaced
from highwater.checkers.explain.software import Software, SoftwareChange, SoftwareHistory
from highwater.checkers.explain.tolerances import SECOND, WITHIN
from highwater.checkers.explain.trace import (
    BrokerLogLine,
    ClientLogLine,
    FrozenReplica,
    LeadershipStart,
    RunTraces,
    Trace,
)
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.clock_notes import clock_note
from highwater.harness.runs.faults.effects import FaultEffect, RemovedOffsets
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.history import OPERATIONS
from highwater.harness.runs.partition_trace import Leadership, Track
from highwater.harness.runs.plan import Acks, Plan, Topic, Workload
from highwater.harness.runs.store import RunStatus

RULES = {rule.name: rule for rule in (*UNANSWERED, *SUCCESSION, *OTHERWISE)}
SENT, ACKED, ELECTED = 20 * SECOND, 21 * SECOND, 29 * SECOND
QUIET = Leadership(time_ns=0, leader=1, epoch=0, isr=(1, 2, 3))
NEXT = Leadership(time_ns=ELECTED, leader=2, epoch=1, isr=(2, 3))
START = LeadershipStart(
    time_ns=ELECTED, broker=2, epoch=1, offset=3, isr=(2, 3), unclean=None, logged=True,
    event="Leader events-0 starts at leader epoch 1",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Situation:
    """m3 was sent to broker 1 at offset 3 and acknowledged; broker 2 leads later, from 3 on."""

    kafka: str = "3.9.2"
    acks: Acks = "all"
    unclean: bool = False
    rows: tuple[Leadership, ...] = (QUIET, NEXT)
    start: LeadershipStart = START
    starts: tuple[LeadershipStart, ...] = (START,)
    faults: tuple[FaultInterval, ...] = ()
    lines: tuple[BrokerLogLine, ...] = ()
    tracks: dict[int, Track] = field(default_factory=dict)
    clients: tuple[ClientLogLine, ...] = ()
    divided: tuple[ClientLogLine, ...] = ()
    left_ns: int | None = None
    other: tuple[Leadership, ...] = ()
    acked_ns: int = ACKED
    later: tuple[str, ...] = ()
    """Records that the producer sent a second after it."""
    transactions: bool = False
    tiered: bool = False
    aborted: str = ""
    """Record that the producer had sent before, in a transaction that was aborted, unanswered."""
    earlier: str = ""
    """Record that the producer, an idempotent one, had sent a second before."""
    earlier_ns: tuple[int, int] = (SENT - SECOND, ACKED)
    """When that record was sent, and answered."""
    client: str = "librdkafka"
    error: str | None = None
    """The error of its send."""
    late: tuple[dict[str, Any], ...] = ()
    """Answers to fetches that the wire let go on."""
    config: dict[str, str] = field(default_factory=dict)
    """The topic's settings."""
    upgraded: tuple[int, ...] = ()
    """Brokers that run 3.9.2 before anything happens."""

    def record(self) -> Succession:
        """The record as the explanation has it."""
        disk = FrozenReplica(
            offsets=np.arange(4),
            epochs=np.array([0, 0, 0, 1]),
            ids=["m0", "m1", "m2", "m4"],
            numbers=[(7, 0, sequence) for sequence in range(4)],
        )
        trace = Trace(
            partition=0,
            leaderships=list(self.rows),
            tracks=self.tracks,
            lines={b: [line for line in self.lines if line.broker == b] for b in (1, 2, 3)},
            disks={2: disk},
            starts=list(self.starts),
        )
        other = Trace(partition=1, leaderships=list(self.other), lines={}, disks={}, starts=[])
        send: dict[str, Any] = {
            "process": "p0", "outcome": "ok", "invoke_ns": SENT, "complete_ns": self.acked_ns,
            "offset": 3, "value": "m3", "error": self.error,
        }  # fmt: skip
        sent = {"kind": "send", "process": "p0", "partition": 0, "complete_ns": ACKED + SECOND}
        later = [sent | {"value": value} for value in self.later]
        if self.aborted:
            later += [{**sent, "value": self.aborted, "outcome": "fail", "complete_ns": SENT}]
        if self.earlier:
            begun_ns, ended_ns = self.earlier_ns
            times = {"invoke_ns": begun_ns, "complete_ns": ended_ns}
            later += [sent | times | {"value": self.earlier, "outcome": "ok", "offset": 3}]
        observed = RunTraces(
            plan=Plan(
                kafka=self.kafka,
                client=self.client,
                tiered=self.tiered,
                topic=Topic(unclean_leader_election=self.unclean, config=self.config),
                workload=Workload(
                    acks=self.acks,
                    transactions=self.transactions,
                    idempotence=bool(self.earlier),
                ),
            ),
            status=RunStatus(phase="frozen"),
            software=SoftwareHistory(
                first=Software.of(self.kafka),
                brokers=(1, 2, 3),
                changes=tuple(
                    SoftwareChange(
                        software=Software.of("3.9.2-zk"), broker=broker, begun_ns=0, done_ns=0
                    )
                    for broker in self.upgraded
                ),
            ),
            faults=list(self.faults),
            traces={0: trace, 1: other},
            ops=pa.Table.from_pylist(later, schema=OPERATIONS),
            clients={"p0": list(self.clients)},
            divided={"p0": list(self.divided)},
            left_ns={} if self.left_ns is None else {"p0": self.left_ns},
            late_answers=list(self.late),
        )
        ack = ExplanationLink(rule=f"acks={self.acks}", says="It was acknowledged.", broker=1)
        return Succession(observed=observed, trace=trace, send=send, ack=ack, start=self.start)


def fault(
    name: str, broker: int | None, at_ns: int, until_ns: int | None = None, *lost: int
) -> FaultInterval:
    effect = FaultEffect(name, [RemovedOffsets("events", 0, at, at + 1) for at in lost])
    row = {"says": effect.says, "removed": effect.rows, "time_ns": at_ns}
    return FaultInterval(
        name=name, broker=broker, start_ns=at_ns, end_ns=until_ns, says=effect.says, row=row
    )


def cut(offset: int, at_ns: int = ELECTED - SECOND) -> BrokerLogLine:
    return BrokerLogLine(
        time_ns=at_ns, broker=2, kind="truncation", offset=offset, text="Truncating to 3"
    )


def unknown_epoch(at_ns: int) -> BrokerLogLine:
    text = "received an unknown offset"
    return BrokerLogLine(time_ns=at_ns, broker=2, kind="answer", offset=-1, text=text)


def deleted(begin: int) -> tuple[BrokerLogLine, ...]:
    """Broker 2 deleted a segment, because it counted too much; its log begins behind that."""
    said = "due to retention size 5000 breach. Log size after deletion will be 6000."
    expired = BrokerLogLine(time_ns=ELECTED, broker=2, kind="expired", offset=-1, text=said)
    text = f"Incremented log start offset to {begin}"
    moved = BrokerLogLine(time_ns=ELECTED, broker=2, kind="log-start", offset=begin, text=text)
    return expired, moved


def copies(later: int) -> tuple[BrokerLogLine, ...]:
    """Broker 1 began to copy its segment at offset 0; broker 2 copied the one at ``later``."""
    said = "Copying 00000000000000000000.log to remote storage."
    begun = BrokerLogLine(time_ns=ACKED, broker=1, kind="copying", offset=0, text=said)
    text = f"Copied {later:020}.log to remote storage with segment-id: S"
    return begun, BrokerLogLine(time_ns=ELECTED, broker=2, kind="copied", offset=later, text=text)


def forgotten(start: int) -> tuple[BrokerLogLine, ...]:
    """Broker 2 copied its segment at offset 0; then its log began at the first local segment."""
    said = f"Found the logStartOffset: {start} for partition: I:events-0 after becoming leader"
    found = BrokerLogLine(
        time_ns=ELECTED + 1, broker=2, kind="remote-start", offset=start, text=said
    )
    return replace(copies(0)[1], time_ns=ACKED), found


def expired(begin: int, note: str = "", limit_ms: str = "60000") -> tuple[BrokerLogLine, ...]:
    """Broker 2 deleted a segment, because its newest timestamp was too old."""
    said = f"due to log retention time {limit_ms}ms breach based on the largest timestamp{note}"
    gone = BrokerLogLine(time_ns=ELECTED, broker=2, kind="retention", offset=0, text=said)
    return gone, deleted(begin)[1]


def replaced_by_copy(end: int, at_ns: int = ELECTED - SECOND) -> BrokerLogLine:
    text = f"recover abandoned future log for events-0 at Log(logEndOffset={end}) and removing Log"
    return BrokerLogLine(time_ns=at_ns, broker=2, kind="replaced-by-copy", offset=end, text=text)


LOST_POWER = fault("power-failure", 1, ELECTED, ELECTED)
CALM = Situation(acks="0", rows=(QUIET,), starts=())
UNCLEAN = replace(START, unclean="UNCLEAN partition change")
PAUSED = fault("pause", 1, SENT - 10 * SECOND, ACKED - SECOND)
DEPOSED = Situation(
    acks="1",
    rows=(QUIET, replace(NEXT, time_ns=SENT - SECOND)),
    starts=(replace(START, time_ns=SENT - SECOND),),
    acked_ns=SENT + SECOND // 2,
)
MOVED = SENT - 8 * SECOND
HEARD = BrokerLogLine(time_ns=ACKED, broker=1, kind="fetcher", offset=-1, text="Added fetcher")
UNAWARE = Situation(
    acks="0",
    rows=(QUIET, replace(NEXT, time_ns=MOVED)),
    starts=(replace(START, time_ns=MOVED),),
    lines=(HEARD,),
)
UNREAD = replace(CALM, clients=(ClientLogLine(ACKED + 9 * SECOND, "Timed out"),))
JOIN = (QUIET, replace(QUIET, time_ns=SENT - SECOND, isr=(1,)), replace(QUIET, time_ns=ACKED), NEXT)

PARTIAL = Situation(client="aiokafka", transactions=True, error="OUT_OF_ORDER_SEQUENCE_NUMBER")
UNANSWERED_COMMIT = Situation(client="./driver", transactions=True, earlier="m4")
DIVIDED = Situation(
    client="java:3.9.0",
    rows=(QUIET,),
    starts=(),
    divided=(ClientLogLine(SENT + 1, "splitting and retrying"),),
)
AS_ANOTHER = Situation(client="./driver", earlier="m4")
REUSED = Situation(rows=(replace(QUIET, leader=2),), starts=(), transactions=True, aborted="m4")

MINUTE = {"retention.ms": "60000"}
OLD = Situation(config=MINUTE, starts=(), lines=expired(4))
INHERITED = Situation(
    kafka="4.4.0",
    config={"retention.ms": ""},
    starts=(),
    lines=expired(4),
    faults=(fault("kill", 2, ACKED, ACKED + 1),),
)

ARRIVED = ACKED + SECOND
LATE_ANSWER = {
    "time_ns": ARRIVED, "event": "sent", "side": "answer", "api": "Fetch", "source": "broker-3",
    "target": "broker-2", "topic": "events", "partition": 0, "epoch": 0, "message": 1,
}  # fmt: skip
LATE = Situation(
    kafka="3.9.0",
    rows=(QUIET, replace(QUIET, time_ns=ARRIVED - 1, leader=3, epoch=2), replace(NEXT, epoch=3)),
    lines=(cut(3, ARRIVED - 2 * SECOND), cut(3, ARRIVED + SECOND // 10)),
    late=(LATE_ANSWER,),
)


def leads(epoch: int, at_ns: int, kind: str = "leader") -> BrokerLogLine:
    text = f"Leader events-0 starts at leader epoch {epoch} from offset 3"
    return BrokerLogLine(time_ns=at_ns, broker=1, kind=kind, offset=3, text=text)


BETWEEN = replace(NEXT, time_ns=SENT + 1, leader=3)
AGAIN = Situation(
    rows=(QUIET, BETWEEN, replace(QUIET, time_ns=SENT + 2, epoch=2), replace(NEXT, epoch=3)),
    lines=(leads(0, 0), cut(3, SENT + 1), leads(2, ACKED - 1)),
)

FORGOTTEN = Situation(
    rows=(QUIET, replace(QUIET, time_ns=SENT - SECOND, isr=(1, 3)), NEXT),
    faults=(fault("controller-disk-loss", None, ACKED, ELECTED - 1),),
)

EXPLAINED = {
    "fault": replace(CALM, faults=(fault("kill", 1, SENT),)),
    "retry": replace(CALM, clients=(ClientLogLine(SENT + SECOND, "Timed out"),)),
    "client-left": replace(CALM, left_ns=ACKED),
    "zombie-send": UNAWARE,
    "shorter-log": replace(CALM, starts=(START,), tracks={1: Track.of(1, [(SENT, 3, 3)])}),
    "connection": replace(
        CALM, other=(QUIET, replace(NEXT, time_ns=SENT)), rows=(replace(QUIET, isr=(1,)),)
    ),
    "partial-commit": PARTIAL,
    "unanswered-commit": UNANSWERED_COMMIT,
    "early-flush": DIVIDED,
    "unread": replace(UNREAD, later=("m5",)),
    "unclean": Situation(unclean=True, start=UNCLEAN),
    "acks": Situation(acks="1"),
    "disk": Situation(faults=(fault("power-failure", 2, ACKED, ELECTED, 3),)),
    "controller-disk-loss": FORGOTTEN,
    "interrupted-move": Situation(kafka="4.4.0", lines=(replaced_by_copy(3),)),
    "epochs": Situation(kafka="0.10.2.2", lines=(cut(3),)),
    "epoch_on_election": Situation(
        kafka="0.11.0.3", lines=(unknown_epoch(ELECTED - SECOND), cut(3))
    ),
    "join_from_epoch_start": Situation(
        kafka="2.0.0", rows=JOIN, tracks={2: Track.of(2, [(SENT, 3, 3)])}
    ),
    "elected_again_is_new": AGAIN,
    "late_fenced": LATE,
    "zombie": DEPOSED,
    "reused-sequence": REUSED,
    "numbered-as-another": AS_ANOTHER,
    "segment-deleted": Situation(
        faults=(fault("segment-deleted", 2, ACKED, ACKED, 3),),
    ),
    "counted-twice": Situation(tiered=True, lines=deleted(4)),
    "late-segment": Situation(tiered=True, lines=copies(0)),
    "own-remote-tier": Situation(tiered=True, lines=forgotten(4), faults=(LOST_POWER,)),
    "inherited-settings": INHERITED,
    "retention": OLD,
}
"""For each rule a situation in which it explains the loss."""

NOT_EXPLAINED = {
    "fault": replace(CALM, faults=(fault("kill", 2, 0, SENT - WITHIN.client - SECOND),)),
    "retry": replace(CALM, clients=(ClientLogLine(ACKED + 2 * WITHIN.log, "Timed out"),)),
    "client-left": replace(CALM, left_ns=ACKED + 2 * WITHIN.look),
    "zombie-send": replace(UNAWARE, lines=()),
    "shorter-log": replace(
        CALM,
        starts=(replace(START, offset=4),),
        tracks={1: Track.of(1, [(SENT, 3, 3)])},
    ),
    "connection": replace(CALM, other=(QUIET, replace(NEXT, time_ns=ELECTED))),
    "partial-commit": replace(PARTIAL, client="java:3.3.2"),
    "unanswered-commit": replace(UNANSWERED_COMMIT, earlier=""),  # it reports no offsets
    "early-flush": replace(DIVIDED, client="java:3.9.2"),
    "unread": replace(UNREAD, later=("m5", "m4")),  # m4 is in a log
    "unclean": Situation(unclean=False, start=UNCLEAN),
    "acks": Situation(acks="all"),
    "disk": Situation(faults=(fault("power-failure", 2, ACKED, ELECTED, 2),)),
    "controller-disk-loss": replace(FORGOTTEN, rows=(QUIET, NEXT)),
    "interrupted-move": Situation(kafka="4.4.0", lines=(replaced_by_copy(4),)),
    "epochs": Situation(kafka="0.11.0.3", lines=(cut(3),)),
    "epoch_on_election": Situation(kafka="2.0.1", lines=(unknown_epoch(ELECTED - SECOND), cut(3))),
    "join_from_epoch_start": Situation(
        kafka="2.0.1", rows=JOIN, tracks={2: Track.of(2, [(SENT, 3, 3)])}
    ),
    "elected_again_is_new": replace(
        AGAIN, lines=(*AGAIN.lines[:2], leads(1, SENT + 2, "follower"), AGAIN.lines[2])
    ),
    "late_fenced": replace(LATE, kafka="3.9.2"),
    "zombie": replace(DEPOSED, acks="all"),
    "reused-sequence": replace(REUSED, aborted="m2"),  # which has another offset
    "numbered-as-another": replace(AS_ANOTHER, earlier="m2"),  # the same
    "segment-deleted": Situation(faults=(fault("segment-deleted", 3, ACKED, ACKED, 3),)),
    "counted-twice": Situation(tiered=True, lines=deleted(3)),
    "late-segment": Situation(tiered=True, lines=copies(1)),
    "own-remote-tier": Situation(tiered=True, lines=forgotten(3), faults=(LOST_POWER,)),
    "inherited-settings": replace(INHERITED, faults=(fault("kill", 1, ACKED, ACKED + 1),)),
    "retention": replace(OLD, lines=expired(3)),
}
"""The same with one thing changed: too late, another broker or offset, settings or release."""


@pytest.mark.parametrize(
    ("unclean", "read_ns", "rules"),
    [
        ("unclean", ACKED, ["read", "unclean"]),
        (None, ACKED, None),
        ("unclean", ELECTED + 2, None),
    ],
)
def test_two_records_at_an_offset_follow_from_the_loss_of_the_earlier_one(
    unclean: str | None, read_ns: int, rules: list[str] | None
) -> None:
    start = replace(START, unclean=unclean)
    record = Situation(unclean=True, start=start, starts=(start,)).record()
    read = {"kind": "read", "process": "c0", "partition": 0, "offset": 3, "value": "m3"}
    ops = [read | {"invoke_ns": read_ns - 1, "complete_ns": read_ns, "outcome": "ok"}]
    observed = replace(record.observed, ops=pa.Table.from_pylist(ops, schema=OPERATIONS))
    steps = [{"value": "m4", "complete_ns": ELECTED + 1}, {"value": "m3", "complete_ns": read_ns}]
    anomaly = {"kind": "inconsistent-offsets", "partition": 0, "offset": 3, "value": None}
    chain = replaced(observed, anomaly | {"steps": steps})
    assert (chain and [link.rule for link in chain.links]) == rules


def test_every_rule_is_tested() -> None:
    assert EXPLAINED.keys() == NOT_EXPLAINED.keys() == RULES.keys()
    assert len(RULES) == len(UNANSWERED) + len(SUCCESSION) + len(OTHERWISE)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_explains_a_loss_by_its_evidence(rule: Explanation[LostRecord]) -> None:
    record = EXPLAINED[rule.name].record()
    links = rule.links(record)
    assert record.ack in links
    assert len(links) > 1
    tables: list[tuple[Explanation[Any], ...]] = [UNANSWERED, SUCCESSION, OTHERWISE]
    table = next(rules for rules in tables if rule in rules)
    assert first(table, record) == links  # and no rule before it does


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_does_not_explain_what_is_out_of_its_bounds(rule: Explanation[LostRecord]) -> None:
    assert rule.links(NOT_EXPLAINED[rule.name].record()) == ()


@pytest.mark.parametrize(
    ("config", "sent_ns", "why"),
    [
        (MINUTE, SENT, "an old timestamp"),
        (MINUTE | {"message.timestamp.type": "LogAppendTime"}, SENT, ""),
        (
            MINUTE | {"message.timestamp.type": "LogAppendTime", "retention.ms": "5000"},
            SENT,
            "5 s,",
        ),
        (MINUTE | {"retention.ms": "5000"}, SENT, "5 s, had passed"),
        ({}, SENT, ""),
        (MINUTE, ELECTED + SECOND, ""),  # after it
    ],
)
def test_retention_deletes_what_its_producer_made_old(
    config: dict[str, str], sent_ns: int, why: str
) -> None:
    rule, lines = RULES["retention"], expired(4, limit_ms=config.get("retention.ms", "60000"))
    record = replace(OLD, config=config, lines=lines).record()
    record = replace(record, send=record.send | {"invoke_ns": sent_ns})
    links = rule.links(record) if rule.licence.holds(record.observed, None) else ()
    assert bool(links) == bool(why)
    assert not links or why in links[1].says
    assert not links or ("old timestamp" in links[1].says) == ("an old" in why)


@pytest.mark.parametrize("limit_ms", ["604800000", "60000"])
@pytest.mark.parametrize("stated", ["", "60000", "-1"])
def test_a_broker_deletes_by_the_retention_of_a_deleted_topic(stated: str, limit_ms: str) -> None:
    other = replace(INHERITED, config={"retention.ms": stated}, lines=expired(4, limit_ms=limit_ms))
    record, explaining = other.record(), set()
    for name in ("inherited-settings", "retention"):
        rule = RULES[name]
        if rule.may_explain(record) and rule.links(record):
            explaining.add(name)
    by_default, by_statement = ("", "604800000"), ("60000", "60000")
    assert explaining == {
        ("", "60000"): {"inherited-settings"},
        by_default: {"retention"},
        by_statement: {"retention"},
    }.get((stated, limit_ms), set())


@pytest.mark.parametrize(("ahead_s", "explained"), [(3600, True), (5, False), (-3600, False)])
def test_retention_deletes_what_is_old_by_a_clock_that_is_ahead(
    ahead_s: int, *, explained: bool
) -> None:
    moved = fault("clock-bump", 2, SENT, ELECTED + SECOND)
    config = MINUTE | {"message.timestamp.type": "LogAppendTime"}
    lines = expired(4, clock_note(ahead_s * SECOND))
    links = RULES["retention"].links(
        replace(OLD, config=config, lines=lines, faults=(moved,)).record()
    )
    assert bool(links) == explained
    if explained:
        assert [link.rule for link in links] == ["acks=all", "clock-bump", "retention", "retention"]
        assert "was 3,600 s ahead" in links[2].says
        assert "an old timestamp" not in links[2].says


@pytest.mark.parametrize(("until_ns", "moved"), [(ACKED, True), (SENT - 3 * SECOND, False)])
def test_a_record_is_old_by_the_clock_of_its_producer(until_ns: int, *, moved: bool) -> None:
    behind = fault("client-clock-bump", None, SENT - 9 * SECOND, until_ns)
    links = RULES["retention"].links(replace(OLD, faults=(behind,)).record())
    assert ("client-clock-bump" in [link.rule for link in links]) == moved
    assert "an old timestamp" in links[-2].says


@pytest.mark.parametrize(("ended_ns", "explained"), [(ACKED - 1, True), (ACKED, False)])
def test_a_client_may_have_numbered_a_later_record_first(*, ended_ns: int, explained: bool) -> None:
    passed = replace(AS_ANOTHER, earlier_ns=(SENT + 1, ended_ns))
    assert bool(RULES["numbered-as-another"].links(passed.record())) == explained


def test_a_paused_leader_may_answer_before_it_learns_that_it_is_deposed() -> None:
    rule = RULES["zombie"]
    late = replace(DEPOSED, acked_ns=ACKED + SECOND // 2)
    assert rule.links(late.record()) == ()
    assert [link.rule for link in rule.links(replace(late, faults=(PAUSED,)).record())] == [
        "elections", "zombie", "acks=1",
    ]  # fmt: skip


def test_an_answer_of_a_deposed_leader_may_be_observed_late() -> None:
    rule = RULES["zombie"]
    late = replace(DEPOSED, acked_ns=ACKED + 3 * SECOND)
    assert rule.links(replace(late, faults=(PAUSED,)).record())
    woken = fault("pause", 1, SENT - 10 * SECOND, SENT - 3 * SECOND)
    assert rule.links(replace(late, faults=(woken,)).record()) == ()  # sent when it knew


@pytest.mark.parametrize(
    "situation",
    [
        replace(LATE, late=()),
        replace(LATE, late=({**LATE_ANSWER, "epoch": 2},)),  # of this epoch
        replace(LATE, late=({**LATE_ANSWER, "target": "broker-3"},)),
        replace(LATE, late=({**LATE_ANSWER, "partition": 1},)),
        replace(LATE, late=({**LATE_ANSWER, "api": "Produce"},)),
        replace(LATE, lines=(cut(3, ARRIVED - 2 * SECOND),)),  # before it arrived
        replace(LATE, lines=(cut(4, ARRIVED + SECOND // 10),)),
        replace(LATE, lines=(cut(3, ARRIVED + 2 * SECOND),)),
    ],
)
def test_an_answer_truncates_when_it_comes_to_the_new_leader_late(situation: Situation) -> None:
    assert RULES["late_fenced"].links(situation.record()) == ()


@pytest.mark.parametrize(
    "situation",
    [
        replace(AGAIN, rows=(QUIET, replace(QUIET, epoch=2), NEXT)),  # no other led between
        replace(AGAIN, lines=(AGAIN.lines[0], AGAIN.lines[2])),  # the new leader truncated nothing
        replace(AGAIN, lines=(*AGAIN.lines[::2], cut(3, ACKED + SECOND))),
        replace(AGAIN, lines=AGAIN.lines[:2]),
    ],
)
def test_a_leader_that_is_elected_again_is_told_by_what_it_missed(situation: Situation) -> None:
    assert RULES["elected_again_is_new"].links(situation.record()) == ()
    links = RULES["elected_again_is_new"].links(AGAIN.record())
    assert [link.rule for link in links] == [
        "cut", "elected_again_is_new", "acks=all", "elections",
    ]  # fmt: skip
    assert "never knew that broker 3 led between, in epoch 1" in links[1].says
    assert "its follower, broker 2, had m3" in links[1].says


def test_the_next_leader_may_be_seen_right_after_the_acknowledgement() -> None:
    soon = replace(NEXT, epoch=3, time_ns=ACKED + WITHIN.look // 2)
    links = RULES["elected_again_is_new"].links(
        replace(AGAIN, rows=(*AGAIN.rows[:-1], soon)).record()
    )
    assert "elected_again_is_new" in {link.rule for link in links}


def test_a_late_answer_is_told_with_who_led_meanwhile() -> None:
    rows = (QUIET, *(replace(QUIET, leader=n, epoch=e, time_ns=e) for n, e in [(3, 1), (1, 2)]))
    rows += (replace(QUIET, leader=3, epoch=4, time_ns=ARRIVED - 1),)
    late = ({**LATE_ANSWER, "epoch": 1},)
    links = RULES["late_fenced"].links(replace(LATE, rows=rows, late=late).record())
    assert [link.rule for link in links] == ["acks=all", "late_fenced", "cut", "elections"]
    assert links[1].says == (
        "Broker 3 had answered a fetch of broker 2 in epoch 1. The relay delayed the answer."
        " Then broker 1 led in epoch 2. The answer came when broker 3 led in epoch 4."
        " Broker 2 fetched from the same offset as in epoch 1, and took the late answer for the"
        " answer to its last fetch."
    )


@pytest.mark.parametrize(
    ("name", "acts"),
    [
        ("epochs", 2),  # the follower that truncates to its HW
        ("epoch_on_election", 1),  # the leader that it asks
        ("join_from_epoch_start", 1),  # the leader that lets it join
        ("late_fenced", 2),  # the follower that takes a late answer
    ],
)
def test_the_broker_that_acts_must_run_the_release_that_lacks_the_rule(
    name: str, acts: int
) -> None:
    others = tuple({1, 2, 3} - {acts})
    assert RULES[name].links(replace(EXPLAINED[name], upgraded=others).record())
    assert not RULES[name].links(replace(EXPLAINED[name], upgraded=(acts,)).record())


@pytest.mark.parametrize("name", ["disk", "segment-deleted"])
def test_a_fault_removes_also_what_was_sent_while_it_was_being_injected(name: str) -> None:
    """A slow machine may take long from the step to the kill; until then records are appended."""
    (before,) = EXPLAINED[name].faults
    slow = replace(before, start_ns=SENT - SECOND)
    assert RULES[name].links(replace(EXPLAINED[name], faults=(slow,)).record())
    earlier = replace(slow, row={**before.row, "time_ns": SENT - 1})
    assert not RULES[name].links(replace(EXPLAINED[name], faults=(earlier,)).record())


@pytest.mark.parametrize(
    ("topic", "partition", "at"),
    [("events", 0, 3), ("events", 0, 4), ("events", 1, 3), ("x", 0, 3)],
)
def test_a_fault_explains_the_loss_of_what_it_removed_alone(
    topic: str, partition: int, at: int
) -> None:
    (taken,) = EXPLAINED["disk"].faults
    effect = FaultEffect(taken.name, [RemovedOffsets(topic, partition, at, at + 1)])
    other = replace(taken, says=effect.says, row={**taken.row, "removed": effect.rows})
    links = RULES["disk"].links(replace(EXPLAINED["disk"], faults=(other,)).record())
    assert bool(links) == ((topic, partition, at) == ("events", 0, 3))


@pytest.mark.parametrize(("reason", "explained"), [("time 60000ms", True), ("size 60000", False)])
def test_retention_deletes_from_the_remote_tier_too(reason: str, *, explained: bool) -> None:
    line = replace(
        expired(4)[0], kind="expired", offset=-1, text=f"due to retention {reason} breach"
    )
    tiered = replace(OLD, tiered=True, lines=(line, deleted(4)[1]))
    [rule] = [each for each in OTHERWISE if each.name == "retention"]
    links = rule.links(tiered.record())
    assert bool(links) == explained
    assert not links or "deleted a segment of the remote tier, because" in links[1].says
