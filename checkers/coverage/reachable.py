"""The situations that a search of the model reaches, and a shortest path to each."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from highwater.checkers.model.search.breadth_first import Limits, SearchOutcome, Watch, explore
from highwater.checkers.model.search.fingerprints import Words
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.checkers.model.search.paths import follow
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
        path = follow(self.settings.machine(), self.outcome.chains[number])
        return self.settings.counterexample(name_of(number), path)


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
