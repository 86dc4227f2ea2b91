"""The assumptions a verdict rests on: effective faults, a watching observer, agreeing clocks.

Every line is measured in the run itself. An assumption without evidence is "not observed": neither
held nor broken. (Judged before anything else, as in etcd's robustness tests.)
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

APART_NS: Final = 1_000_000_000
"""So far apart brokers' logs and observations may tell of one event: beats are formed with that."""
_NEAR_NS: Final = 3_000_000_000
_NS: Final = 1_000_000_000
_FLUSH: Final = re.compile(r"^\s*(log\.flush\.interval\.(?:messages|ms)) = (\S+)")
_NEVER: Final = frozenset(("null", "9223372036854775807"))
_CONFIG_LINES: Final = 4000
"""A broker logs its settings when it starts, within so many lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """Something that must be so for the verdict to mean what it says.

    Attributes:
        observed: what was measured of it, one sentence or more.
    """

    name: str
    word: Word
    observed: str


def assumptions(
    run: Run, plan: Plan, status: RunStatus | None, verdict: Verdict, evidence: RunObservations,
    effects: list[Effect],
) -> list[Assumption]:  # fmt: skip
    """Return every assumption, in the order in which a sceptic asks.

    For an incomplete run, only that fact and the flush settings can be judged.
    """
    if not verdict.complete:
        return [_whole(verdict), _flushes(run, plan)]
    return [
        _faults(plan, evidence, effects),
        _window(effects),
        *_left_out(run),
        _observer(evidence),
        _clocks(evidence),
        _flushes(run, plan),
        _quiesced(status),
        _final_read(verdict),
    ]


def _whole(verdict: Verdict) -> Assumption:
    name = "All that was recorded is there"
    sentences = [f"The run was cut short while it was {verdict.cut}."] if verdict.cut else []
    sentences += [unused.says for unused in verdict.unread[:3]]
    more = len(verdict.unread) - 3
    sentences += [f"So it is with {count(more, 'file')} more."] if more > 0 else []
    return Assumption(name=name, word="not held", observed=" ".join(sentences))


def _faults(plan: Plan, evidence: RunObservations, effects: list[Effect]) -> Assumption:
    name = "Every fault did something"
    if not effects:
        none = not plan.calm and evidence.deeds is not None and evidence.deeds.nothing
        word: Word = "not held" if none else "held"
        return Assumption(name=name, word=word, observed="No fault was injected.")
    idle = [effect.fault for effect in effects if not effect.seen]
    sentence = (
        f"An effect was observed of {len(effects) - len(idle):,} of {count(len(effects), 'fault')}."
    )
    if idle:
        named = ", ".join(f"{effect.name} at {seconds(effect.start_ns, 2)}" for effect in idle[:5])
        sentence += f" Of none of these: {named}{' …' if len(idle) > 5 else ''}."  # noqa: PLR2004
    return Assumption(name=name, word="not observed" if idle else "held", observed=sentence)


def _window(effects: list[Effect]) -> Assumption:
    name = "The HW-lag window was open at a fault"
    watched = [effect for effect in effects if effect.watched]
    if not watched:
        return Assumption(name=name, word="not observed", observed="No fault was observed.")
    open_ = [effect for effect in watched if effect.window]
    sentence = (
        f"Just before {len(open_):,} of {count(len(watched), 'fault')} some replica held records"
        " above its own high watermark."
    )
    return Assumption(name=name, word="held" if open_ else "not held", observed=sentence)


def _left_out(run: Run) -> Iterator[Assumption]:
    """Yield an assumption about steps left out, for runs with a schedule of faults."""
    try:
        rows = run.table(STEPS_TABLE).select(["event", "fault", "says"]).to_pylist()
    except (StoreError, KeyError):
        return
    taken_count = sum(row["event"] == "strike" for row in rows)
    left = [row for row in rows if row["event"] == "left-out"]
    if not taken_count + len(left):
        return
    sentence = f"{count(taken_count, 'step')} taken, {len(left):,} left out."
    why = dict.fromkeys(f"{row['fault']}: {row['says']}" for row in left)
    sentence += "".join(f" {reason.rstrip('.')}." for reason in list(why)[:3])
    yield Assumption(
        name="The schedule was followed", word="not held" if left else "held", observed=sentence
    )


def _observer(evidence: RunObservations) -> Assumption:
    name = "Every broker was in sight but for faults"
    sentences, blind = [], 0
    for (topic, partition), scene in evidence.scenes.items():
        for broker, track in sorted(scene.tracks.items()):
            spells = list(_blind(track, _spans(evidence, broker), evidence.end_ns))
            if spells:
                blind += 1
                spent = [end - start for start, end in spells]
                sentences.append(
                    f"broker {broker} of {topic}-{partition} for {seconds(sum(spent), 2)}"
                    f" in {count(len(spells), 'spell')}, {seconds(max(spent), 2)} at most"
                )
    if not any(scene.tracks for scene in evidence.scenes.values()):
        return Assumption(name=name, word="not observed", observed="No replica was observed.")
    if not blind:
        return Assumption(
            name=name,
            word="held",
            observed="Every broker answered whenever no fault was open on it.",
        )
    more = f"; and {blind - 4} more" if blind > 4 else ""  # noqa: PLR2004
    sentence = f"Not observed, while no fault was open on it: {'; '.join(sentences[:4])}{more}."
    return Assumption(name=name, word="not held", observed=sentence)


def _spans(evidence: RunObservations, broker: int) -> list[FaultInterval]:
    return [fault for fault in evidence.faults if fault.broker in (None, broker)]


def _blind(track: Track, faults: list[FaultInterval], end_ns: int) -> Iterator[tuple[int, int]]:
    """Yield intervals without an answer that no fault explains; a restart takes a moment."""
    ends = [*track.time_ns[1:], max(end_ns, int(track.time_ns[-1]))] if len(track.time_ns) else []
    for start, end, leo in zip(track.time_ns, ends, track.leo, strict=True):
        if leo != UNKNOWN:
            continue
        if not any(_during(fault, int(start), int(end), end_ns) for fault in faults):
            yield int(start), int(end)


def _during(fault: FaultInterval, start: int, end: int, end_ns: int) -> bool:
    """Tell whether a fault overlaps an interval or ended just before it."""
    until = (end_ns if fault.end_ns is None else fault.end_ns) + 2 * _NS
    return fault.start_ns - _NS <= end and start <= until


def _clocks(evidence: RunObservations) -> Assumption:
    name = "Brokers' logs and the observer tell the same time"
    apart = [
        drop - cut.time_ns
        for scene in evidence.scenes.values()
        for cut in scene.cuts
        if cut.line and (drop := _drop(scene.tracks.get(cut.broker), cut.time_ns, cut.offset))
    ]
    if not apart:
        return Assumption(
            name=name, word="not observed", observed="No cut of a log was both logged and observed."
        )
    sentence = f"{count(len(apart), 'cut')} of a log {'was' if len(apart) == 1 else 'were'} both"
    first, last = seconds(min(apart)), seconds(max(apart))
    later = first if first == last else f"{first} to {last}"
    observed_text = f"{sentence} logged and, {later} later, observed."
    good = max(map(abs, apart)) <= APART_NS
    return Assumption(name=name, word="held" if good else "not held", observed=observed_text)


def _drop(track: Track | None, at_ns: int, offset: int) -> int | None:
    """Return the time, near ``at_ns``, at which the LEO was seen to fall to an offset."""
    if track is None:
        return None
    times = [drop.time_ns for drop in track.drops() if drop.after == offset]
    near = [time_ns for time_ns in times if abs(time_ns - at_ns) < _NEAR_NS]
    return min(near, key=lambda time_ns: abs(time_ns - at_ns), default=None)


def _flushes(run: Run, plan: Plan) -> Assumption:
    name = "Brokers flush as Kafka does by default"
    topic = {k: v for k, v in plan.topic.config.items() if k.startswith("flush.")}
    flushes = _logged_flushes(run)
    if not flushes and not topic:
        return Assumption(name=name, word="not observed", observed="No broker logged its settings.")
    settings = ", ".join(f"{key} = {value}" for key, value in sorted({**flushes, **topic}.items()))
    lazy = all(value in _NEVER for value in (*flushes.values(), *topic.values()))
    means = (
        "No record is flushed by itself: what is acknowledged survives the end of a process, and"
        " need not survive a power failure."
        if lazy
        else "Brokers flush by these settings, so that a power failure takes less."
    )
    return Assumption(
        name=name, word="held" if lazy else "not held", observed=f"{settings}. {means}"
    )


def _logged_flushes(run: Run) -> Mapping[str, str]:
    """Read the flush settings that the brokers logged at their start."""
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


def _quiesced(status: RunStatus | None) -> Assumption:
    name = "All was mended before the final read"
    if status is None:
        return Assumption(
            name=name, word="not observed", observed="status.json is missing or broken."
        )
    if status.quiesced:
        return Assumption(name=name, word="held", observed="Every replica was back in the ISR.")
    return Assumption(
        name=name, word="not held", observed="Not every replica came back into the ISR."
    )


def _final_read(verdict: Verdict) -> Assumption:
    name = "The final read passed every acknowledged record"
    unseen = verdict.ledger.unseen
    if not unseen:
        sentence = f"It came past all {verdict.ledger.acknowledged:,}."
        return Assumption(name=name, word="held", observed=sentence)
    return Assumption(
        name=name, word="not held", observed=f"It did not come to {count(unseen, 'record')}."
    )
