"""Convert a counterexample's states to frames like those of real brokers."""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from highwater.checkers.model.protocol.readable_state import decode
from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.harness.runs.verdict import Anomaly
from highwater.reports.drawings.replica_frames import Frame, FrameCell, Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater.checkers.model.protocol.readable_state import ModelReplica, State
    from highwater.checkers.model.search.kafka_model import Counterexample

OFFSETS_LEAST: Final = 2
"""The least number of offsets to draw: the texts below HW and LEO need this width."""

_LOSSES: Final = frozenset({"acked-kept", "read-kept", "read-once"})
_DOWN: Final = {"dead": "killed", "paused": "paused", "stopped": "shut down"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """The lost or replaced records of a counterexample, and the records at their offsets."""

    records: frozenset[str]
    instead: frozenset[str] = frozenset()

    def of(self, record: str) -> str:
        """Return the style class of a record's box."""
        if record in self.records:
            return "subject"
        return "other" if record in self.instead else "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFact:
    """A line about the controller or the clients, and whether the step changed the line."""

    says: str
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFrame:
    """The state after a step: the replicas, and lines about the controller and the clients."""

    frame: Frame
    facts: tuple[DecisionFact, ...]


def harm(counterexample: "Counterexample") -> Harm:
    """Return the records that are lost at the end, or that differ between replicas."""
    end = counterexample.steps[-1].after
    leader = _contents(end.replicas[end.leader]) if end.leader >= 0 else []
    if counterexample.invariant in _LOSSES:
        read = (record for step in counterexample.steps for record in step.after.read if record)
        gone = frozenset((*end.acked, *read)) - set(leader)
        if gone:
            return Harm(records=gone)
    for offset in range(max(replica.leo for replica in end.replicas)):
        there = {replica.log[offset].record for replica in end.replicas if replica.leo > offset}
        if len(there) > 1:
            surviving = leader[offset] if offset < len(leader) else min(there)
            return Harm(records=frozenset(there - {surviving}), instead=frozenset({surviving}))
    return Harm(records=frozenset())


def model_frames(counterexample: "Counterexample") -> list[ModelFrame]:
    """Return a frame for each step, with the offsets from 0 to the end of the longest log."""
    harmed, states = harm(counterexample), _states(counterexample)
    width = max(OFFSETS_LEAST, *(replica.leo for state in states for replica in state.replicas))
    changes = zip(counterexample.steps, pairwise(states), strict=True)
    return [
        ModelFrame(
            frame=Frame(
                number=number,
                title=step.says,
                lanes=tuple(_lane(b, now, was, harmed, width) for b in range(len(now.replicas))),
            ),
            facts=tuple(
                DecisionFact(says=says, is_new=says != before)
                for says, before in zip(_facts(now), _facts(was), strict=True)
            ),
        )
        for number, (step, (was, now)) in enumerate(changes, start=1)
    ]


def subject(counterexample: "Counterexample") -> Anomaly:
    """Return an anomaly with the first harmed record and its offset, as the drawings' subject."""
    harmed = harm(counterexample)
    contents = (
        (offset, entry.record)
        for state in _states(counterexample)
        for replica in state.replicas
        for offset, entry in enumerate(replica.log)
        if entry.record in harmed.records
    )
    offset, record = next(contents, (None, None))
    return Anomaly(
        kind="divergence" if harmed.instead else "lost-write",
        topic="model",
        partition=0,
        offset=offset,
        value=record,
        sentence=counterexample.says,
        breaks=True,
    )


def _states(counterexample: "Counterexample") -> "Sequence[State]":
    machine = counterexample.settings.machine()
    beginning = decode(machine.initial, machine.constants)
    return [beginning, *(step.after for step in counterexample.steps)]


def _lane(b: int, state: "State", before: "State", harmed: Harm, width: int) -> Lane:
    now, was = state.replicas[b], before.replicas[b]
    return Lane(
        broker=b,
        name=NAMES[b],
        role=_role(b, now),
        in_isr=b in state.isr,
        down=now.process in _DOWN,
        acted=now != was,
        leo=now.leo,
        hw=now.hw,
        cut=(was.leo, now.leo) if now.leo < was.leo else None,
        cells=tuple(_cell(offset, now, was, harmed) for offset in range(width)),
    )


def _role(b: int, replica: "ModelReplica") -> str:
    """Return ``leader, epoch 1``, ``follows B, e1``, or ``killed``."""
    if replica.process in _DOWN:
        return _DOWN[replica.process]
    if replica.follows < 0:
        return "follows no broker"
    if replica.follows == b:
        return f"leader, epoch {replica.epoch}"
    return f"follows {NAMES[replica.follows]}, e{replica.epoch}"


def _cell(offset: int, now: "ModelReplica", was: "ModelReplica", harmed: Harm) -> FrameCell:
    if offset < now.leo:
        entry, state = now.log[offset], harmed.of(now.log[offset].record)
    elif offset < was.leo:
        entry, state = was.log[offset], "gone"
    else:
        return FrameCell(offset=offset, state="none")
    return FrameCell(offset=offset, state=state, value=entry.record, epoch=entry.epoch)


def _facts(state: "State") -> tuple[str, str]:
    isr = " ".join(NAMES[b] for b in state.isr)
    leads = f"{NAMES[state.leader]} to lead" if state.leader >= 0 else "no broker to lead"
    words = [f"acked {' '.join(state.acked)}"] if state.acked else []
    read = [record for record in state.read if record]
    words += [f"read {' '.join(read)}"] if read else []
    return f"{leads}, epoch {state.epoch}, ISR {isr}", ", ".join(words)


def _contents(replica: "ModelReplica") -> list[str]:
    return [entry.record for entry in replica.log]
