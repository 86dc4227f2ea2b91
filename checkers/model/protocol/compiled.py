"""One source for two ways to run: a rule is plain Python, and compiles when the search calls it."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba.extending import register_jitable

State = np.ndarray[Any, np.dtype[np.int8]]
"""The state vector; ``layout`` says what lies where."""

Constants = np.ndarray[Any, np.dtype[np.int64]]
"""The scope and the rules; ``scope`` says what lies where."""

P = ParamSpec("P")
R = TypeVar("R")


def rule(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as part of the model: callable as it is, and from compiled code.

    Nothing calls the compiled form from C, so that it needs no entry for that.
    """
    mark: Callable[[Callable[P, R]], Callable[P, R]] = register_jitable(no_cfunc_wrapper=True)
    return mark(function)


@rule
def copy_state(source: State, target: State) -> None:
    """Write a state over another one of the same size.

    As a slice it would take Numba seconds to compile: sizes that differ have a message there, with
    all that it takes to format it.
    """
    for place in range(source.shape[0]):
        target[place] = source[place]
