"""A script line by line, with the model's state after each line."""

from collections.abc import Sequence

import msgspec

from highwater.checkers.model.protocol.readable_state import State, decode
from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.checkers.model.report_types import ModelSnapshot
from highwater.checkers.model.schedules.script import ScriptSettings, ScriptState, perform


def course(script: str, setting: ScriptSettings) -> tuple[ModelSnapshot, ...]:
    """Return the model's state after each line of a script; replicas have the script's names.

    Raises:
        ScriptError: the model cannot take a step.
    """
    stage = ScriptState.of(script, setting)
    return tuple(_beat(line, stage) for line in perform(script, stage))


def recast(course: Sequence[ModelSnapshot], brokers: Sequence[str]) -> tuple[ModelSnapshot, ...]:
    """Return snapshots in which broker ids replace the names A, B and C."""
    ids = dict(zip(NAMES, brokers, strict=False))
    return tuple(
        msgspec.structs.replace(
            beat,
            leader=ids.get(beat.leader, ""),
            isr=tuple(ids[name] for name in beat.isr),
            logs={ids[name]: log for name, log in beat.logs.items()},
            hw={ids[name]: hw for name, hw in beat.hw.items()},
            down=tuple(ids[name] for name in beat.down),
        )
        for beat in course
    )


def _beat(line: str, stage: ScriptState) -> ModelSnapshot:
    state: State = decode(stage.state, stage.k)
    replicas = list(zip(NAMES, state.replicas, strict=True))
    return ModelSnapshot(
        line=line,
        leader=NAMES[state.leader] if state.leader >= 0 else "",
        epoch=state.epoch,
        isr=tuple(NAMES[b] for b in state.isr),
        logs={name: stage.log(b) for b, name in enumerate(NAMES)},
        hw={name: replica.hw for name, replica in replicas},
        down=tuple(name for name, replica in replicas if replica.process in {"dead", "stopped"}),
    )
