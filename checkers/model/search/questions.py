"""The names in a question to a model: rules that are switched, and invariants."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest

RulesT = TypeVar("RulesT", bound=Any)


def switch(rules: RulesT, switched: Mapping[str, bool], names: Iterable[str], kind: str) -> RulesT:
    """Return the rules of a release with some of them changed.

    Args:
        names: the rules that can be switched. kind: what an error calls one of them.

    Raises:
        UsageError: there is no such rule; the hint names the nearest.
    """
    for name in switched:
        if name not in names:
            raise UsageError(f"no {kind} is called {name!r}", hint=nearest(name, names))
    return replace(rules, **switched)


def invariants_by_name(
    names: Iterable[str], groups: Mapping[str, tuple[str, ...]], kind: str
) -> tuple[str, ...]:
    """Return invariants by name, each once, in the order of the names.

    Args:
        groups: names for several; ``all`` is every invariant of the model.
        kind: what an error calls one of them.

    Raises:
        UsageError: there is none of that name, or none is named; the hint names the nearest.
    """
    selectable = (*groups, *groups["all"])
    chosen: dict[str, None] = {}
    for name in names:
        if name not in selectable:
            raise UsageError(f"no {kind} is called {name!r}", hint=nearest(name, selectable))
        chosen |= dict.fromkeys(groups.get(name, (name,)))
    if not chosen:
        raise UsageError(f"no {kind} is named", hint=nearest("", selectable))
    return tuple(chosen)
