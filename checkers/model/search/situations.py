"""Situations of a partition: the part of a state that an observer sees, without brokers' names.

A situation has these facts: whether a broker leads and answers; whether the leader's HW is below
its LEO; and for every other replica, whether it is in the ISR, whether it answers, and how its LEO
and HW compare with the leader's. A broker without a replica counts as a broker that does not
answer.

The model's states and observations of real brokers are both described by situations, so the two can
be compared. Mallory (CCS 2023) and ModelFuzz (OOPSLA 2025) count the states of a system in a
similar way.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from highwater.checkers.model.protocol import state_layout as layout


class LeaderState(IntEnum):
    """The state of the leader that the controller decided last, as an observer sees it."""

    NONE = 0
    SILENT = 1
    COMMITTED = 2
    UNCOMMITTED = 3


_LEADERS: Final = {
    LeaderState.NONE: "none",
    LeaderState.SILENT: "does not answer",
    LeaderState.COMMITTED: "HW = LEO",
    LeaderState.UNCOMMITTED: "HW < LEO",
}
_SIGNS: Final = ("<", "=", ">")

_NAME: Final = "situation-"
_SILENT, _ALONE, _COMPARED = 0, 1, 2
_REPLICA: Final = 2 * (_COMPARED + 9)
"""The number of codes (small numbers) for the states of a replica that does not lead."""

_ABSENT: Final = _REPLICA
"""The code of a replica that leads, or that the partition does not have."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Replica:
    """A replica that does not lead.

    Attributes:
        leo: -1, 0 or 1 if its LEO is below, equal to or above the leader's; None if the replica or
            the leader does not answer.
        hw: the same comparison of the high watermarks.
    """

    in_isr: bool
    answers: bool
    leo: int | None = None
    hw: int | None = None

    @property
    def code(self) -> int:
        """The replica as a number, from which ``of`` returns the replica."""
        if not self.answers:
            seen = _SILENT
        elif self.leo is None or self.hw is None:
            seen = _ALONE
        else:
            seen = _compared(self.leo, self.hw)
        return int(_code(seen, self.in_isr))

    @classmethod
    def of(cls, code: int) -> "Replica":
        """Return the replica whose ``code`` is this number."""
        seen, in_isr = divmod(code, 2)
        if seen < _COMPARED:
            return cls(in_isr=bool(in_isr), answers=seen == _ALONE)
        leo, hw = divmod(seen - _COMPARED, 3)
        return cls(in_isr=bool(in_isr), answers=True, leo=leo - 1, hw=hw - 1)

    @property
    def text(self) -> str:
        """The replica in words. ``LEO <`` means that its LEO is below the leader's."""
        place = "in the ISR" if self.in_isr else "outside of the ISR"
        if not self.answers:
            return f"{place}, does not answer"
        if self.leo is None or self.hw is None:
            return f"{place}, answers"
        return f"{place}, LEO {_SIGNS[self.leo + 1]}, HW {_SIGNS[self.hw + 1]}"


def situation(leader: LeaderState, replicas: Iterable[Replica]) -> int:
    """Return the number of a situation. The order of the replicas does not change it."""
    codes = sorted(replica.code for replica in replicas)
    codes += [_ABSENT] * (layout.MAX_BROKERS - len(codes))
    return int(_number(int(leader), codes))


def name_of(number: int) -> str:
    """Return the name of a situation for files, which have it in place of an invariant's name."""
    return f"{_NAME}{number}"


def situation_of(name: str) -> int | None:
    """Return the number of the situation with this name; None for any other name."""
    number = name.removeprefix(_NAME)
    return int(number) if number != name and number.isdecimal() else None


def texts(number: int) -> tuple[str, ...]:
    """Return a situation in words: its leader, then each replica that does not lead."""
    codes = []
    for _ in range(layout.MAX_BROKERS):
        number, code = divmod(number, _ABSENT + 1)
        codes.append(code)
    replicas = (Replica.of(code).text for code in reversed(codes) if code != _ABSENT)
    return (_LEADERS[LeaderState(number)], *replicas)


def situations(states: "np.ndarray[Any, np.dtype[np.int8]]", brokers: int) -> dict[int, int]:
    """Return the situations of the model's states, and for each the row of its first state.

    Args:
        states: one state a row, ``layout.WIDTH`` bytes wide.
        brokers: the number of replicas in the model.
    """
    rows = np.arange(len(states))
    newest = states[rows, layout.DECISION + states[:, layout.DECISIONS] - 1].astype(np.int64)
    leader, isr, replicas = newest & 3, (newest >> 2) & 7, ~(newest >> 5) & 7
    has_leader = leader != layout.NO_LEADER
    fields = {
        name: np.stack([states[:, layout.block(b) + field] for b in range(brokers)], axis=1)
        for name, field in (("up", layout.PROCESS), ("leo", layout.LEO), ("hw", layout.HW))
    }
    up = fields["up"] == layout.ProcessState.UP
    at = np.where(has_leader, leader, 0)
    comparable = has_leader & up[rows, at]
    leo, hw = fields["leo"][rows, at], fields["hw"][rows, at]
    state = np.where(
        comparable, np.where(hw < leo, LeaderState.UNCOMMITTED, LeaderState.COMMITTED), 0
    )
    state = np.where(has_leader & ~comparable, LeaderState.SILENT, state)
    codes = np.full((len(states), layout.MAX_BROKERS), _ABSENT)
    for b in range(brokers):
        signs = [
            np.sign(fields[end][:, b] - leaders) for end, leaders in (("leo", leo), ("hw", hw))
        ]
        compared = _compared(*signs)
        answers = up[:, b] & ((replicas >> b) & 1 == 1)
        seen = np.where(answers, np.where(comparable, compared, _ALONE), _SILENT)
        codes[:, b] = np.where(has_leader & (leader == b), _ABSENT, _code(seen, (isr >> b) & 1))
    codes.sort(axis=1)
    numbers, first = np.unique(_number(state, list(codes.T)), return_index=True)
    return dict(zip(numbers.tolist(), first.tolist(), strict=True))


def _compared(leo: Any, hw: Any) -> Any:  # noqa: ANN401 - signs, or columns of them
    """Return one number for a replica's LEO and HW, each compared with the leader's."""
    return _COMPARED + 3 * (leo + 1) + hw + 1


def _code(seen: Any, in_isr: Any) -> Any:  # noqa: ANN401 - numbers, or columns of them
    return 2 * seen + in_isr


def _number(leader: Any, codes: list[Any]) -> Any:  # noqa: ANN401 - numbers, or columns of them
    for code in codes:
        leader = leader * (_ABSENT + 1) + code
    return leader
