"""Runs that lead brokers to situations (states of the model) that no run of the soak reached.

Highwater executes the model's shortest path to the situation on unchanged brokers. ModelFuzz
(OOPSLA 2025) and Mallory (CCS 2023) also steer runs to new states, but they change the brokers.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from highwater.checkers.coverage.reachable import ReachableSituations, reachable_situations
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.schedules.compile import compile_for
from highwater.checkers.model.search.breadth_first import Limits, half_of_free_memory
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.situations import name_of
from highwater.harness.base.errors import HighwaterError
from highwater.nemesis.model_replay.schedule_replay import plan
from highwater.runtime.campaign import PlannedRun

SCOPE: Final = Scope(records=2, failures=1, moves=1, by="round")
"""The bounds of the search for paths. In a path by rounds, some brokers run until they are idle
while the others are paused; every release can replay such a path."""

_SECONDS: Final = 300.0


@dataclass(slots=True, kw_only=True)
class Steering:
    """Chooses the next situations of each release, by the number of new situations on their paths.

    Attributes:
        paths: folder to which the path to each chosen situation is written, for ``model replay``.
        progress: called with a text when the search for a release begins and ends.
    """

    paths: Path
    progress: Callable[[str], None] = lambda _: None
    _searched: dict[str, ReachableSituations] = field(default_factory=dict)
    _passed: dict[str, dict[int, frozenset[int]]] = field(default_factory=dict)

    def reachable(self, kafka: str) -> ReachableSituations:
        """Return the situations that a release's model can reach; the first call searches."""
        if kafka not in self._searched:
            self.progress(f"searching the situations of {kafka}")
            self._searched[kafka] = reachable_situations(
                ModelSettings(kafka=kafka, scope=SCOPE),
                limits=Limits(memory=half_of_free_memory(), seconds=_SECONDS),
                jobs=1,
                watch=lambda _: None,
            )
            self._passed[kafka] = dict(_passed(self._searched[kafka]))
            self.progress(f"{len(self._searched[kafka].depths)} situations of {kafka} found")
        return self._searched[kafka]

    def runs(
        self, kafka: str, seen: Collection[str], *, driver: str, seed: int
    ) -> Iterator[PlannedRun]:
        """Yield a run for each situation whose path brokers can follow.

        Args:
            seen: names of the situations that need no run.
            seed: the seed of the first run; each later run has the next number.
        """
        depths, passed = self.reachable(kafka).depths, self._passed[kafka]
        visited = {number for number in depths if name_of(number) in seen}
        aims = passed.keys() - visited
        while aims:
            aim = max(aims, key=lambda number: (len(passed[number] - visited), -depths[number]))
            aims -= {aim}
            try:
                counterexample = self.reachable(kafka).counterexample(aim)
                schedule = compile_for(counterexample, kafka, visited)
            except HighwaterError:
                # Brokers cannot follow this path. Or it has a round whose result depends on the
                # order in which its brokers run, and the model has only the order of their numbers.
                continue
            visited |= passed[aim]
            aims -= visited
            self.paths.mkdir(parents=True, exist_ok=True)
            name = name_of(aim)
            (self.paths / f"{name}-{kafka}.json").write_bytes(counterexample.to_json())
            yield PlannedRun(
                plan=plan(schedule, kafka, seed=seed, driver=driver),
                label=f"{kafka} {name}",
                files={"schedule.json": schedule.to_json()},
            )
            seed += 1


def _passed(reachable: ReachableSituations) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield each situation with those on its path, unless the order of brokers decides the path."""
    for number in reachable.depths:
        with contextlib.suppress(HighwaterError):
            yield number, reachable.passed(number)
