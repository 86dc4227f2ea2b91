"""Search the model of every release, and with every rule changed: docs/model-results.json.

``python -m tools.survey`` takes about an hour on one core. It does not repeat a search with a
recorded result. Releases with equal rules are searched once.
"""

import functools
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from highwater.checkers.model.protocol.rules_by_release import RELEASES, SWITCHES, Rules, rules_of
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.breadth_first import Limits, half_of_free_memory
from highwater.checkers.model.search.kafka_model import (
    PROMISES,
    Counterexample,
    ModelSettings,
    invariants,
)
from highwater.checkers.model.search.result import SearchAnswer, search
from tools.model_tables import RESULTS, read

_LIMIT_S: Final = 900.0

SCOPES: Final = (
    Scope(records=2, failures=0, moves=3),
    Scope(records=2, failures=1, moves=1),
    Scope(records=1, failures=0, moves=1),
    Scope(records=1, failures=1, moves=1),
    Scope(records=1, failures=2, moves=1),
    Scope(records=2, failures=0, moves=2, late=1),
)
"""The bounds (scopes) of every release's search. All have acks=all, min.insync.replicas=1 and clean
elections."""

Base = tuple[str, Mapping[str, bool]]
"""A release, and the bug fixes that are switched on, so that only the changed rule matters."""

_ZOOKEEPER: Final[Base] = ("3.9.2-zk", {})
_KRAFT: Final[Base] = ("4.3.1", {"elected_again_is_new": True})
_REASSIGNED: Final[Base] = (
    "4.4.0",
    {"elected_again_is_new": True, "elr_of_replicas": True},
)
_ASKING: Final[Base] = ("2.4.1", {"fenced_fetches": True})
_PASSING: Final[Base] = ("2.0.1", {"fenced_fetches": True, "fenced_questions": True})

_BASES: Final[Mapping[str, Base]] = {
    "exact_epochs": _ASKING,
    "epoch_on_election": _ASKING,
    "below_first_is_empty": _ASKING,
    "no_epochs_is_undefined": ("0.11.0.3", {}),
    "cut_on_missed_epoch": _PASSING,
    "cut_on_new_epoch": _ASKING,
    "join_from_epoch_start": _ASKING,
    "fenced_questions": _ASKING,
    "fenced_fetches": _ASKING,
    "late_needs_fetching": _ASKING,
    "out_of_range_cuts": _ASKING,
    "elr": _KRAFT,
    "unclean_start_leaves": _KRAFT,
    "last_leader_alive": _KRAFT,
    "live_joins_only": _KRAFT,
    "elected_again_is_new": _KRAFT,
    "added_complete": _REASSIGNED,
    "elr_of_replicas": _REASSIGNED,
}
"""The release in which each rule is changed; by default the newest release with ZooKeeper."""

_MUTATED: Final = (
    Scope(records=2, failures=0, moves=2),
    Scope(records=2, failures=1, moves=1),
    Scope(records=2, failures=0, moves=2, late=1),
    Scope(records=1, failures=2, moves=1),
)
"""The bounds of the searches with a changed rule. They are tried in this order, until an invariant
breaks that otherwise holds."""

_OLD_FORMAT: Final = Scope(records=2, failures=0, moves=2, old_format=True, by="round", stops=False)
_TWO_IN_SYNC: Final = Scope(brokers=2, records=2, failures=4, moves=0, min_isr=2)
_GOING: Final = Scope(brokers=2, records=1, failures=0, moves=1, reassignments=2, min_isr=2)
_ALSO: Final[Mapping[str, Scope]] = {
    "added_complete": _GOING,
    "elr_of_replicas": _GOING,
    "epoch_on_election": Scope(records=2, failures=0, moves=3),
    "no_epochs_is_undefined": _OLD_FORMAT,
    "cut_on_missed_epoch": Scope(records=2, failures=1, moves=2),
    "cut_on_new_epoch": Scope(records=2, failures=1, moves=2),
    "join_from_epoch_start": Scope(records=1, failures=1, moves=2, late=1),
    "diverging_tells_hw": Scope(records=2, failures=1, moves=2),
    "late_fenced": Scope(records=1, failures=0, moves=5, late=1),
    "strict_min_isr": _TWO_IN_SYNC,
    "elr": _TWO_IN_SYNC,
    "unclean_start_leaves": _TWO_IN_SYNC,
    "last_leader_alive": _TWO_IN_SYNC,
    "elected_again_is_new": Scope(records=1, failures=0, moves=3),
}
"""The bounds for rules that have no effect within the default bounds."""


Rows = list[dict[str, Any]]


def main() -> None:
    """Run the missing searches, and write the file after each one."""
    for scope in SCOPES:
        for names in _alike(scope):
            done = {(row.kafka, row.scope) for row in read().scopes if not row.switched}
            missing = [name for name in names if (name, scope) not in done]
            if missing:
                _add("scopes", _searched(missing, scope))
    for switch in SWITCHES:
        if switch not in {"kraft", *(row.switch for row in read().mutations)}:
            _add("mutations", [_mutated(switch, *_BASES.get(switch, _ZOOKEEPER))])


def _add(key: str, rows: Rows) -> None:
    saved = json.loads(RESULTS.read_text("utf-8"))
    saved[key] += rows
    RESULTS.write_text(json.dumps(saved, indent=1) + "\n", "utf-8")
    sys.stderr.write(f"{key}: {rows[0]}\n")


def _alike(scope: Scope) -> Iterable[list[str]]:
    """Return groups of releases that have equal rules within search bounds."""
    groups: dict[Rules, list[str]] = {}
    for name in RELEASES:
        rules = rules_of(name)
        if not scope.late:
            rules = replace(rules, late_fenced=False, late_needs_fetching=False)
        if not scope.old_format:
            rules = replace(rules, no_epochs_is_undefined=False)
        groups.setdefault(rules, []).append(name)
    return groups.values()


def _searched(names: list[str], scope: Scope) -> Rows:
    setting = ModelSettings(kafka=names[0], scope=scope)
    results = _search(setting, PROMISES)
    first = results[0]
    row = {
        "scope": asdict(scope),
        "states": first.states,
        "depth": first.depth,
        "seconds": round(first.seconds, 1),
        "exhausted": any(answer.holds for answer in results),
        "invariants": {answer.invariant: _broken(answer) for answer in results},
    }
    return [{"kafka": name, **row} for name in names]


def _broken(answer: SearchAnswer[Counterexample]) -> Mapping[str, Any] | None:
    if answer.counterexample is None:
        return None
    return {"depth": len(answer.counterexample.steps)}


@functools.cache
def _searches(
    kafka: str, scope: Scope, switched: frozenset[tuple[str, bool]], names: tuple[str, ...]
) -> tuple[SearchAnswer[Counterexample], ...]:
    setting = ModelSettings(kafka=kafka, scope=scope, switched=dict(switched))
    limits = Limits(memory=half_of_free_memory(), seconds=_LIMIT_S)
    return search(setting, invariants(names), limits=limits)


def _search(
    setting: ModelSettings, names: tuple[str, ...]
) -> tuple[SearchAnswer[Counterexample], ...]:
    """Search the model; equal searches are made only once."""
    return _searches(setting.kafka, setting.scope, frozenset(setting.switched.items()), names)


def _mutated(switch: str, kafka: str, base: Mapping[str, bool]) -> dict[str, Any]:
    """Search bounds in turn until the changed rule breaks an invariant; return a row of results."""
    usual = base.get(switch, getattr(rules_of(kafka), switch))
    name = ", ".join((kafka, *(f"{rule} on" for rule in base)))
    states = 0
    for scope in (*_MUTATED, *([_ALSO[switch]] if switch in _ALSO else [])):
        invariants = ("promises", "leader-live") if scope == _TWO_IN_SYNC else PROMISES
        results = _search(ModelSettings(kafka=kafka, scope=scope, switched=dict(base)), invariants)
        holds = tuple(answer.invariant for answer in results if answer.counterexample is None)
        if not holds:
            continue
        switched = {**base, switch: not usual}
        results = _search(ModelSettings(kafka=kafka, scope=scope, switched=switched), holds)
        states += results[0].states
        breaks = [answer for answer in results if answer.counterexample is not None]
        if breaks:
            first = min(breaks, key=_steps)
            return _mutation(name, switch, first.invariant, _steps(first), results[0].states, scope)
    return _mutation(name, switch, None, None, states, None)


def _steps(answer: SearchAnswer[Counterexample]) -> int:
    return len(answer.counterexample.steps) if answer.counterexample else 0


def _mutation(
    kafka: str,
    switch: str,
    invariant: str | None,
    depth: int | None,
    states: int,
    scope: Scope | None,
) -> dict[str, Any]:
    return {
        "switch": switch,
        "kafka": kafka,
        "invariant": invariant,
        "depth": depth,
        "states": states,
        "scope": "all of them" if scope is None else _brief(scope),
    }


def _brief(scope: Scope) -> str:
    """Return the bounds that differ from the defaults."""
    usual = asdict(replace(Scope(), records=2, failures=0, moves=2))
    return ", ".join(
        f"{name} {value}"
        for name, value in asdict(scope).items()
        if value != usual[name] or name in ("records", "failures", "moves")
    )


if __name__ == "__main__":
    main()
