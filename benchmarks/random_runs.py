"""Two hundred random seeded runs over eight releases: what the model has to explain.

``python -m benchmarks.random_runs STORE --seconds 150`` makes those runs that STORE does not have
yet, until the time is up; call it again until it says that all are there. With ``--judge`` it
judges them all in one go, holds them against the model, and prints what came of it.
"""

import argparse
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from checkers.judge import judge
from checkers.model.reconciliation import Reconciliation
from checkers.session import SparkStarter
from harness.errors import HarnessError
from harness.expected import reconcile
from harness.fleet import Fleet
from harness.plan import Acks, Plan, Topic, Workload
from harness.store import Run, Store
from harness.verdict import Verdict
from nemesis.story import BROKER_CONFIG

RELEASES: Final = (
    "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.0.0", "2.1.1", "2.8.2", "3.9.2", "4.3.1",
)  # fmt: skip
RUNS: Final = 200
_PER_PORTION: Final = 5
_ACKS: Final[tuple[Acks, ...]] = ("all", "all", "1", "1", "0")


def plan(seed: int) -> Plan:
    """The run of a seed. Five in a row share a release and a cluster, so that it can stay warm."""
    portion = seed // _PER_PORTION
    dice = random.Random(seed)  # noqa: S311 - to be repeatable, not secret
    return Plan(
        kafka=RELEASES[portion % len(RELEASES)],
        topic=Topic(
            partitions=3,
            min_insync_replicas=dice.choice((1, 1, 2)),
            unclean_leader_election=dice.random() < 0.25,  # noqa: PLR2004 - one in four
        ),
        workload=Workload(
            producers=2,
            acks=_ACKS[seed % len(_ACKS)],
            rate=dice.choice((20.0, 150.0)),
            delivery_timeout_s=8.0,
        ),
        nemesis=("kill", "pause", "stop"),
        duration_s=12.0,
        seed=seed,
        broker_config=dict(BROKER_CONFIG) if portion // len(RELEASES) % 2 else {},
    )


def missing(store: Path) -> Iterator[int]:
    """The seeds whose runs are not there."""
    return (seed for seed in range(RUNS) if not (store / name(seed)).exists())


def name(seed: int) -> str:
    """Of the run's directory."""
    return f"{plan(seed).kafka}-seed-{seed}"


def make(store: Path, *, seconds: float) -> None:
    """Make missing runs until the time is up."""
    deadline = time.monotonic() + seconds
    stop = threading.Event()
    with Fleet(store / ".fleet") as fleet:
        for seed in missing(store):
            if time.monotonic() > deadline:
                break
            began = time.monotonic()
            try:
                run = fleet.execute(plan(seed), Store(store), stop=stop, name=name(seed))
            except HarnessError as error:
                print(f"{name(seed)}: {error.message}", flush=True)
            else:
                status = run.status()
                took = time.monotonic() - began
                print(f"{run.name}: {took:.1f} s, {status.phase} {status.problems}", flush=True)
    print(f"{len(list(missing(store)))} of {RUNS} runs are missing")


def explain(store: Path) -> None:
    """Judge every run that ended, and say how many anomalies follow from the rules."""
    paths = (store / name(seed) for seed in range(RUNS))
    runs = [Run(path) for path in paths if path.exists() and Run(path).status().phase == "frozen"]
    began = time.monotonic()
    with SparkStarter(None, "2g") as starter:
        verdicts = judge(runs, starter.session())
    judged = time.monotonic()
    answers = [reconcile(run, verdict) for run, verdict in zip(runs, verdicts, strict=True)]
    print(json.dumps(summary(verdicts, answers), indent=2))
    print(f"{len(runs)} runs: judged in {judged - began:.0f} s, held against the model in"
          f" {time.monotonic() - judged:.1f} s")  # fmt: skip
    for answer in answers:
        for one in answer.findings:
            if one.verdict == "unexplained":
                print(answer.run, one.kind, one.partition, one.record, one.because[-1].says)


def summary(
    verdicts: Sequence[Verdict], answers: Sequence[Reconciliation]
) -> dict[str, dict[str, dict[str, int]]]:
    """Counts, by release and over all."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for verdict, answer in zip(verdicts, answers, strict=True):
        for key in (verdict.kafka, "all"):
            row = found.setdefault(key, {})
            row.setdefault("runs", Counter())[answer.status] += 1
            row.setdefault("records", Counter())["acknowledged"] += verdict.ledger.acknowledged
            row.setdefault("checked", Counter()).update(answer.checked)
            for one in answer.findings:
                row.setdefault(one.kind, Counter())[one.verdict] += one.count
                rules = " > ".join(link.rule for link in one.because)
                row.setdefault("chains", Counter())[f"{one.kind}: {rules}"] += one.count
    return {key: {what: dict(counts) for what, counts in row.items()} for key, row in found.items()}


def main() -> None:
    """Make runs, or judge them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--judge", action="store_true")
    asked = parser.parse_args()
    if asked.judge:
        explain(asked.store)
    else:
        make(asked.store, seconds=asked.seconds)


if __name__ == "__main__":
    main()
