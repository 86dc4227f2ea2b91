"""The decorator of the model's rules. A rule is a Python function that the search also compiles."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    import numpy as np

    State = np.ndarray[Any, np.dtype[np.int8]]
    """The state vector; ``state_layout`` names its fields."""

    Constants = np.ndarray[Any, np.dtype[np.int64]]
    """The search bounds and the release's rules as one vector; ``scope`` names its fields."""
else:
    # the base installation lacks NumPy, but its help shows the search bounds
    State = Constants = Any

P = ParamSpec("P")
R = TypeVar("R")

_UNREGISTERED: Final[list[Callable[..., Any]]] = []


def rule(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as a rule of the model, which plain Python and compiled code can call."""
    _UNREGISTERED.append(function)
    return function


def register_rules() -> None:
    """Register all imported rules with Numba, so that compiled code can call them.

    A second call changes nothing. C code never calls a rule, so Numba need not compile a C wrapper.
    """
    from numba.extending import register_jitable  # noqa: PLC0415 - only a search needs Numba

    while _UNREGISTERED:
        register_jitable(no_cfunc_wrapper=True)(_UNREGISTERED.pop())


@rule
def copy_state(source: State, target: State) -> None:
    """Copy a state into another state of the same size.

    This is a loop, because Numba needs seconds to compile a slice assignment.
    """
    for place in range(source.shape[0]):
        target[place] = source[place]


@rule
def spend_one(s: State, field: int, most: int) -> bool:
    """Increase a state's field by one; return False if the field has already reached ``most``."""
    if s[field] >= most:
        return False
    s[field] = int(s[field]) + 1
    return True
