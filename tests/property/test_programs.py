"""Programs whose inputs' outcomes are known: each is found exactly, and with the right mistake.

A program takes batches of a partition, writes outputs, and commits positions: the right one after
its outputs, the other one before them. Kills come at any step, and the run may end before the
program has come to the end. ``HIGHWATER_HISTORIES`` and ``HIGHWATER_SEED`` are as everywhere.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pytest

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.evidence import InputEvidence
from highwater.checkers.programs.facts import InstanceEvent, Output, Position
from highwater.checkers.programs.mistakes import mistake_of
from highwater.checkers.programs.outcomes import (
    DOUBLED,
    INPUT,
    LOST,
    ONCE,
    UNREACHED,
    input_outcomes,
)
from tests.support.seeds import FIRST, HISTORIES

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

S: Final = 1_000_000_000
FIRST_COMMITS: Final = "position committed before the output was acknowledged"
LAST_COMMITS: Final = "position not committed when an instance ended"


@dataclass(slots=True)
class Bench:
    """A program at work on one partition, and what became of its inputs."""

    rng: random.Random
    commits_first: bool
    inputs: int
    now: int = 0
    position: int = 0
    outputs: list[tuple[int, int]] = field(default_factory=list)
    commits: list[Position] = field(default_factory=list)
    disks: bool = True
    events: list[InstanceEvent] = field(default_factory=list)
    dropped: set[int] = field(default_factory=set)
    redone: set[int] = field(default_factory=set)

    def tick(self) -> bool:
        """Let time pass; return whether the instance is killed now."""
        self.now += self.rng.randint(1, 20) * S // 100
        return self.rng.random() < 0.08

    def event(self, name: str) -> None:
        self.tick()
        self.events.append(InstanceEvent(self.now, 0, 1, name, None))

    def commit(self, offset: int) -> None:
        self.position = offset
        self.commits.append(Position(self.now, offset, transactional=False))

    def run(self, steps: int) -> None:
        self.event("started")
        for _ in range(steps):
            if self.position == self.inputs:
                break
            if not self.batch():
                self.event("killed")
                self.event("started")
        self.event("closed")

    def batch(self) -> bool:
        """Process a batch; return whether it came to its end."""
        first = self.position
        end = min(self.inputs, first + self.rng.randint(1, 6))
        if self.commits_first:
            self.commit(end)
        for offset in range(first, end):
            if self.tick():
                if self.commits_first:
                    self.dropped |= {*range(offset, end)}
                return False
            if any(offset == before for _, before in self.outputs):
                self.redone.add(offset)
            self.outputs.append((self.now, offset))
        if self.tick():
            return False
        if not self.commits_first:
            self.commit(end)
        return True

    @property
    def expected(self) -> dict[int, str]:
        written = {offset for _, offset in self.outputs}
        return {
            offset: LOST
            if offset in self.dropped
            else DOUBLED
            if offset in self.redone
            else ONCE
            if offset in written
            else UNREACHED
            for offset in range(self.inputs)
        }

    def judged(self) -> dict[int, str]:
        rows = [{"partition": 0, "offset": n, "value": f"p0-{n}"} for n in range(self.inputs)]
        written = pa.table({"input": pa.array([f"p0-{n}" for _, n in self.outputs], pa.string())})
        inputs = pa.Table.from_pylist(rows, schema=INPUT)
        table = input_outcomes(inputs, written, {0: self.position or None}, complete=True)
        return dict(zip(table["offset"].to_pylist(), table["outcome"].to_pylist(), strict=True))

    def evidence(self, offset: int, outcome: str) -> InputEvidence:
        later = min((at for at, other in self.outputs if other > offset), default=FOREVER)
        return InputEvidence(
            name=f"p0-{offset}",
            offset=offset,
            outcome=outcome,
            guarantee="at-least-once",
            outputs=[Output(at, 0, 0) for at, other in self.outputs if other == offset],
            later_ns=later,
            commits=self.commits if self.disks else None,
            events=self.events,
        )


def bench(seed: int) -> Bench:
    rng = random.Random(seed)  # noqa: S311 - to be repeatable, not secret
    made = Bench(rng, commits_first=rng.random() < 0.5, inputs=rng.randint(0, 40))
    made.run(rng.randint(1, 60))
    return made


def test_every_outcome_is_found_exactly_and_with_its_mistake() -> None:
    seen: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + HISTORIES):
        program = bench(seed)
        assert program.judged() == program.expected, seed
        for offset, outcome in program.expected.items():
            seen[outcome] += 1
            if outcome not in {LOST, DOUBLED}:
                continue
            mistake = mistake_of(program.evidence(offset, outcome))
            assert mistake is not None, (seed, offset)
            assert mistake[0].name == {LOST: FIRST_COMMITS, DOUBLED: LAST_COMMITS}[outcome], seed
    assert min(seen[outcome] for outcome in (ONCE, LOST, DOUBLED, UNREACHED)) > 20


def test_without_positions_on_disk_nothing_is_told_of_who_did_it() -> None:
    for seed in range(FIRST, FIRST + HISTORIES):
        program = bench(seed)
        program.disks = False
        for offset, outcome in program.expected.items():
            if outcome in {LOST, DOUBLED}:
                assert mistake_of(program.evidence(offset, outcome)) is None, (seed, offset)
