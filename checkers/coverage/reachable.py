"""The situations that a search of the model reaches, and a shortest path to each."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from highwater.checkers.model.search.breadth_first import Limits, SearchOutcome, Watch, explore
from highwater.checkers.model.search.fingerprints import Words
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.checkers.model.search.paths import PathStep, follow
from highwater.checkers.model.search.situations import name_of, situations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReachableSituations:
    """The situations that a search of one release reaches within its bounds.

    Attributes:
        depths: the least number of moves to each situation, by the situation's number.
    """

    settings: ModelSettings
    outcome: SearchOutcome
    depths: Mapping[int, int]

    def counterexample(self, number: int) -> Counterexample:
        """Return a shortest path to a situation, in the form of a counterexample."""
        return self.settings.counterexample(name_of(number), self._path(number))

    def passed(self, number: int) -> frozenset[int]:
        """Return the situations on the path to a situation, with that situation."""
        states = np.array([step.after for step in self._path(number)], np.int8)
        brokers = self.settings.scope.brokers
        return frozenset(situations(states, brokers) if len(states) else (number,))

    def _path(self, number: int) -> tuple[PathStep, ...]:
        return follow(self.settings.machine(), self.outcome.chains[number])


def reachable_situations(
    settings: ModelSettings, *, limits: Limits, jobs: int, watch: Watch
) -> ReachableSituations:
    """Search for every situation. Raises what ``settings.machine`` raises."""
    depths: dict[int, int] = {}

    def visit(states: Words, level: int) -> dict[int, int]:
        rows = situations(states.view(np.int8).reshape(len(states), -1), settings.scope.brokers)
        new = {number: row for number, row in rows.items() if number not in depths}
        depths.update(dict.fromkeys(new, level))
        return new

    outcome = explore(settings.machine(), (), limits=limits, jobs=jobs, watch=watch, visit=visit)
    return ReachableSituations(settings=settings, outcome=outcome, depths=depths)
