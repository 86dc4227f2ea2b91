"""What a schedule is given by a run, as far as a test looks at it."""

import threading
from dataclasses import MISSING, fields
from typing import Any

from highwater.harness.runs.history import FAULTS
from highwater.nemesis.context import ScheduleContext


class NotedFaults:
    """The log of faults, kept: each fault, phase, broker and sentence."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str, int | None, str]] = []

    def fault(
        self, name: str, phase: str, says: str, broker: int | None = None, **columns: object
    ) -> None:
        assert set(columns) <= set(FAULTS.names)
        assert name
        assert phase
        assert says
        self.notes.append((name, phase, broker, says))

    @property
    def says(self) -> list[str]:
        """The sentences."""
        return [says for *_, says in self.notes]

    @property
    def rows(self) -> list[tuple[str, str, int | None]]:
        """The notes without their sentences."""
        return [(name, phase, broker) for name, phase, broker, _ in self.notes]


def schedule_context(**given: Any) -> ScheduleContext:  # noqa: ANN401 - any fields of it
    """A context of three replicas; what is not given is None, or as the class has it."""
    values = {one.name: None for one in fields(ScheduleContext) if _is_required(one)}
    usual = {"topic": "events", "replicas": (1, 2, 3), "stop": threading.Event()}
    return ScheduleContext(**{**values, **usual, "clock": lambda: 0.0, **given})


def _is_required(field: Any) -> bool:  # noqa: ANN401 - dataclasses.Field has a parameter
    return field.default is MISSING and field.default_factory is MISSING
