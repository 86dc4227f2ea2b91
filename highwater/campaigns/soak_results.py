"""The settings, the results and the folder of a soak.

<store>/<soak>/
  soak.json      seed, releases and driver, which determine every run
  rows/          a JSON file for each judged run
  runs/          a store with the runs that were kept
  paths/         with --steer: the model's path to each situation that a run should reach
  summary.md     a summary of all rows
  metrics.prom   the counts of all rows for Prometheus
"""

import shlex
from collections import Counter
from pathlib import Path
from typing import Final, Literal, Self

import msgspec

from highwater.api import JudgedRun
from highwater.campaigns.soak_plan import draw
from highwater.checkers.core.anomaly_kinds import DIVERGENCE, LOST, VANISHED
from highwater.checkers.coverage.model_coverage import observed_in
from highwater.checkers.model.report_types import Reconciliation
from highwater.checkers.model.search.kafka_model import PROMISES
from highwater.checkers.model.search.situations import name_of, situation_of
from highwater.harness.base.errors import HighwaterError, StoreError, UsageError
from highwater.harness.base.wording import exact
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.runtime.executed_steps import whole_steps

State = Literal["kept", "explained", "unexplained", "unknown", "failed"]
PATHS: Final = "paths"
"""The folder of a soak with the model's paths (steps) that its steered runs execute."""

STATES: Final[tuple[State, ...]] = ("kept", "explained", "unexplained", "unknown", "failed")
"""The states of a run. ``kept``: all guarantees hold. ``explained``: the release's rules explain
every broken guarantee. ``unexplained``: no rule explains a finding. ``unknown``: the run could not
be judged. ``failed``: the harness failed."""

TOLD_MOST: Final = 5
"""The greatest number of unexplained findings in a run's row; the run's report has all of them."""


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a soak; together with a run's number they determine the run.

    Attributes:
        controllers: the number of controllers in each cluster.
        client: library of the producers, as in ``--client``.
        reader_client: library of the readers, and of the members of groups.
        group_protocol: group protocol; if it is set, every run has a group. If it is empty, only
            some runs have a group, with the classic protocol.
        each_s: seconds of fault injection in every run; None: the seed determines the duration.
        steer: whether every second group of runs is steered: its runs break promises, or lead to
            situations (states of the model), as no run of the soak has done.
    """

    seed: int
    kafkas: tuple[str, ...]
    driver: str = "local"
    controllers: int = 1
    client: str = LIBRDKAFKA
    reader_client: str = LIBRDKAFKA
    group_protocol: str = ""
    each_s: float | None = None
    steer: bool = False

    def words(self) -> str:
        """Return the settings as text: ``seed 7, 3.9.2, 4.4.0, 3 controllers, runs of 30 s``."""
        length = "" if self.each_s is None else f", runs of {self.each_s:g} s"
        client = "" if self.client == LIBRDKAFKA else f", client {self.client}"
        readers = self.reader_client
        client += "" if readers == LIBRDKAFKA else f", readers of {readers}"
        client += f", {self.group_protocol} groups" if self.group_protocol else ""
        quorum = "" if self.controllers == 1 else f", {self.controllers} controllers"
        steered = ", steered" if self.steer else ""
        return f"seed {self.seed}, {', '.join(self.kafkas)}{quorum}{client}{length}{steered}"

    def plan(self, number: int) -> Plan:
        """Return the plan of a run."""
        plan = draw(
            self.seed,
            number,
            kafkas=self.kafkas,
            driver=self.driver,
            controllers=self.controllers,
            client=self.client,
            reader_client=self.reader_client,
            group_protocol=self.group_protocol,
        )
        if self.each_s is None:
            return plan
        return msgspec.structs.replace(plan, duration_s=self.each_s)

    def name(self, number: int) -> str:
        """Return the name of a run's directory."""
        return f"{number:06d}-{self.plan(number).kafka}"

    def command(self, number: int) -> str:
        """Return the command that repeats a run in a new soak."""
        kafkas = "all" if self.kafkas == tuple(CATALOGUE) else ",".join(self.kafkas)
        driver = "" if self.driver == "local" else f" --cluster {self.driver}"
        option = "" if self.controllers == 1 else f" --controllers {self.controllers}"
        option += "" if self.client == LIBRDKAFKA else f" --client {self.client}"
        readers = self.reader_client
        option += "" if readers == LIBRDKAFKA else f" --reader-client {readers}"
        option += f" --group-protocol {self.group_protocol}" if self.group_protocol else ""
        option += "" if self.each_s is None else f" --each {exact(self.each_s)}"
        return (
            f"highwater soak --seed {self.seed} --kafka {kafkas}{driver}{option} --first {number}"
            f" --runs 1 --keep-all --name again-{number}"
        )


class SoakRow(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run.

    Attributes:
        seconds: duration of the run, without starting clusters.
        struck: number of injections of each fault.
        counts: number of anomalies of each kind, without anomalies that follow from other
            anomalies.
        unexplained: a sentence for each finding that the model does not explain.
        counted: whether ``acknowledged`` and ``lost`` are valid.
        aim: the promise that a steered run should break, or the situation (state of the model) to
            which it should lead; or "".
        situations: names of the situations that the run reached.
    """

    number: int
    run: str
    kafka: str
    state: State
    command: str
    seconds: float
    acks: str
    sent: int
    acknowledged: int
    lost: int
    struck: dict[str, int]
    counts: dict[str, int]
    unexplained: tuple[str, ...]
    problems: tuple[str, ...]
    counted: bool = True
    aim: str = ""
    situations: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        """True if a run reached the situation, or lost or forked records, at which it aimed."""
        broken = not self.counts.keys().isdisjoint((LOST, VANISHED, DIVERGENCE))
        return self.aim in self.situations or (self.aim in PROMISES and broken)

    @classmethod
    def of(cls, soak: Soak, number: int, judged: JudgedRun) -> Self:
        """Return the row of a judged run."""
        plan, status, verdict = judged.run.plan(), judged.run.status(), judged.verdict
        failed = status.phase != "frozen"
        failure = (f"the harness failed while {status.phase}",) * failed
        state = _state(judged, failed=failed)  # a run that kept every promise is deleted
        aim = _aim(plan)
        command = soak.command(number)
        if aim:
            path = judged.run.path.parents[1] / PATHS / f"{aim}-{plan.kafka}.json"
            command = f"highwater model replay {shlex.quote(str(path))}"
        elif state != "kept":
            command = _again(soak, number, judged.run)
        return cls(
            number=number,
            run=judged.run.name,
            kafka=plan.kafka,
            state=state,
            command=command,
            seconds=round(status.seconds, 1),
            acks=plan.workload.acks,
            sent=verdict.ledger.sent,
            acknowledged=verdict.ledger.acknowledged,
            lost=verdict.ledger.lost,
            struck=_fault_counts(judged.run),
            counts={kind: count for kind, count in verdict.counts.items() if count},
            unexplained=_unexplained(judged.model) if judged.model else (),
            problems=(*status.problems, *failure),
            counted=verdict.account == "whole",
            aim=aim,
            situations=_situations(judged.run),
        )


class SoakFolder:
    """The directory of a soak."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = Store(path / "runs")
        self.clusters = path / "clusters"

    def begin(self, soak: Soak) -> None:
        """Create the soak's folder, or check that an existing folder has the same settings."""
        saved = self.path / "soak.json"
        try:
            self.runs.root.mkdir(parents=True, exist_ok=True)
            if not saved.exists():
                saved.write_bytes(msgspec.json.encode(soak))
                return
            saved_soak = msgspec.json.decode(saved.read_bytes(), type=Soak)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise StoreError(f"{saved} cannot be read as settings of a soak: {error}") from error
        if saved_soak != soak:
            raise UsageError(
                f"{self.path} belongs to a soak with other settings: {saved_soak.words()}",
                hint="Use the options with which that soak was started, or another --name.",
            )

    def rows(self) -> list[SoakRow]:
        """Return the rows so far, in order."""
        rows = []
        for path in sorted((self.path / "rows").glob("*.json")):
            try:
                rows.append(msgspec.json.decode(path.read_bytes(), type=SoakRow))
            except (OSError, msgspec.MsgspecError) as error:
                raise StoreError(
                    f"{path} cannot be read as a row of the soak: {error}", hint="Remove this file."
                ) from error
        return rows

    def write(self, row: SoakRow) -> None:
        """Write the row of a run."""
        text = msgspec.json.format(msgspec.json.encode(row), indent=2)
        Run(self.path).write(f"rows/{row.number:06d}.json", text)

    def unjudged(self) -> list[Run]:
        """Return the runs of earlier invocations that have no row, even incomplete runs."""
        done = {row.number for row in self.rows()}
        runs = (self.runs.open(name) for name in self.runs.names())
        return [run for run in runs if number_of(run) not in done]


def number_of(run: Run) -> int:
    """Return the number at the start of a run's name."""
    return int(run.name.partition("-")[0])


def _again(soak: Soak, number: int, run: Run) -> str:
    """Return a command that repeats a run's executed steps, or its plan if steps are missing."""
    try:
        whole_steps(run)
    except HighwaterError:
        return soak.command(number)
    return f"highwater replay {shlex.quote(str(run.path))}"


def _state(judged: JudgedRun, *, failed: bool) -> State:
    """Return the state of a run. If the model has not explained it, only the verdict decides."""
    if failed:
        return "failed"
    model, verdict = judged.model, judged.verdict.verdict
    if model is not None and model.status == "unexplained":
        return "unexplained"
    if model is None or model.status == "unknown":
        return "kept" if verdict == "valid" else "unknown"
    if verdict == "unknown":
        return "unknown"
    return "explained" if model.findings or verdict == "invalid" else "kept"


def _aim(plan: Plan) -> str:
    """Return the promise or the situation that a run's schedule is about; empty for neither."""
    name = str((plan.schedule or {}).get("name", "")).partition(" ")[0]
    return name if name in PROMISES or situation_of(name) else ""


def _situations(run: Run) -> tuple[str, ...]:
    try:
        return tuple(map(name_of, sorted(observed_in(run))))
    except StoreError:
        return ()


def _fault_counts(run: Run) -> dict[str, int]:
    try:
        rows = run.table("events/faults").select(["fault", "phase"]).to_pylist()
    except StoreError:
        return {}
    return dict(Counter(row["fault"] for row in rows if row["phase"] == "inject"))


def _unexplained(reconciliation: Reconciliation) -> tuple[str, ...]:
    wrong = [finding for finding in reconciliation.findings if finding.verdict == "unexplained"]
    return tuple(f"{finding.kind}: {finding.because[-1].says}" for finding in wrong[:TOLD_MOST])
