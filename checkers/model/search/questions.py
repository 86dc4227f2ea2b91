"""The user's choice of switched rules and of invariants for a search."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from highwater.checkers.model.protocol.invariants import Invariant
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest

RulesT = TypeVar("RulesT", bound=Any)


def switch(rules: RulesT, switched: Mapping[str, bool], names: Iterable[str], kind: str) -> RulesT:
    """Return the rules of a release with some of them changed.

    Args:
        names: the rules that can be switched.
        kind: the word for a rule in error messages.

    Raises:
        UsageError: a rule does not exist; the hint names the nearest rule.
    """
    for name in switched:
        if name not in names:
            raise UsageError(f"no {kind} is called {name!r}", hint=nearest(name, names))
    return replace(rules, **switched)


def invariants_by_name(
    names: Iterable[str], invariants: Mapping[str, Invariant], kind: str
) -> tuple[str, ...]:
    """Return the names of the chosen invariants in the given order, without repetitions.

    Args:
        names: names of invariants; ``all``; or ``promises``, those on which clients rely.
        invariants: the invariants of the model.
        kind: the word for an invariant in error messages.

    Raises:
        UsageError: a name is unknown, or no name is given. The hint names the nearest invariant.
    """
    promises = tuple(name for name, invariant in invariants.items() if invariant.promise)
    groups = {"all": tuple(invariants), "promises": promises}
    selectable = (*groups, *invariants)
    chosen: dict[str, None] = {}
    for name in names:
        if name not in selectable:
            raise UsageError(f"no {kind} is called {name!r}", hint=nearest(name, selectable))
        chosen |= dict.fromkeys(groups.get(name, (name,)))
    if not chosen:
        raise UsageError(f"no {kind} is named", hint=nearest("", selectable))
    return tuple(chosen)
