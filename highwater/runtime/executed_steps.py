"""The steps of a fault schedule that a run executed, with their real times and targets.

When a run ends, ``steps.json`` is written to its directory from the table ``events/steps``. A
killed run has no table; then the steps are read from the rows that were streamed to its directory.
"""

from typing import Any, Final, Literal, Self

import msgspec

from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.runs.steps import FaultStep, Steps, in_order
from highwater.harness.runs.store import Run

SCHEMA: Final = 1
_NS: Final = 1_000_000_000

By = Literal["role", "broker"]
"""The way in which a repeated step finds its target: by the target's role in the schedule, such as
leader, or by the broker's id in the first run."""

_ROLES: Final = frozenset(("leader", "follower", "controller"))


class ExecutedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was executed.

    Attributes:
        at_s: seconds from the start of the schedule to the fault.
        lasts_s: seconds from the fault's effect to its healing; None if it was not healed.
        target: a role in the schedule, or a broker's id.
        broker: the broker's id; None for a fault without a broker.
        controllers: ids of the target controllers or ZooKeepers; None for other faults, or if the
            cluster has only one.
    """

    fault: str
    at_s: float
    lasts_s: float | None
    target: str
    broker: int | None
    partition: int
    choice: float
    message: str | None = None
    controllers: tuple[int, ...] | None = None

    def again(self, by: By, *, until_s: float) -> FaultStep:
        """Return a step that repeats this step; an unhealed fault lasts until ``until_s``."""
        role = by == "role" and self.target in _ROLES
        node = self.broker
        if self.controllers is not None and len(self.controllers) == 1:
            [node] = self.controllers
        lasts_s = max(0.0, until_s - self.at_s) if self.lasts_s is None else self.lasts_s
        return FaultStep(
            fault=self.fault,
            at_s=self.at_s,
            lasts_s=round(lasts_s, 3),
            target=self.target if role or node is None else str(node),
            partition=self.partition,
            choice=self.choice,
            message=self.message or "",
        )


class SkippedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was not executed, and the reason."""

    fault: str
    at_s: float
    target: str
    broker: int | None
    why: str
    message: str | None = None


class ExecutedSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file ``steps.json``."""

    schema: int = SCHEMA
    run: str
    ends_s: float = 0.0
    taken: tuple[ExecutedStep, ...] = ()
    left_out: tuple[SkippedStep, ...] = ()

    def steps(self, by: By = "broker") -> Steps:
        """Return a schedule that repeats the steps."""
        return in_order([step.again(by, until_s=self.ends_s) for step in self.taken])

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Parse the content of ``steps.json``."""
        try:
            steps = msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(f"steps.json cannot be read as executed steps: {error}") from error
        if steps.schema != SCHEMA:
            raise StoreError(
                f"steps.json has schema {steps.schema}, but this version of Highwater reads "
                f"schema {SCHEMA}"
            )
        return steps


def executed_steps(run: Run) -> ExecutedSteps:
    """Return the executed steps of a run; a run of a story has none."""
    rows = _step_rows(run)
    begin_ns = next((row["time_ns"] for row in rows if row["event"] == "begin"), 0)

    def seconds(row: dict[str, Any]) -> float:
        return round(float(row["time_ns"] - begin_ns) / _NS, 3)

    events = {(row["event"], row["step"]): row for row in rows if row["step"] is not None}
    return ExecutedSteps(
        run=run.name,
        ends_s=seconds(rows[-1]) if rows else 0.0,
        taken=tuple(
            _executed_step(events, number, seconds(row))
            for (event, number), row in events.items()
            if event == "strike" and ("left-out", number) not in events
        ),
        left_out=tuple(
            SkippedStep(at_s=seconds(row), why=row["says"], **_fields(row, SkippedStep))
            for row in rows
            if row["event"] == "left-out"
        ),
    )


def _executed_step(
    events: dict[tuple[str, int], dict[str, Any]], number: int, at_s: float
) -> ExecutedStep:
    row = events["strike", number]
    injection, heal = events.get(("struck", number), row), events.get(("heal", number))
    lasts_s = None if heal is None else round((heal["time_ns"] - injection["time_ns"]) / _NS, 3)
    fields, controllers = _fields(row, ExecutedStep), row.get("controllers")
    fields["controllers"] = None if controllers is None else tuple(controllers)
    return ExecutedStep(at_s=at_s, lasts_s=lasts_s, **fields)


def _fields(row: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {name: row[name] for name in kind.__struct_fields__ if name in row}


def _step_rows(run: Run) -> list[dict[str, Any]]:
    from highwater.harness.runs.history import STEPS_TABLE  # noqa: PLC0415 - for Arrow, which the base lacks

    rows: list[dict[str, Any]] = run.table(STEPS_TABLE).to_pylist()
    return rows


def whole_steps(run: Run) -> ExecutedSteps:
    """Return a run's executed steps; raise a UsageError if the run has none to repeat."""
    try:
        steps = executed_steps(run)
    except StoreError as error:
        raise UsageError(
            f"{run.name} did not record its steps: {error.message}",
            hint=f"Repeat the run from its seed, and replay the new run: {run.plan().command()}",
        ) from error
    if not steps.taken and all(row["event"] != "begin" for row in _step_rows(run)):
        raise UsageError(
            f"{run.name} ended before its schedule began, so it has no steps to repeat",
            hint="Name another run, or repeat it: " + run.plan().command(),
        )
    return steps
