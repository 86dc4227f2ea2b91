"""Turn a counterexample's states into frames, drawn as those of real brokers are."""

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.harness.runs.verdict import Anomaly
from highwater.reports.drawings import frame_strip
from highwater.reports.drawings.counterexample_svg import DOWN, Harm, beginning, role
from highwater.reports.drawings.replica_frames import Frame, FrameCell, Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater.checkers.model.protocol.readable_state import ModelReplica, State
    from highwater.checkers.model.schedules.counterexample import Counterexample

OFFSETS_LEAST: Final = 2
"""Narrower drawings have no room for the words below HW and LEO."""


def rehearsal(counterexample: "Counterexample", harm: Harm) -> list[tuple[Frame, Markup]]:
    """Return each step's frame and drawing, over offsets 0 to the end of the longest log."""
    states = [beginning(counterexample), *(step.after for step in counterexample.steps)]
    width = max(OFFSETS_LEAST, *(replica.leo for state in states for replica in state.replicas))
    subject = _subject(counterexample, harm, states)
    frames = [
        Frame(
            number=number,
            beat="step",
            title=step.says,
            start_ns=None,
            end_ns=None,
            witnesses=(),
            lanes=tuple(
                _lane(b, states[number], states[number - 1], harm, width)
                for b in range(len(step.after.replicas))
            ),
        )
        for number, step in enumerate(counterexample.steps, start=1)
    ]
    return [(frame, frame_strip.frame(frame, subject, f"m{frame.number}")) for frame in frames]


def _subject(counterexample: "Counterexample", harm: Harm, states: "Sequence[State]") -> Anomaly:
    """Return the record that the drawings are about, at its first offset."""
    contents = (
        (offset, entry.record)
        for state in states
        for replica in state.replicas
        for offset, entry in enumerate(replica.log)
        if entry.record in harm.records
    )
    offset, record = next(contents, (None, None))
    return Anomaly(
        kind="divergence" if harm.instead else "lost-write",
        topic="model",
        partition=0,
        offset=offset,
        value=record,
        sentence=counterexample.says,
        breaks=True,
    )


def _lane(b: int, state: "State", before: "State", harm: Harm, width: int) -> Lane:
    now, was = state.replicas[b], before.replicas[b]
    cut = (was.leo, now.leo) if now.leo < was.leo else None
    return Lane(
        broker=b,
        name=NAMES[b],
        role=role(b, now).replace("epoch ", "e") if now.follows != b else role(b, now),
        in_isr=b in state.isr,
        down=now.process in DOWN,
        acted=now != was,
        leo=now.leo,
        hw=now.hw,
        cut=cut,
        cells=tuple(_cell(offset, now, was, harm) for offset in range(width)),
    )


def _cell(offset: int, now: "ModelReplica", was: "ModelReplica", harm: Harm) -> FrameCell:
    if offset < now.leo:
        record = now.log[offset].record
        return FrameCell(offset=offset, state=harm.of(record), value=record)
    if offset < was.leo:
        return FrameCell(offset=offset, state="gone", value=was.log[offset].record)
    return FrameCell(offset=offset, state="none")
