"""Checks that the rules of a release allow every observed truncation of a log."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.checkers.explain.evidence.evidence_links import event_link
from highwater.checkers.explain.software import SoftwareHistory
from highwater.checkers.explain.tolerances import WITHIN
from highwater.checkers.explain.trace import BrokerLogLine, Trace
from highwater.checkers.model.protocol.rules_by_release import Rules
from highwater.checkers.model.report_types import ExplanationLink

_KINDS: Final = ("fetcher", "answer", "range", "truncation", "leader", "start", "stop")
_LOOKS: Final = 3
"""A replica that begins to follow a leader had its LEO in at most so many observations before."""


def wrong_cuts(trace: Trace, software: SoftwareHistory) -> Iterator[ExplanationLink]:
    """Yield a link for each truncation of a partition's replicas that no rule allows.

    From 0.11 on a follower asks its leader where to truncate. With an old protocol or message
    format it does not ask, and truncates to its own HW. The broker's software at the time of the
    truncation decides.
    """
    for broker in sorted(trace.lines):
        lines = trace.of_kind(broker, *_KINDS)
        rules = {line: software.at(line.time_ns, broker)[-1].rules for line in lines}
        answered = {rules[line] for line in lines if line.kind == "answer"}
        asking = {line for line in lines if rules[line].epochs or rules[line] in answered}
        yield from _to_the_own_hw(trace, broker, lines, asking)
        yield from _to_the_leaders_answer(trace, rules, lines, asking)


def _to_the_own_hw(
    trace: Trace, broker: int, lines: list[BrokerLogLine], asking: set[BrokerLogLine]
) -> Iterator[ExplanationLink]:
    """Yield a link for each wrong truncation of a follower that does not ask its leader.

    Such a follower truncates to its HW, and fetches from there. Lines in ``asking`` are skipped.
    """
    for index, line in enumerate(lines):
        if line.kind != "truncation" or line in asking:
            continue
        if index and lines[index - 1].kind == "range" and lines[index - 1].offset == line.offset:
            continue
        life = [earlier.kind for earlier in lines[:index] if earlier.kind in {"start", "stop"}]
        ending = life[-1:] == ["stop"]
        kinds = {"fetcher", "start", "truncation"}
        cause = next((line for line in lines[index + 1 :] if line.kind in kinds), None)
        fetches = cause is not None and cause.kind == "fetcher"
        if not (fetches or ending or _died(trace, broker, line, cause)):
            yield _wrong(line, "epochs", "it did not begin to follow a leader")
        elif fetches and cause is not None and cause.offset > line.offset:
            yield _wrong(line, "epochs", f"it then fetched from {cause.offset}")
        elif why := _not_its_hw(trace, broker, line):
            yield _wrong(line, "epochs", why)


def _died(trace: Trace, broker: int, line: BrokerLogLine, then: BrokerLogLine | None) -> bool:
    """Return whether the broker restarted after a truncation, before it was observed again."""
    if then is None or then.kind != "start":
        return False
    seen = (sample.time_ns for sample in trace.samples(broker))
    return not any(line.time_ns + WITHIN.look < at < then.time_ns for at in seen)


def _not_its_hw(trace: Trace, broker: int, line: BrokerLogLine) -> str:
    """Return the reason why a truncation's offset cannot be the replica's HW; empty if it can.

    A replica that was removed and later added again begins with an empty log.
    """
    made = [line.time_ns for line in trace.of_kind(broker, "created")]
    made_ns = max((at for at in made if at <= line.time_ns), default=0)
    seen = [m for m in trace.samples(broker) if made_ns <= m.time_ns <= line.time_ns]
    everywhere = (m.hw for track in trace.tracks.values() for m in track.samples)
    highest = max(everywhere, default=0)
    if line.offset > highest:
        return f"no HW was ever above {highest}"
    starts = (start.time_ns for start in trace.of_kind(broker, "start"))
    if not seen or any(at > seen[-1].time_ns - WITHIN.log for at in starts):
        return ""
    return f"its HW was {seen[-1].hw}" if line.offset < min(m.hw for m in seen[-3:]) else ""


@dataclass(slots=True, kw_only=True)
class _Following:
    """The state of a replica since it last began to follow or to lead.

    Attributes:
        cause: the log line that shows that the replica began to follow or to lead.
        since_ns: the result of ``_since`` for ``cause``.
        question: the leader's last response, until the replica has truncated its log.
        cut: the offset of the replica's last truncation.
    """

    cause: BrokerLogLine | None = None
    since_ns: int = 0
    question: BrokerLogLine | None = None
    cut: int | None = None


def _to_the_leaders_answer(
    trace: Trace,
    rules: Mapping[BrokerLogLine, Rules],
    lines: list[BrokerLogLine],
    asking: set[BrokerLogLine],
) -> Iterator[ExplanationLink]:
    """Yield a link for each wrong truncation of a follower that asks its leader (since 0.11).

    Args:
        trace: the trace of the partition.
        rules: for each log line, the broker's rules at that time.
        lines: the broker's log lines, in order of time.
        asking: the log lines of a broker that requests the offset to truncate to.
    """
    now = _Following()
    for line in _in_order(lines):
        if line.kind in {"fetcher", "leader"}:
            now = _Following(cause=line, since_ns=_since(trace, now, line))
        elif line.kind in {"answer", "range"}:
            now.question = line
        elif line.kind == "truncation":
            why = _why_not(trace, rules[line], line, now) if line in asking else ""
            if why:
                exact = "exact_epochs" if rules[line].exact_epochs else "epochs"
                yield _wrong(line, "cut_on_fetch" if rules[line].cut_on_fetch else exact, why)
            now.question, now.cut = None, line.offset


def _since(trace: Trace, before: _Following, line: BrokerLogLine) -> int:
    """Return the start of the replica's last role, before ``line``, that was not idle.

    In such a role the replica led, fetched or truncated. An epoch that ended after its start may be
    the reason for the next truncation.
    """
    cause = before.cause
    if cause is None:
        return 0
    if cause.kind == "leader":
        idle = line.offset == cause.offset
    else:
        idle = before.cut is None and not _had_fetched(trace, line, cause)
    return before.since_ns if idle else cause.time_ns


def _in_order(lines: list[BrokerLogLine]) -> list[BrokerLogLine]:
    """Return the lines in the order of their events.

    A broker may log a new fetcher after the truncation. So the line about the fetcher moves to an
    earlier time, but not before the broker's last leadership.
    """
    began, led_ns = [], 0
    for line in sorted(lines, key=lambda line: line.time_ns):
        led_ns = line.time_ns if line.kind == "leader" else led_ns
        early = max(line.time_ns - WITHIN.look, led_ns) if line.kind == "fetcher" else line.time_ns
        began.append((early, line))
    return [line for _, line in sorted(began, key=lambda pair: pair[0])]


def _why_not(trace: Trace, rules: Rules, line: BrokerLogLine, now: _Following) -> str:
    """Return the reason why the rules forbid a truncation; empty if the rules allow it."""
    cause, question = now.cause, now.question
    if cause is None or cause.kind == "leader":
        return "it did not follow a leader"
    # The fetcher begins at the log's end. A frozen broker may have written more, unobserved.
    seen = (m.leo for m in trace.samples(line.broker))
    if line.offset > max(seen, default=0) and line.offset > cause.offset:
        return "its log was never that long"
    if question is not None:
        return "" if question.offset == line.offset else f"its leader returned {question.offset}"
    if now.cut is not None and (not rules.exact_epochs or line.offset >= now.cut):
        return "it had already truncated its log"
    if _had_fetched(trace, line, cause):
        return "it had already fetched from its leader"
    ends = _ends(trace, now.since_ns, line.time_ns)
    # or the start of the follower's own next epoch, if the leader lacks that epoch
    if rules.exact_epochs:
        ends |= {
            start.offset
            for start in trace.starts
            if start.broker == line.broker and start.epoch > 0
        }
    explained = line.offset in ends or _is_leo_of(trace, cause.leader, line)
    return "" if explained else "no epoch of its leader ends at this offset"


def _had_fetched(trace: Trace, line: BrokerLogLine, cause: BrokerLogLine) -> bool:
    """Return whether the replica's LEO increased after it began to follow its leader.

    Observations before the broker's last start are ignored, because its log may have been longer.
    Long before the replica followed this leader, its log may have been shorter.
    """
    starts = trace.of_kind(line.broker, "start")
    alive_ns = max((start.time_ns for start in starts if start.time_ns <= cause.time_ns), default=0)
    samples = [m for m in trace.samples(line.broker) if m.time_ns >= alive_ns]
    early_ns, late_ns = cause.time_ns - _LOOKS * WITHIN.look, cause.time_ns + WITHIN.look
    begun = [m.leo for m in samples if early_ns <= m.time_ns <= late_ns]
    since = [m.leo for m in samples if late_ns < m.time_ns <= line.time_ns]
    return bool(since) and max(since) > max(begun or since[:1])


def _ends(trace: Trace, since_ns: int, until_ns: int) -> set[int]:
    """Return the offsets at which old epochs ended because new epochs began between two times.

    A leader that learns late about its election begins its epoch late.
    """
    return {
        start.offset
        for start in trace.starts
        if since_ns - WITHIN.log <= max(start.time_ns, start.led_ns)
        and start.time_ns <= until_ns + WITHIN.log
        and start.epoch > 0
    }


def _is_leo_of(trace: Trace, leader: int, line: BrokerLogLine) -> bool:
    """Return whether a truncation's offset may be the leader's LEO."""
    samples = trace.samples(leader)
    before = [m.leo for m in samples if m.time_ns <= line.time_ns]
    after = [m.leo for m in samples if line.time_ns < m.time_ns <= line.time_ns + WITHIN.log]
    around = before[-1:] + after[:1]
    return bool(around) and min(around) <= line.offset <= max(around)


def _wrong(line: BrokerLogLine, rule: str, why: str) -> ExplanationLink:
    says = f"Broker {line.broker} truncated its log to {line.offset}, but {why}."
    return event_link(rule, says, line, line.broker)
