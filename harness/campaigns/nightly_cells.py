"""The values of a nightly run: its plan, its cells, and their results.

A *cell* is one run. Its *key* has all settings except the seed, which changes every night. A *mark*
is the result of a cell in one night: a line in ``trend.jsonl``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from highwater.harness.campaigns.matrix_cells import Delivery, MatrixSetting
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.plan import Acks

SCHEMA: Final = 1
"""Schema version of ``night.json`` and of the lines of ``trend.jsonl``."""

NEMESIS_S: Final = 30
"""Duration in seconds of the random schedules in nightly runs."""

State = Literal["good", "unknown", "missing", "bad"]
STATES: Final[tuple[State, ...]] = ("good", "unknown", "missing", "bad")
"""The states of a cell from best to worst. A ``missing`` cell was planned, but has no result."""

Why = Literal["failed", "canary", "baseline", "drawn"]


_DELIVERY_OPTIONS: Final[Mapping[Delivery, list[str]]] = {
    "plain": [],
    "idempotent": ["--idempotence"],
    "transactional": ["--transactions"],
}


class NightlyCell(MatrixSetting, frozen=True, kw_only=True):
    """One run of a nightly campaign. This class adds defaults to the settings of a matrix cell."""

    driver: str = "local"
    story: str | None = None
    nemesis: str | None = None
    acks: Acks = "all"
    min_isr: int = 1
    unclean: bool = False
    seed: int = 0

    @property
    def under(self) -> str:
        """The settings on which Kafka's guarantee depends: ``acks=all, min.isr 2, client java``."""
        unclean = ", unclean elections" if self.unclean else ""
        client = "" if self.client == LIBRDKAFKA else f", client {self.client}"
        others = "".join(f", {words}" for words in self.clients)
        return f"acks={self.acks}, min.isr {self.min_isr}{unclean}{client}{others}"

    @property
    def key(self) -> str:
        """All settings except the seed, in one line."""
        return f"{self.kafka} {self.driver}: {self.happened}, {self.under}"

    @property
    def identity(self) -> tuple[str, int]:
        """The key and the seed, which together identify a cell of a night."""
        return self.key, self.seed

    def command(self) -> str:
        """Return the command that runs this cell alone."""
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
    """Return setting name -> value of a cell, without the cell's other fields."""
    return {name: getattr(cell, name) for name in MatrixSetting.__struct_fields__}


class PlannedCell(NightlyCell, frozen=True, kw_only=True):
    """A cell planned for a night.

    Attributes:
        why: reason for the choice of the cell. ``failed``: its last result was bad. ``canary``: the
            run must lose records. ``baseline``: every release runs this cell. ``drawn``: the cell
            was chosen at random.
        seconds: the longest time that the cell may take.
    """

    why: Why
    seconds: float


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one machine in a night. ``pieces`` are separate matrices, in order."""

    name: str
    seconds: float
    pieces: tuple[tuple[PlannedCell, ...], ...]

    @property
    def cells(self) -> list[PlannedCell]:
        """All cells, in the order of the pieces."""
        return [cell for piece in self.pieces for cell in piece]


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """The complete plan of a night, saved as ``night.json``.

    ``night`` is a date such as 2026-11-21.
    """

    night: str
    jobs: tuple[Job, ...]
    schema: int = SCHEMA

    @property
    def cells(self) -> list[PlannedCell]:
        """All cells, in the order of the jobs."""
        return [cell for job in self.jobs for cell in job.cells]


class CellResult(NightlyCell, frozen=True, kw_only=True):
    """The result of a cell in a night.

    Attributes:
        state: ``good`` means that the run ended as the model predicts, even with a loss.
        lost, acknowledged, divergent: numbers of records; 0 if the run was not judged.
        counted: whether the checkers could count losses. If False, the numbers are not valid.
        unacknowledged_s, leaderless_s, unsynced_s: the longest outages, as in
            ``harness.campaigns.matrix_cells.MatrixRow``.
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
    unacknowledged_s: float | None = None
    leaderless_s: float | None = None
    unsynced_s: float | None = None
    schema: int = SCHEMA

    @property
    def losses(self) -> str:
        """Lost and acknowledged records, ``1 / 4``; a dash if losses cannot be counted."""
        return f"{self.lost:,} / {self.acknowledged:,}" if self.counted else "-"

    @property
    def troubled(self) -> bool:
        """True if the state is not ``good``, so that a maintainer should examine the cell."""
        return self.state != "good"


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """A setting with which Kafka must lose records. Without a loss, the harness is broken."""

    name: str
    kafka: str
    story: str
    acks: Acks
    unclean: bool = False

    def claims(self, cell: NightlyCell) -> bool:
        """Return whether a cell has this canary's settings, on any driver."""
        setting = (self.kafka, self.story, self.acks, self.unclean)
        return setting == (cell.kafka, cell.story, cell.acks, cell.unclean)


def canaries(newest: str) -> tuple[Canary, ...]:
    """Return the canaries of every night: one with an old release, the others with ``newest``."""
    return (
        Canary(name="old-kafka", kafka="0.10.2.2", story="loss", acks="all"),
        Canary(name="leader-kill", kafka=newest, story="leader-kill", acks="1"),
        Canary(name="unclean-election", kafka=newest, story="unclean", acks="all", unclean=True),
    )


def worst(marks: Iterable[CellResult]) -> CellResult:
    """Return the first result with the worst state. ``marks`` must not be empty."""
    return max(marks, key=lambda mark: STATES.index(mark.state))
