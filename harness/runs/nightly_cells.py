"""The values of a night: cells, the planned night, and the result of each cell.

A *cell* is one run. Its *key* is everything but the seed, and comes back night after night; the
seed is another each night. A *mark* is a cell's line in ``trend.jsonl``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.matrix_cells import Delivery, MatrixSetting
from highwater.harness.runs.plan import Acks

SCHEMA: Final = 1
"""Of ``night.json`` and of the lines of ``trend.jsonl``."""

NEMESIS_S: Final = 30
"""Seconds for which a random schedule of the nightly goes on."""

State = Literal["good", "unknown", "missing", "bad"]
STATES: Final[tuple[State, ...]] = ("good", "unknown", "missing", "bad")
"""From best to worst. ``missing`` was planned and left no result."""

Why = Literal["failed", "canary", "baseline", "drawn"]


_DELIVERY_OPTIONS: Final[Mapping[Delivery, list[str]]] = {
    "plain": [],
    "idempotent": ["--idempotence"],
    "transactional": ["--transactions"],
}


class NightlyCell(MatrixSetting, frozen=True, kw_only=True):
    """A value of every axis, at its default where none is named."""

    driver: str = "local"
    story: str | None = None
    nemesis: str | None = None
    acks: Acks = "all"
    min_isr: int = 1
    unclean: bool = False
    seed: int = 0

    @property
    def under(self) -> str:
        """Under which promise, for a person."""
        unclean = ", unclean elections" if self.unclean else ""
        client = "" if self.client == LIBRDKAFKA else f", client {self.client}"
        others = "".join(f", {words}" for words in self.clients)
        return f"acks={self.acks}, min.isr {self.min_isr}{unclean}{client}{others}"

    @property
    def key(self) -> str:
        """Everything but the seed, as one line."""
        return f"{self.kafka} {self.driver}: {self.happened}, {self.under}"

    @property
    def identity(self) -> tuple[str, int]:
        """The key that no two cells of a night share."""
        return self.key, self.seed

    def command(self) -> str:
        """Return the command that runs it by itself."""
        words = ["highwater run", f"--kafka {self.kafka}"]
        if self.driver != "local":
            words.append(f"--cluster {self.driver}")
        words += [f"--acks {self.acks}", f"--min-isr {self.min_isr}"]
        words += ["--unclean"] if self.unclean else []
        words += [f"--client {self.client}"] if self.client != LIBRDKAFKA else []
        readers = self.reader_client
        words += [f"--reader-client {readers}"] if readers != LIBRDKAFKA else []
        words += _DELIVERY_OPTIONS[self.delivery]
        words += [f"--group-protocol {self.group_protocol}"] if self.group_protocol else []
        words += [f"--share {self.share}"] if self.share else []
        random = f"--nemesis {self.nemesis or 'none'} --for {NEMESIS_S}s"
        words += [f"--story {self.story}" if self.story else random, f"--seed {self.seed}"]
        return " ".join(words)


def fields(cell: MatrixSetting) -> dict[str, Any]:
    """Return the value on every axis, of whatever it is a part."""
    return {name: getattr(cell, name) for name in MatrixSetting.__struct_fields__}


class PlannedCell(NightlyCell, frozen=True, kw_only=True):
    """A cell of a night to come.

    Attributes:
        why: it failed when it last ran; it must lose; each release has it; or it was drawn.
        seconds: how long it may take.
    """

    why: Why
    seconds: float


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one machine in a night: pieces in order, each a matrix of its own."""

    name: str
    seconds: float
    pieces: tuple[tuple[PlannedCell, ...], ...]

    @property
    def cells(self) -> list[PlannedCell]:
        """All cells, piece after piece."""
        return [cell for piece in self.pieces for cell in piece]


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """A whole night's plan, saved as ``night.json``. ``night`` is its date, as 2026-11-21."""

    night: str
    jobs: tuple[Job, ...]
    schema: int = SCHEMA

    @property
    def cells(self) -> list[PlannedCell]:
        """All cells, job after job."""
        return [cell for job in self.jobs for cell in job.cells]


class CellResult(NightlyCell, frozen=True, kw_only=True):
    """The result of a cell in a night.

    Attributes:
        state: ``good`` is as the model predicts, be that a loss.
        lost, acknowledged, divergent: counts of records; 0 where nothing was judged.
        counted: whether what was lost could be counted; where not, the counts mean nothing.
    """

    night: str
    state: State
    why: str = ""
    canary: str | None = None
    verdict: str | None = None
    lost: int = 0
    acknowledged: int = 0
    divergent: int = 0
    counted: bool = True
    seconds: float | None = None
    schema: int = SCHEMA

    @property
    def losses(self) -> str:
        """``1 / 4``: records lost, of all acknowledged; a dash where they could not be counted."""
        return f"{self.lost:,} / {self.acknowledged:,}" if self.counted else "-"

    @property
    def troubled(self) -> bool:
        """True if a person should look."""
        return self.state != "good"


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """A setting under which records must be lost, or the harness sees nothing."""

    name: str
    kafka: str
    story: str
    acks: Acks
    unclean: bool = False

    def claims(self, cell: NightlyCell) -> bool:
        """Return whether a cell is one of this canary's, on any driver."""
        setting = (self.kafka, self.story, self.acks, self.unclean)
        return setting == (cell.kafka, cell.story, cell.acks, cell.unclean)


def canaries(newest: str) -> tuple[Canary, ...]:
    """Return every night's canaries: losses of old Kafka, and losses that any Kafka is allowed."""
    return (
        Canary(name="old-kafka", kafka="0.10.2.2", story="loss", acks="all"),
        Canary(name="leader-kill", kafka=newest, story="leader-kill", acks="1"),
        Canary(name="unclean-election", kafka=newest, story="unclean", acks="all", unclean=True),
    )


def worst(marks: Iterable[CellResult]) -> CellResult:
    """Return the mark in the worst state; the first of several. There must be one."""
    return max(marks, key=lambda mark: STATES.index(mark.state))
