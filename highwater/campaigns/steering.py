"""Runs that lead brokers to states of the model that no run of the soak reached.

The first runs break promises, if the release can break them without a failure. Later runs lead to
situations. Highwater executes the model's shortest path on unchanged brokers. ModelFuzz (OOPSLA
2025) and Mallory (CCS 2023) also steer runs to new states, but they change the brokers.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from highwater.checkers.coverage.reachable import ReachableSituations, reachable_situations
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.schedules.compile import compile_for
from highwater.checkers.model.schedules.schedule import Schedule
from highwater.checkers.model.search.breadth_first import Limits, half_of_free_memory
from highwater.checkers.model.search.kafka_model import PROMISES, Counterexample, ModelSettings
from highwater.checkers.model.search.result import search
from highwater.checkers.model.search.situations import name_of
from highwater.harness.base.errors import HighwaterError
from highwater.harness.releases.catalogue import release
from highwater.nemesis.model_replay.schedule_replay import plan
from highwater.runtime.campaign import PlannedRun

SCOPE: Final = Scope(records=2, failures=1, moves=1, by="round")
"""The bounds of the search for paths. In a path by rounds, some brokers run until they are idle
while the others are paused; every release can replay such a path."""

BREACHES: Final = (
    Scope(records=1, failures=0, moves=3, by="round"),
    Scope(records=3, failures=0, moves=2, by="round"),
)
BREACHES_BY_MESSAGE: Final = (
    Scope(records=2, failures=0, moves=3),
    Scope(records=2, failures=0, moves=2, late=1),
)
"""The bounds of the searches for broken promises; only brokers with ZooKeeper can replay the second
ones. They include KIP-101, KIP-279, KAFKA-9338 and KAFKA-13141, and on KRaft the leader that is
elected again."""

_SECONDS: Final = 300.0


@dataclass(slots=True, kw_only=True)
class Steering:
    """Chooses a release's next promises, then its situations by the number of new ones on the path.

    Attributes:
        paths: folder to which the path to each choice is written, for ``model replay``.
        progress: called with a text when the search for a release begins and ends.
    """

    paths: Path
    progress: Callable[[str], None] = lambda _: None
    _broken: dict[str, Mapping[str, Counterexample]] = field(default_factory=dict)
    _searched: dict[str, ReachableSituations] = field(default_factory=dict)
    _passed: dict[str, dict[int, frozenset[int]]] = field(default_factory=dict)

    def breaches(self, kafka: str) -> Mapping[str, Counterexample]:
        """Return a path to each promise that a release's model can break, and brokers can follow.

        The first call searches.
        """
        if kafka not in self._broken:
            self.progress(f"searching the promises that {kafka} can break")
            on_zookeeper = release(kafka).coordination == "zookeeper"
            answers = [
                answer.counterexample
                for scope in (*BREACHES, *(BREACHES_BY_MESSAGE if on_zookeeper else ()))
                for answer in search(
                    ModelSettings(kafka=kafka, scope=scope), PROMISES, limits=_limits()
                )
                if answer.counterexample is not None and _followed(answer.counterexample, kafka)
            ]
            answers.sort(key=lambda path: len(path.steps), reverse=True)
            self._broken[kafka] = {path.invariant: path for path in answers}
            self.progress(f"{kafka} can break {', '.join(self._broken[kafka]) or 'no promise'}")
        return self._broken[kafka]

    def reachable(self, kafka: str) -> ReachableSituations:
        """Return the situations that a release's model can reach; the first call searches."""
        if kafka not in self._searched:
            self.progress(f"searching the situations of {kafka}")
            self._searched[kafka] = reachable_situations(
                ModelSettings(kafka=kafka, scope=SCOPE),
                limits=_limits(),
                jobs=1,
                watch=lambda _: None,
            )
            self._passed[kafka] = dict(_passed(self._searched[kafka]))
            self.progress(f"{len(self._searched[kafka].depths)} situations of {kafka} found")
        return self._searched[kafka]

    def runs(
        self, kafka: str, seen: Collection[str], *, driver: str, seed: int
    ) -> Iterator[PlannedRun]:
        """Yield a run for each promise and each situation whose path brokers can follow.

        Args:
            seen: names of the promises and situations that need no run.
            seed: the seed of the first run; each later run has the next number.
        """
        for schedule, path in self._schedules(kafka, seen):
            self.paths.mkdir(parents=True, exist_ok=True)
            (self.paths / f"{path.invariant}-{kafka}.json").write_bytes(path.to_json())
            yield PlannedRun(
                plan=plan(schedule, kafka, seed=seed, driver=driver),
                label=f"{kafka} {path.invariant}",
                files={"schedule.json": schedule.to_json()},
            )
            seed += 1

    def _schedules(
        self, kafka: str, seen: Collection[str]
    ) -> Iterator[tuple[Schedule, Counterexample]]:
        """Yield schedules for all paths that brokers can follow.

        Brokers cannot follow a path with a round whose result depends on the order in which its
        brokers run: the model has only the order of their numbers.
        """
        for name, path in self.breaches(kafka).items():
            if name not in seen:
                yield compile_for(path, kafka), path
        depths, passed = self.reachable(kafka).depths, self._passed[kafka]
        visited = {number for number in depths if name_of(number) in seen}
        aims = passed.keys() - visited
        while aims:
            aim = max(aims, key=lambda number: (len(passed[number] - visited), -depths[number]))
            aims -= {aim}
            try:
                path = self.reachable(kafka).counterexample(aim)
                schedule = compile_for(path, kafka, visited)
            except HighwaterError:
                continue
            visited |= passed[aim]
            aims -= visited
            yield schedule, path


def _followed(path: Counterexample, kafka: str) -> bool:
    try:
        compile_for(path, kafka)
    except HighwaterError:
        return False
    return True


def _limits() -> Limits:
    return Limits(memory=half_of_free_memory(), seconds=_SECONDS)


def _passed(reachable: ReachableSituations) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield each situation with those on its path, unless the order of brokers decides the path."""
    for number in reachable.depths:
        with contextlib.suppress(HighwaterError):
            yield number, reachable.passed(number)
