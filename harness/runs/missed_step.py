"""A step of a model's schedule that the real brokers did not execute as expected."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

StateValue: TypeAlias = int | tuple[int | str, ...]


class StateDifference(msgspec.Struct, frozen=True):
    """An observed value that differs from the expected value.

    Attributes:
        what: the kind of value: leader, ISR, alive, acknowledged, refused, LEO, HW, HW on disk.
        replica: the model's number of the replica, for a LEO or HW; None for other values.
        seen: the observed value: an offset, replicas or records.
        expected: the model's value, of the same kind.
    """

    what: str
    replica: int | None
    seen: StateValue
    expected: StateValue

    def __str__(self) -> str:
        whose = self.what if self.replica is None else f"{self.what} of {self.replica}"
        return f"{whose} {_text(self.seen)} instead of {_text(self.expected)}"


class StateDifferences(tuple[StateDifference, ...]):
    """All differences in one observation; empty if the observation is as expected."""

    __slots__ = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self))


class MissedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that could not be executed, or that had another effect than expected.

    Attributes:
        number: the step's number, from 1 on.
        differences: differences in the last observation; empty without an observation.
    """

    number: int
    differences: Sequence[StateDifference] = ()


def _text(value: StateValue) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
