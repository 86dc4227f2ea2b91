"""Check the assumptions of a verdict, such as effective faults and complete observations.

Evidence from the run itself decides about each assumption. An assumption without evidence is "not
observed". (etcd's robustness tests also judge assumptions first.)
"""

import io
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from highwater.harness.base.errors import StoreError
from highwater.harness.base.files import open_regular
from highwater.harness.base.wording import count
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.history import STEPS_TABLE
from highwater.harness.runs.partition_trace import UNKNOWN, Track
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, RunStatus
from highwater.harness.runs.verdict import Verdict
from highwater.reports.run_evidence import RunObservations
from highwater.reports.sections.fault_effects import Effect
from highwater.reports.text import seconds

Word = Literal["held", "not held", "not observed"]
Measured = tuple[Word, str]
"""The result about an assumption: a word such as "held", and sentences about the evidence."""

APART_NS: Final = 1_000_000_000
"""The longest time between a broker's log line and the observation of the same event."""
_NEAR_NS: Final = 3_000_000_000
_NS: Final = 1_000_000_000
_FLUSH: Final = re.compile(r"^\s*(log\.flush\.interval\.(?:messages|ms)) = (\S+)")
_NEVER: Final = frozenset(("null", "9223372036854775807"))
_CONFIG_LINES: Final = 4000
"""The number of lines at the start of a broker's log that may contain its settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A condition on which the verdict relies."""

    name: str
    word: Word
    observed: str


def assumptions(
    run: Run, plan: Plan, status: RunStatus | None, verdict: Verdict, evidence: RunObservations,
    effects: list[Effect],
) -> list[Assumption]:  # fmt: skip
    """Return every assumption of a run, the most important first.

    If files are incomplete, return only this fact and the flush settings.
    """
    flushes = {"Brokers use Kafka's default flush settings": _flushes(run, plan)}
    words: dict[str, Measured | None] = {"All recorded files are complete": _whole(verdict)}
    words |= flushes
    if verdict.complete:
        words = {
            "Every fault had an effect": _faults(plan, evidence, effects),
            "The HW-lag window was open at a fault": _window(effects),
            "Every step of the schedule was executed": _left_out(run),
            "Every broker was observed at all times without a fault": _observer(evidence),
            "The clocks of the brokers and of the observer agree": _clocks(evidence, status),
            **flushes,
            "Every replica was in sync before the final read": _quiesced(status),
            f"The final read passed every {'' if plan.read_only else 'acknowledged '}record": (
                _final_read(status, verdict)
            ),
        }
    return [
        Assumption(name=name, word=measured[0], observed=measured[1])
        for name, measured in words.items()
        if measured
    ]


def _whole(verdict: Verdict) -> Measured:
    sentences = [f"The run ended early while it was {verdict.cut}."] if verdict.cut else []
    sentences += [unused.says for unused in verdict.unread[:3]]
    more = len(verdict.unread) - 3
    sentences += [f"The same is true for {count(more, 'file')} more."] if more > 0 else []
    return "not held", " ".join(sentences)


def _faults(plan: Plan, evidence: RunObservations, effects: list[Effect]) -> Measured:
    if unread := [line for line in evidence.missing if "events/faults" in line]:
        return "not observed", unread[0]
    if not effects:
        none = not plan.calm and evidence.fault_counts is not None and evidence.fault_counts.nothing
        return "not held" if none else "held", "No fault was injected."
    idle = [effect.fault for effect in effects if not effect.seen]
    sentence = (
        f"Effects were observed for {len(effects) - len(idle):,} of {count(len(effects), 'fault')}."
    )
    if idle:
        named = ", ".join(f"{effect.name} at {seconds(effect.start_ns, 2)}" for effect in idle[:5])
        sentence += f" No effect of these: {named}{' …' if len(idle) > 5 else ''}."  # noqa: PLR2004
    return "not observed" if idle else "held", sentence


def _window(effects: list[Effect]) -> Measured:
    watched = [effect for effect in effects if effect.watched]
    if not watched:
        return "not observed", "No fault was observed."
    open_ = [effect for effect in watched if effect.window]
    return "held" if open_ else "not held", (
        f"Just before {len(open_):,} of {count(len(watched), 'fault')} some replica had records "
        "above its own high watermark."
    )


def _left_out(run: Run) -> Measured | None:
    """Return whether no step was skipped, and a sentence; None for a run without a schedule."""
    try:
        rows = run.table(STEPS_TABLE).select(["event", "fault", "says"]).to_pylist()
    except (StoreError, KeyError):
        return None
    taken_count = sum(row["event"] == "strike" for row in rows)
    left = [row for row in rows if row["event"] == "left-out"]
    if not taken_count + len(left):
        return None
    sentence = f"{count(taken_count, 'step')} executed, {len(left):,} skipped."
    why = dict.fromkeys(f"{row['fault']}: {row['says']}" for row in left)
    sentence += "".join(f" {reason.rstrip('.')}." for reason in list(why)[:3])
    return "not held" if left else "held", sentence


def _observer(evidence: RunObservations) -> Measured:
    sentences = []
    for (topic, partition), observed in evidence.partitions.items():
        for broker, track in sorted(observed.tracks.items()):
            faults = [fault for fault in evidence.faults if fault.broker in (None, broker)]
            spent = [end - start for start, end in _blind(track, faults, evidence.end_ns)]
            if spent:
                sentences.append(
                    f"broker {broker} of {topic}-{partition} for {seconds(sum(spent), 2)}"
                    f" in {count(len(spent), 'interval')}, {seconds(max(spent), 2)} at most"
                )
    if not any(observed.tracks for observed in evidence.partitions.values()):
        return "not observed", "No replica was observed."
    if not sentences:
        return "held", "Every broker responded at all times when it had no fault."
    more = f"; and {len(sentences) - 4} more" if len(sentences) > 4 else ""  # noqa: PLR2004
    listed = "; ".join(sentences[:4])
    return "not held", f"No response, although the broker had no fault: {listed}{more}."


def _blind(track: Track, faults: list[FaultInterval], end_ns: int) -> Iterator[tuple[int, int]]:
    """Yield intervals in which a broker did not respond although it had no fault.

    The time after a fault is excluded, because a broker that restarts responds late.
    """
    ends = [*track.time_ns[1:], max(end_ns, int(track.time_ns[-1]))] if len(track.time_ns) else []
    for start, end, leo in zip(track.time_ns, ends, track.leo, strict=True):
        if leo != UNKNOWN:
            continue
        if not any(_during(fault, int(start), int(end), end_ns) for fault in faults):
            yield int(start), int(end)


def _during(fault: FaultInterval, start: int, end: int, end_ns: int) -> bool:
    """Return whether a fault overlaps an interval, or ended just before the interval."""
    until = (end_ns if fault.end_ns is None else fault.end_ns) + 2 * _NS
    return fault.start_ns - _NS <= end and start <= until


def _clocks(evidence: RunObservations, status: RunStatus | None) -> Measured:
    if status and status.clock_step_s:
        return "not held", (
            f"The wall clock of the observer was moved by {status.clock_step_s:,.1f} s."
            " The log lines of the brokers are not used."
        )
    apart = [
        drop - cut.time_ns
        for observed in evidence.partitions.values()
        for cut in observed.cuts
        if cut.line and (drop := _drop(observed.tracks.get(cut.broker), cut.time_ns, cut.offset))
    ]
    if not apart:
        return "not observed", "No truncation was both logged by a broker and observed."
    sentence = f"{count(len(apart), 'truncation')} {'was' if len(apart) == 1 else 'were'} both"
    first, last = seconds(min(apart)), seconds(max(apart))
    later = first if first == last else f"{first} to {last}"
    good = max(map(abs, apart)) <= APART_NS
    return "held" if good else "not held", f"{sentence} logged and, {later} later, observed."


def _drop(track: Track | None, at_ns: int, offset: int) -> int | None:
    """Return the time nearest to ``at_ns`` at which the LEO was seen to fall to ``offset``."""
    if track is None:
        return None
    times = [drop.time_ns for drop in track.drops() if drop.after == offset]
    near = [time_ns for time_ns in times if abs(time_ns - at_ns) < _NEAR_NS]
    return min(near, key=lambda time_ns: abs(time_ns - at_ns), default=None)


def _flushes(run: Run, plan: Plan) -> Measured:
    topic = {k: v for k, v in plan.topic.config.items() if k.startswith("flush.")}
    flushes = _logged_flushes(run)
    if not flushes and not topic:
        return "not observed", "No broker logged its settings."
    settings = ", ".join(f"{key} = {value}" for key, value in sorted({**flushes, **topic}.items()))
    if all(value in _NEVER for value in (*flushes.values(), *topic.values())):
        return "held", (
            f"{settings}. Brokers do not flush single records: an acknowledged record survives the"
            " end of the broker's process, but may not survive a power failure."
        )
    return "not held", (
        f"{settings}. Brokers flush by these settings, so a power failure loses fewer records."
    )


def _logged_flushes(run: Run) -> Mapping[str, str]:
    """Read the flush settings that the brokers logged when they started."""
    values: dict[str, str] = {}
    for path in sorted(run.logs.glob("broker-*.log")):
        try:
            with io.TextIOWrapper(open_regular(path), "utf-8", "backslashreplace") as lines:
                for line in itertools.islice(lines, _CONFIG_LINES):
                    if match := _FLUSH.match(line):
                        values.setdefault(match[1], match[2])
        except OSError:
            continue
    return values


def _quiesced(status: RunStatus | None) -> Measured:
    if status is None:
        return "not observed", "status.json is missing or cannot be read."
    if status.quiesced:
        return "held", "Every replica was in the ISR again."
    return "not held", "Some replicas did not return to the ISR."


def _final_read(status: RunStatus | None, verdict: Verdict) -> Measured:
    unseen = verdict.ledger.unseen
    ends = status.standing if status is not None else ()
    short = [f"The final read did not reach {count(unseen, 'record')}."] if unseen else []
    short += [
        f"In partition {end.partition} an open transaction blocked the last stable offset at "
        f"{end.lso} for {end.seconds:.1f} s, before the fence (last record) at {end.fence}."
        for end in ends
    ]
    if short:
        return "not held", " ".join(short)
    total = verdict.ledger.acknowledged + verdict.ledger.received - verdict.ledger.replaced
    return "held", f"The final read passed all {total:,} records."
