"""A matrix: a run for each combination of some settings. Its axes, cells and results.

<store>/<matrix>/
  matrix.json                 axes, cells, skipped combinations; written before the first run
  runs/                       a store with one run for each cell, named after the cell
  cells.json  cells.parquet   a row for each cell, when all cells are judged
  index.html                  the rows as a page for a person
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias, TypeVar, get_args

import msgspec

from highwater.harness.base.errors import NotThereError, StoreError, UsageError
from highwater.harness.base.files import is_file, write_whole
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.availability import Availability
from highwater.harness.runs.plan import SCHEMA_VERSION, Acks, Plan, Workload
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import Verdict, in_words

MATRIX: Final = "matrix.json"
Delivery: TypeAlias = Literal["plain", "idempotent", "transactional"]
PLAIN: Final = "plain"
DELIVERIES: Final[tuple[Delivery, ...]] = get_args(Delivery)
"""The producers' kinds of delivery: with acks only, idempotent, or in transactions."""

_T = TypeVar("_T")


def delivery_of(workload: Workload) -> Delivery:
    """Return a workload's kind of delivery."""
    if workload.transactions:
        return "transactional"
    return "idempotent" if workload.idempotence else PLAIN


class MatrixSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cell: one value for every axis of the matrix.

    Attributes:
        story: name of a story (scripted scenario), or None.
        nemesis: faults of a random schedule, separated by commas; empty for no faults. None with a
            story.
        client: library of the producers, as in a plan.
        delivery: the producers' kind of delivery.
        group_protocol: protocol of an additional group of readers (``classic``, ``consumer``);
            empty without such a group.
        share: number of members of an additional share group (KIP-932).
    """

    kafka: str
    driver: str
    story: str | None
    nemesis: str | None
    acks: Acks
    min_isr: int
    unclean: bool
    seed: int
    client: str = LIBRDKAFKA
    reader_client: str = LIBRDKAFKA
    delivery: Delivery = PLAIN
    group_protocol: str = ""
    share: int = 0

    @property
    def happened(self) -> str:
        """The story's name, or the faults of the random schedule, or ``no faults``."""
        return self.story or self.nemesis or "no faults"

    @property
    def machinery(self) -> tuple[str, ...]:
        """The cluster driver, the client library, the delivery and the groups, as text."""
        return self.driver, self.client, self.delivery, *self._groups()

    @property
    def clients(self) -> tuple[str, ...]:
        """The delivery, the readers and the groups as text, if they differ from the defaults."""
        delivery = () if self.delivery == PLAIN else (self.delivery,)
        return *delivery, *self._groups()

    def _groups(self) -> tuple[str, ...]:
        other = self.reader_client != LIBRDKAFKA
        readers = (f"readers of {self.reader_client}",) if other else ()
        group = (f"{self.group_protocol} group",) if self.group_protocol else ()
        share = (f"share group of {self.share}",) if self.share else ()
        return *readers, *group, *share

    @property
    def line(self) -> tuple[str, Acks, int, bool, tuple[str, ...]]:
        """A row of the matrix page: all values of the setting except release and seed."""
        return self.happened, self.acks, self.min_isr, self.unclean, self.machinery

    @classmethod
    def fields_of(cls, plan: Plan) -> dict[str, object]:
        """Return setting name -> value in a plan, for each setting of a matrix."""
        return {
            "kafka": plan.kafka,
            "driver": plan.driver,
            "story": plan.story,
            "nemesis": None if plan.story else ",".join(plan.nemesis),
            "acks": plan.workload.acks,
            "min_isr": plan.topic.min_insync_replicas,
            "unclean": plan.topic.unclean_leader_election,
            "seed": plan.seed,
            "client": plan.client,
            "reader_client": plan.reader_client,
            "delivery": delivery_of(plan.workload),
            "group_protocol": plan.workload.group_protocol if plan.workload.subscribe else "",
            "share": 0 if plan.story else plan.workload.share,  # a story sets its own
        }


class SkippedCombination(MatrixSetting, frozen=True, kw_only=True):
    """A combination of settings that cannot be run, and the reason."""

    reason: str


class MatrixCell(MatrixSetting, frozen=True, kw_only=True):
    """A combination of settings that is run. ``run`` is the name of its run's directory."""

    run: str


_COUNTED: Final = frozenset({"lost-write", "unseen", "divergence"})
"""Kinds of anomalies that have their own column."""


class MatrixRow(MatrixCell, frozen=True, kw_only=True):
    """The result of a cell.

    Attributes:
        unseen: number of acknowledged records whose offsets the final read may not have reached.
        divergent: number of offsets at which replicas hold different records.
        as_predicted: whether the run ended as the release's rules predict; None without a
            prediction.
        model: the verdict of the reference model: ``as-predicted``, ``explained``, ``unexplained``,
            ``not-reproduced`` or ``unknown``. None if the model did not judge the run.
        report: path of the run's page, relative to the folder of the page that lists the run.
        problem: reason why the harness ended the run early; None if the run was completed.
        counted: whether the checkers could count losses. If False, the numbers of records are not
            valid.
        others: numbers of other anomalies, by kind: ``2 duplicate, 1 G1a``.
        unacknowledged_s: the longest time without an acknowledgement (see
            ``harness.runs.availability``); None if it was not measured.
        leaderless_s: the longest outage without a leader.
        unsynced_s: the longest outage with too few in-sync replicas.
    """

    verdict: Literal["valid", "invalid", "unknown"]
    sent: int
    acknowledged: int
    lost: int
    unseen: int
    divergent: int
    as_predicted: bool | None
    report: str
    seconds: float
    problem: str | None
    model: str | None = None
    counted: bool = True
    others: str = ""
    unacknowledged_s: float | None = None
    leaderless_s: float | None = None
    unsynced_s: float | None = None

    @property
    def word(self) -> str:
        """The verdict, in the words of the run's page."""
        return in_words(self.verdict, self.lost if self.counted else 0)

    @property
    def losses(self) -> str:
        """Lost and acknowledged records, ``1 / 4``; a dash if losses cannot be counted."""
        return f"{self.lost:,} / {self.acknowledged:,}" if self.counted else "-"

    @classmethod
    def of(
        cls,
        run: Run,
        verdict: Verdict,
        *,
        as_predicted: bool | None,
        home: Path,
        model: str | None = None,
    ) -> Self:
        """Return the row of a judged run; ``home`` is the folder of the page that lists the run."""
        status, ledger = run.status(), verdict.ledger
        early = None if status.phase == "frozen" else f"harness failed while {status.phase}"
        return cls(
            **cls.fields_of(run.plan()),  # type: ignore[arg-type]
            run=run.name,
            verdict=verdict.verdict,
            sent=ledger.sent,
            acknowledged=ledger.acknowledged,
            lost=ledger.lost,
            unseen=ledger.unseen,
            divergent=verdict.counts.get("divergence", 0),
            as_predicted=as_predicted,
            report=os.path.relpath(run.report.resolve(), home.resolve()).replace(os.sep, "/"),
            seconds=status.seconds,
            problem=early and ": ".join([early, *status.problems[-1:]]),
            model=model,
            counted=verdict.account == "whole",
            others=", ".join(
                f"{many:,} {kind}"
                for kind, many in verdict.counts.items()
                if many and kind not in _COUNTED
            ),
            **(verdict.availability or Availability()).lengths_s,  # type: ignore[arg-type]
        )


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """The axes of a matrix. Every combination of values that can be run is a cell.

    Attributes:
        nemeses: sets of faults for random schedules. A cell has one set or one story.
        deliveries: the producers' kinds of delivery. If empty, the story decides the delivery;
            without a story, the delivery is ``plain``.
        group_protocols: protocols of a group of readers. Not for stories.
        shares: numbers of members of a share group. Not for stories.
    """

    kafkas: tuple[str, ...]
    stories: tuple[str, ...] = ()
    nemeses: tuple[tuple[str, ...], ...] = ()
    acks: tuple[Acks, ...] = ("all",)
    min_isrs: tuple[int, ...] = (1,)
    uncleans: tuple[bool, ...] = (False,)
    drivers: tuple[str, ...] = ("local",)
    seeds: tuple[int, ...] = (0,)
    clients: tuple[str, ...] = (LIBRDKAFKA,)
    reader_clients: tuple[str, ...] = (LIBRDKAFKA,)
    deliveries: tuple[Delivery, ...] = ()
    group_protocols: tuple[str, ...] = ("",)
    shares: tuple[int, ...] = (0,)
    duration_s: float = 30.0


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """A planned or completed matrix, as in ``matrix.json``.

    Attributes:
        seconds: wall time spent on the cells so far, in all calls of ``highwater matrix``.
    """

    axes: Axes
    cells: tuple[MatrixCell, ...]
    skipped: tuple[SkippedCombination, ...]
    seconds: float = 0.0
    schema: int = SCHEMA_VERSION


class MatrixFolder:
    """A matrix's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, name: str | Path, root: Path) -> Self:
        """Return the matrix at this path, or with this name below ``root``."""
        if folder := cls._at(name, root):
            return folder
        raise NotThereError(
            f"{name} is not the directory of a matrix", hint="Name a directory with a matrix.json."
        )

    @classmethod
    def named(cls, names: Sequence[str], store: Path) -> Self | None:
        """Return the matrix with the name ``names[0]``; None if there is no such matrix."""
        folder = cls._at(names[0], store)
        if folder and len(names) > 1:
            raise UsageError(f"{names[0]} is a matrix", hint="Name only this matrix, or only runs.")
        return folder

    @classmethod
    def _at(cls, name: str | Path, root: Path) -> Self | None:
        folders = (cls(path) for path in (Path(name), root / name))
        return next((folder for folder in folders if folder.exists()), None)

    def exists(self) -> bool:
        """Return whether this is a matrix's directory."""
        return is_file(self.path / MATRIX)

    @property
    def store(self) -> Store:
        """The store with the matrix's runs."""
        return Store(self.path / "runs")

    @property
    def page(self) -> Path:
        """The page that shows all cells."""
        return self.path / "index.html"

    def earlier(self) -> Iterator[tuple[str, list[MatrixRow]]]:
        """Yield name and rows of each judged matrix beside this matrix, latest first.

        The names give the order: a matrix without ``--name`` is named after its start time.
        """
        here = self.path.resolve()
        beside = [path.parent for path in here.parent.glob("*/cells.json")]
        before = [folder for folder in beside if _place(folder) < _place(here)]
        for path in sorted(before, key=_place, reverse=True):
            with contextlib.suppress(StoreError):  # the file has a later schema, or is truncated
                yield path.name, MatrixFolder(path).rows()

    def matrix(self) -> Matrix:
        """Return the matrix from ``matrix.json``."""
        matrix = _decode(self.path / MATRIX, Matrix)
        if matrix.schema != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path / MATRIX} has schema {matrix.schema}, not {SCHEMA_VERSION}",
                hint="Read the matrix with the Highwater release that wrote it.",
            )
        return matrix

    def rows(self) -> list[MatrixRow]:
        """Return the results of the cells."""
        return _decode(self.path / "cells.json", list[MatrixRow])

    def run_of(self, cell: MatrixCell) -> Run | None:
        """Return a cell's run, complete or not; None if the cell has no run yet."""
        run = Run(self.store.root / cell.run)
        return run if is_file(run.path / "plan.json") else None

    def runs(self) -> list[Run]:
        """Return all existing runs, in the order of the cells."""
        return [run for cell in self.matrix().cells if (run := self.run_of(cell))]

    def write(self, matrix: Matrix) -> None:
        """Write ``matrix.json``."""
        try:
            write_whole(self.path / MATRIX, msgspec.json.format(msgspec.json.encode(matrix)))
        except OSError as error:
            raise StoreError(
                f"the matrix {self.path} cannot be written: {error.strerror}",
                hint="Choose another folder with --store.",
            ) from error

    def write_rows(self, rows: Sequence[MatrixRow]) -> None:
        """Write ``cells.json`` and ``cells.parquet``."""
        from highwater.harness.campaigns.matrix_table import (  # noqa: PLC0415 - see Run.table
            write_parquet,
        )

        write_whole(self.path / "cells.json", msgspec.json.format(msgspec.json.encode(rows)))
        write_parquet(msgspec.to_builtins(rows), self.path / "cells.parquet")


def _place(folder: Path) -> list[str | int]:
    """Return a sort key for directories: ``part-10`` -> ``["part-", 10, ""]``."""
    parts = re.split(r"(\d+)", folder.name)
    return [int(part) if part.isdecimal() else part for part in parts]


def _decode(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError as error:
        hint = "Continue the matrix: highwater matrix --resume MATRIX"
        raise StoreError(f"there is no {path}", hint=hint) from error
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
