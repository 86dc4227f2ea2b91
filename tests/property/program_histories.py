"""Draws histories of programs whose every outcome is known, because it was decided first.

Each input has a fate; its outputs follow from that, and are put into partitions and an order. Some
are late, and so behind those of later inputs; some inputs are there twice; some outputs name an
input that nobody sent.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from highwater.checkers.programs.outcomes import DOUBLED, EXEMPT, HALF, LOST, ONCE, UNREACHED

INPUTS_MOST: Final = 12
STRANGE: Final = "never-sent"


@dataclass(slots=True)
class Input:
    """One name, where its copies are, and what becomes of it."""

    name: str
    partition: int
    offsets: list[int]
    fate: str = ONCE
    outputs: int = 0


@dataclass(slots=True)
class ProgramHistory:
    """A program's inputs and outputs, and what is right to say of them.

    Attributes:
        needed: outputs of each input.
        positions: the group's in the end.
        complete: whether all outputs were read.
        outputs: rows with ``input``, ``partition``, ``offset`` and ``timestamp_ms``.
    """

    needed: int
    partitions: int
    complete: bool
    inputs: list[Input] = field(default_factory=list)
    positions: dict[int, int | None] = field(default_factory=dict)
    outputs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def exempt(self) -> list[str]:
        return [each.name for each in self.inputs if each.fate == EXEMPT]

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """Inputs in columns of ``outcomes.INPUT``."""
        for each in self.inputs:
            for offset in each.offsets:
                yield {"partition": each.partition, "offset": offset, "value": each.name}

    @property
    def expected(self) -> dict[str, str]:
        """The outcome of each input by its name."""
        unknown = () if self.complete else (LOST, HALF)
        return {each.name: UNREACHED if each.fate in unknown else each.fate for each in self.inputs}

    @property
    def overtaken(self) -> set[str]:
        """Inputs that a later one has overtaken: all pairs are compared."""
        first: dict[str, dict[str, Any]] = {}
        for row in sorted(self.outputs, key=_when):
            first.setdefault(row["input"], row)
        single = [
            (each, first[each.name])
            for each in self.inputs
            if len(each.offsets) == 1 and each.fate != EXEMPT and each.name in first
        ]
        return {
            one.name
            for one, its in single
            for other, others in single
            if one.partition == other.partition and one.offsets < other.offsets
            if its["partition"] == others["partition"] and its["offset"] > others["offset"]
        }

    @property
    def strange(self) -> int:
        return sum(STRANGE in str(row["input"]) for row in self.outputs)


def _when(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["timestamp_ms"], row["partition"], row["offset"]


def drawn(seed: int) -> ProgramHistory:
    """Return the history of a seed."""
    rng = random.Random(seed)  # noqa: S311 - to be repeatable, not secret
    made = ProgramHistory(
        needed=rng.choice((1, 1, 2, 3)), partitions=rng.randint(1, 3), complete=rng.random() < 0.9
    )
    exempts, late = rng.choice((0.0, 0.2)), rng.choice((0.0, 0.0, 0.3))
    written: list[tuple[int, int, str | None]] = []
    for partition in range(made.partitions):
        _fill(made, partition, rng, exempts)
        now = 0
        for each in (each for each in made.inputs if each.partition == partition):
            now += rng.randint(0, 3)
            delay = rng.randint(1, 20) if rng.random() < late else 0
            written += _written(made, each, now + delay, rng)
    for _ in range(rng.choice((0, 0, 1, 2))):
        name = rng.choice((None, f"{STRANGE}-{rng.randint(0, 3)}"))
        written.append((rng.randint(0, 30), rng.randrange(made.partitions), name))
    ends = dict.fromkeys(range(made.partitions), 0)
    for time_ms, out, name in sorted(written, key=lambda one: one[0]):
        row = {"input": name, "partition": out, "offset": ends[out], "timestamp_ms": time_ms}
        made.outputs.append(row)
        ends[out] += 1
    return made


def _fill(made: ProgramHistory, partition: int, rng: random.Random, exempts: float) -> None:
    """Draw a partition's inputs, the group's position in it, and what becomes of each input."""
    end = 0
    here: list[Input] = []
    for _ in range(rng.randint(0, INPUTS_MOST)):
        if here and rng.random() < 0.1:
            here[-1].offsets.append(end)
        else:
            here.append(Input(f"p{partition}-{len(here)}", partition, [end]))
        end += 1
    position = None if rng.random() < 0.1 else rng.randint(0, end)
    made.positions[partition] = position
    for each in here:
        passed = each.offsets[-1] < (position or 0)
        fates = [ONCE, ONCE, DOUBLED, *([LOST] if passed else [UNREACHED])]
        fates += [HALF] if passed and made.needed > 1 else []
        each.fate = EXEMPT if rng.random() < exempts else rng.choice(fates)
        whole = made.needed * len(each.offsets)
        least, most = {
            ONCE: (made.needed, whole),
            DOUBLED: (whole + 1, whole + 2),
            LOST: (0, 0),
            HALF: (1, made.needed - 1),
            UNREACHED: (0, made.needed - 1),
            EXEMPT: (0, 2),
        }[each.fate]
        each.outputs = rng.randint(least, most)
    made.inputs += here


def _written(
    made: ProgramHistory, each: Input, time_ms: int, rng: random.Random
) -> Iterator[tuple[int, int, str | None]]:
    """Yield time, partition and name of each output of an input: at once, or again later."""
    for _ in range(each.outputs):
        yield time_ms, rng.randrange(made.partitions), each.name
        time_ms += rng.choice((0, 0, 25))
