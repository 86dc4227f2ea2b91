"""A matrix as values: what is run against what, and what came of each cell.

<store>/<matrix>/
  matrix.json                 axes, cells and what was skipped; written before anything runs
  runs/                       a store with one run a cell, named after it
  cells.json  cells.parquet   a row a cell, when all are judged
  index.html                  the same for a person
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias, TypeVar, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.harness.base.errors import NotThereError, StoreError, UsageError
from highwater.harness.base.files import is_file, write_whole
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.plan import SCHEMA_VERSION, Acks, Plan, Workload
from highwater.harness.runs.store import Run, Store
from highwater.harness.runs.verdict import Verdict, in_words

MATRIX: Final = "matrix.json"
Delivery: TypeAlias = Literal["plain", "idempotent", "transactional"]
PLAIN: Final = "plain"
DELIVERIES: Final[tuple[Delivery, ...]] = get_args(Delivery)
"""How producers deliver: with the promises of acks alone, idempotently, or in transactions."""

_T = TypeVar("_T")


def delivery_of(workload: Workload) -> Delivery:
    """Return how the producers of a workload deliver."""
    if workload.transactions:
        return "transactional"
    return "idempotent" if workload.idempotence else PLAIN


class MatrixSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One value of every axis.

    Attributes:
        story: name of a scripted schedule, or None.
        nemesis: faults of a random schedule, separated by commas, or None with a story; empty when
            nothing is to happen.
        client: library of the producers, as a plan has it.
        reader_client: library of the readers.
        delivery: how they deliver.
        group_protocol: of a group of readers beside them (``classic``, ``consumer``); empty where
            there is none.
        share: members of a share group (KIP-932) beside them.
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
        """The story, or the faults."""
        return self.story or self.nemesis or "no faults"

    @property
    def machinery(self) -> tuple[str, ...]:
        """The driver and the clients, in words."""
        return self.driver, self.client, self.delivery, *self._groups()

    @property
    def clients(self) -> tuple[str, ...]:
        """The delivery, readers and groups of its clients, in words, where they are not plain."""
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
        """All but release and seed: a row of the matrix page."""
        return self.happened, self.acks, self.min_isr, self.unclean, self.machinery

    @classmethod
    def fields_of(cls, plan: Plan) -> dict[str, object]:
        """Return a plan's value on every axis."""
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
            "share": plan.workload.share,
        }


class SkippedCombination(MatrixSetting, frozen=True, kw_only=True):
    """A combination that cannot be run, and why."""

    reason: str


class MatrixCell(MatrixSetting, frozen=True, kw_only=True):
    """A combination that is run; ``run`` is the name of its run's directory."""

    run: str


_COUNTED: Final = frozenset({"lost-write", "unseen", "divergence"})
"""Kinds of anomalies that have a column of their own."""


class MatrixRow(MatrixCell, frozen=True, kw_only=True):
    """The result of a cell.

    Attributes:
        unseen: acknowledged records that no reader came far enough to look for.
        divergent: offsets at which replicas hold different records.
        as_predicted: whether it ended as the release's rules say; None when they say nothing.
        model: its word: ``as-predicted``, ``explained``, ``unexplained``, ``not-reproduced``
            or ``unknown``; None when it was not asked.
        report: path of its page, from the folder of the page that lists it.
        problem: what the harness could not do, so that the run ended early; None when it did not.
        counted: whether what was lost could be counted; where not, these numbers mean nothing.
        others: how many anomalies there are of each other kind: ``2 duplicate, 1 G1a``.
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

    @property
    def word(self) -> str:
        """The verdict for a person, as a run's own page has it."""
        return in_words(self.verdict, self.lost if self.counted else 0)

    @property
    def losses(self) -> str:
        """``1 / 4``: records lost, of all acknowledged; a dash where they could not be counted."""
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
        """Return the row of a judged run; ``home`` is the folder of the page that lists it."""
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
        )


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """The axes of a matrix: every combination that can be run is a cell.

    Attributes:
        nemeses: mixes of faults, each a cell of its own beside the stories.
        deliveries: how producers deliver; none: as the story has it, or plainly.
        group_protocols: of a group of readers, which a story does not have.
        shares: members of a share group, which a story does not have.
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
    """A matrix that is to be run, or was, as ``matrix.json`` holds it.

    Attributes:
        seconds: wall time of all sittings so far in which cells were run.
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
        """Return the matrix at a path, or of that name below ``root``."""
        if folder := cls._at(name, root):
            return folder
        raise NotThereError(
            f"{name} is not the directory of a matrix", hint="It is one that holds matrix.json."
        )

    @classmethod
    def named(cls, names: Sequence[str], store: Path) -> Self | None:
        """Return the matrix that is named, if it is one; else the names are of runs."""
        folder = cls._at(names[0], store)
        if folder and len(names) > 1:
            raise UsageError(f"{names[0]} is a matrix", hint="Name it alone, or runs alone.")
        return folder

    @classmethod
    def _at(cls, name: str | Path, root: Path) -> Self | None:
        folders = (cls(path) for path in (Path(name), root / name))
        return next((folder for folder in folders if folder.exists()), None)

    def exists(self) -> bool:
        """Return whether it is the directory of a matrix."""
        return is_file(self.path / MATRIX)

    @property
    def store(self) -> Store:
        """Its runs."""
        return Store(self.path / "runs")

    @property
    def page(self) -> Path:
        """The page that shows them all."""
        return self.path / "index.html"

    def earlier(self) -> Iterator[tuple[str, list[MatrixRow]]]:
        """Yield the names and rows of the judged matrices beside it, the last one before it first.

        Without a name, a matrix bears the time at which it was begun as its name.
        """
        here = self.path.resolve()
        beside = [path.parent for path in here.parent.glob("*/cells.json")]
        before = [folder for folder in beside if _place(folder) < _place(here)]
        for path in sorted(before, key=_place, reverse=True):
            with contextlib.suppress(StoreError):  # a folder of a later schema, or cut short
                yield path.name, MatrixFolder(path).rows()

    def matrix(self) -> Matrix:
        """Return what was to be run."""
        matrix = _decode(self.path / MATRIX, Matrix)
        if matrix.schema != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path / MATRIX} has schema {matrix.schema}; this is schema {SCHEMA_VERSION}",
                hint="Read it with the Highwater that wrote it.",
            )
        return matrix

    def rows(self) -> list[MatrixRow]:
        """Return what came of the cells."""
        return _decode(self.path / "cells.json", list[MatrixRow])

    def run_of(self, cell: MatrixCell) -> Run | None:
        """Return the run of a cell, whole or not, if there is one."""
        run = Run(self.store.root / cell.run)
        return run if is_file(run.path / "plan.json") else None

    def runs(self) -> list[Run]:
        """Every run that there is, in the order of the cells."""
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
        write_whole(self.path / "cells.json", msgspec.json.format(msgspec.json.encode(rows)))
        table = pa.Table.from_pylist(msgspec.to_builtins(rows), schema=SCHEMA)
        partial = self.path / "cells.parquet.partial"
        pq.write_table(table, partial)
        partial.replace(self.path / "cells.parquet")


SCHEMA: Final = pa.schema(
    [
        pa.field("kafka", pa.string(), nullable=False),
        pa.field("driver", pa.string(), nullable=False),
        pa.field("story", pa.string()),
        pa.field("nemesis", pa.string()),
        pa.field("acks", pa.string(), nullable=False),
        pa.field("min_isr", pa.int32(), nullable=False),
        pa.field("unclean", pa.bool_(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("reader_client", pa.string(), nullable=False),
        pa.field("delivery", pa.string(), nullable=False),
        pa.field("group_protocol", pa.string(), nullable=False),
        pa.field("share", pa.int32(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("sent", pa.int64(), nullable=False),
        pa.field("acknowledged", pa.int64(), nullable=False),
        pa.field("lost", pa.int64(), nullable=False),
        pa.field("unseen", pa.int64(), nullable=False),
        pa.field("divergent", pa.int64(), nullable=False),
        pa.field("as_predicted", pa.bool_()),
        pa.field("report", pa.string(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("problem", pa.string()),
        pa.field("model", pa.string()),
        pa.field("counted", pa.bool_()),
        pa.field("others", pa.string()),
    ]
)
"""Columns of ``cells.parquet``; the fields of ``MatrixRow`` in their order."""


def _place(folder: Path) -> list[str | int]:
    """Return a sort key of a folder's name in which piece 2 of a night comes before piece 10."""
    parts = re.split(r"(\d+)", folder.name)
    return [int(part) if part.isdecimal() else part for part in parts]


def _decode(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError as error:
        hint = "Go on with it: highwater matrix --resume MATRIX"
        raise StoreError(f"there is no {path}", hint=hint) from error
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
