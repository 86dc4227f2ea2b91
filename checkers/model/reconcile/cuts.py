"""Every cut of a log must be one that the release's rules allow, for a reason that was observed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from checkers.model.reconcile.trace import SECOND, Line, Trace
from checkers.model.rules import Rules

_KINDS: Final = ("fetcher", "answer", "range", "truncation", "leader", "start", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Something that the rules do not allow, why not, and the event."""

    rule: str
    says: str
    broker: int | None
    time_ns: int
    event: str


def wrong_cuts(trace: Trace, rules: Rules) -> Iterator[Wrong]:
    """Cuts of every replica of a partition that no rule allows."""
    for broker in sorted(trace.lines):
        told = trace.of_kind(broker, *_KINDS)
        check = _to_the_leaders_answer if rules.epochs else _to_the_own_hw
        yield from check(trace, rules, broker, told)


def cut_count(trace: Trace) -> int:
    """How many cuts were observed."""
    return sum(len(trace.of_kind(broker, "truncation")) for broker in trace.lines)


def _to_the_own_hw(trace: Trace, _: Rules, broker: int, told: list[Line]) -> Iterator[Wrong]:
    """To 0.10.2: a new follower cuts to its HW, and then has a fetcher that begins there."""
    for index, line in enumerate(told):
        if line.kind != "truncation":
            continue
        if index and told[index - 1].kind == "range" and told[index - 1].offset == line.offset:
            continue
        life = [one.kind for one in told[:index] if one.kind in {"start", "stop"}]
        stopping = life[-1:] == ["stop"]
        following = (one for one in told[index + 1 :] if one.kind in {"fetcher", "truncation"})
        cause = next(following, None)
        fetches = cause is not None and cause.kind == "fetcher"
        if not fetches and not stopping:
            yield _wrong(line, "epochs", "it did not begin to follow anybody")
        elif fetches and cause is not None and cause.offset > line.offset:
            yield _wrong(line, "epochs", f"it then fetched from {cause.offset}")
        elif why := _not_its_hw(trace, broker, line):
            yield _wrong(line, "epochs", why)


def _not_its_hw(trace: Trace, broker: int, line: Line) -> str:
    """Why a replica's HW cannot have been there; empty when it can."""
    seen = [m for m in trace.marks.get(broker, ()) if m.time_ns <= line.time_ns]
    everywhere = (m.hw for marks in trace.marks.values() for m in marks)
    highest = max(everywhere, default=0)
    if line.offset > highest:
        return f"no HW was ever above {highest}"
    restarted = (
        any(
            one.kind == "start" and one.time_ns > seen[-1].time_ns - SECOND
            for one in trace.lines[broker]
        )
        if seen
        else True
    )
    lowest = min((m.hw for m in seen[-3:]), default=0)
    if not restarted and line.offset < lowest:
        return f"its HW was {seen[-1].hw}"
    return ""


def _to_the_leaders_answer(trace: Trace, rules: Rules, _: int, told: list[Line]) -> Iterator[Wrong]:
    """Since 0.11: to where an epoch of the leader ends, to the HW if it cannot say, or its LEO."""
    cause: Line | None = None
    asked: Line | None = None
    cuts, since_ns = 0, 0
    for line in told:
        if line.kind in {"fetcher", "leader"}:
            since_ns = 0 if cause is None else cause.time_ns
            cause, asked, cuts = line, None, 0
        elif line.kind in {"answer", "range"}:
            asked = line
        elif line.kind == "truncation":
            cuts += 1
            if why := _why_not(trace, rules, line, cause, asked, cuts, since_ns):
                yield _wrong(line, _rule(rules), why)
            asked = None


def _rule(rules: Rules) -> str:
    return (
        "cut_on_fetch" if rules.cut_on_fetch else "exact_epochs" if rules.exact_epochs else "epochs"
    )


def _why_not(
    trace: Trace,
    rules: Rules,
    line: Line,
    cause: Line | None,
    asked: Line | None,
    cuts: int,
    since_ns: int,
) -> str:
    """Why a cut is not allowed; empty when it is."""
    if cause is None or cause.kind == "leader":
        return "it did not follow anybody"
    if line.offset > max((m.leo for m in trace.marks.get(line.broker, ())), default=0):
        return "its log was never so long"
    if asked is not None:
        return "" if asked.offset == line.offset else f"its leader had told it {asked.offset}"
    if cuts > 1 and not rules.exact_epochs:
        return "it had cut its log already"
    if line.offset in _ends(trace, since_ns, line.time_ns) or _is_leo_of(trace, cause.leader, line):
        return ""
    return "no epoch of its leader ends there"


def _ends(trace: Trace, since_ns: int, until_ns: int) -> set[int]:
    """Where epochs ended that others begun since it last followed, or led."""
    return {
        start.offset
        for start in trace.starts
        if since_ns - SECOND <= start.time_ns <= until_ns + SECOND and start.epoch > 0
    }


def _is_leo_of(trace: Trace, leader: int, line: Line) -> bool:
    """Whether the leader's log may have ended there: its LEO is where its last epoch ends."""
    marks = trace.marks.get(leader, [])
    before = [mark.leo for mark in marks if mark.time_ns <= line.time_ns]
    after = [mark.leo for mark in marks if line.time_ns < mark.time_ns <= line.time_ns + SECOND]
    around = before[-1:] + after[:1]
    return bool(around) and min(around) <= line.offset <= max(around)


def _wrong(line: Line, rule: str, why: str) -> Wrong:
    return Wrong(
        rule=rule,
        says=f"Broker {line.broker} cut its log to {line.offset}, but {why}.",
        broker=line.broker,
        time_ns=line.time_ns,
        event=line.text,
    )
