"""Every kind of page once, or with what tries its patience, by name."""

from collections.abc import Mapping
from dataclasses import replace as of_dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from highwater.campaigns.matrix_run import write_matrix_page
from highwater.checkers.hazards.evaluate import evaluate
from highwater.checkers.inspection.report_types import (
    Copy,
    DivergentOffset,
    EpochRun,
    InspectedPartition,
    InspectedReplica,
    Inspection,
    LogFinding,
)
from highwater.harness.campaigns.matrix_cells import MatrixRow
from highwater.harness.runs.store import Run
from highwater.reports.html import save
from highwater.reports.pages import (
    advice,
    comparison,
    counterexample,
    inspection,
    matrix,
    store_index,
    trend,
)
from highwater.reports.pages.run import write
from tests.browser.lineage import forked, lost
from tests.browser.samples import SAMPLES, unfinished, write_all
from tests.support.matrices import AXES, judged
from tests.support.nightly_data import two_weeks
from tests.unit.checkers.hazards.clusters import cluster, topic

PAGES: Final = (
    *SAMPLES,
    *("matrix", "two-releases", "index", "trend", "compared"),
    *("lost", "forked", "inspect", "advice", "shelf"),
)
"""All that ``write_pages`` makes, but for ``releases``, a matrix of all, and ``drawing``."""
FEW: Final = replace(AXES, kafkas=("0.10.2.2", "2.8.2", "4.3.1"))
TWO: Final = replace(AXES, kafkas=("2.8.2", "4.3.1"))


def write_pages(store: Path) -> dict[str, Path]:
    """Every page below a store."""
    runs = write_all(store)
    unfinished(runs["cut-short"])
    found = {name: write(run) for name, run in runs.items()}
    return {**found, **write_others(store, runs)}


def write_others(store: Path, runs: Mapping[str, Run]) -> dict[str, Path]:
    """The pages that are not of one run."""
    both = [runs["loss"], runs["valid"]]
    rows = [
        MatrixRow.of(run, run.verdict(), as_predicted=None, home=store) for run in runs.values()
    ]
    found = {
        "matrix": write_matrix_page(judged(store / "matrix", FEW)),
        "two-releases": write_matrix_page(judged(store / "two-releases", TWO)),
        "releases": write_matrix_page(judged(store / "releases")),
        "index": matrix.write(rows, store / "index.html"),
        "trend": trend.write(two_weeks(store / "nights"), store / "trend.html"),
        "compared": comparison.write(runs["loss"], runs["valid"], store / "compared.html"),
        "lost": counterexample.write(lost(), store / "lost.html", both),
        "forked": counterexample.write(forked(), store / "forked.html"),
        "drawing": counterexample.write(forked(), store / "forked.svg"),
        "advice": advise(store / "advice.html"),
        "inspect": inspection.write(inspected(), store / "inspect.html"),
    }
    return {**found, "shelf": save(store / "shelf.html", store_index.page(store))}


def advise(path: Path) -> Path:
    """A cluster of mixed fortunes, one of whose topics the user may not describe."""
    weak = topic("metrics", replicas=2, settings={"min.insync.replicas": "1"})
    facts = cluster("4.4.0", topic("orders"), weak, transactions=True)
    facts = of_dataclass(facts, unseen=("settings of topic payments: the user may not",))
    lines = ("Cluster c on KRaft: 3 brokers (4.4.0), 2 topics, 2 partitions.",)
    return advice.write(facts, evaluate(facts, {"acks": "all"}), lines, path)


def inspected(*, value: str = "m3", topic: str = "events") -> Inspection:
    """Three replicas that differ at one offset, and one partition in which all is well."""
    copies = [(1, value, 0), (2, "m4", 2), (3, "m4", 2)]
    fork = InspectedPartition(
        topic=topic,
        partition=0,
        verdict="fork",
        says="Replicas hold different records at offset 3, below the HW of each of them.",
        replicas=tuple(_replica(broker, value) for broker in (1, 2, 3)),
        divergent_offsets=(3,),
        divergent=1,
        below_hw=1,
        shown=(
            DivergentOffset(
                offset=3,
                below_hw=True,
                copies=tuple(Copy(broker=b, key=value, value=v, epoch=e) for b, v, e in copies),
            ),
        ),
        findings=(
            LogFinding(kind="fork", severity="error", says=f"{value} and m4 at one offset."),
        ),
    )
    well = InspectedPartition(
        topic=topic,
        partition=1,
        verdict="agree",
        says="All replicas hold the same 5 records.",
        replicas=(_replica(1, value), _replica(2, value)),
    )
    return Inspection(verdict="fork", partitions=(fork, well), notes=(f"{topic}-9 is empty.",))


def _replica(broker: int, said: str) -> InspectedReplica:
    return InspectedReplica(
        broker=broker, directory=f"/var/kafka/{said}", leo=5, last_stable_offset=5, start=0,
        records=5, segments=1, bytes=725, formats=(2,), hw=5, recovery_point=5,
        epochs=(EpochRun(epoch=0, first=0, last=2), EpochRun(epoch=2, first=3, last=4)),
        epoch_checkpoint=((0, 0), (2, 3)), committed=1, aborted=1, aborted_ranges=((7, 3, 4),),
        findings=(LogFinding(kind="unclean", severity="warning", says=f"No clean stop: {said}."),),
    )  # fmt: skip
