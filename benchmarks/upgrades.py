"""Measure the losses of stories at each level of an upgrade from 0.10.2.2.

A level is a set of jars, protocol version and message format (``LEVELS``).
``python -m benchmarks.upgrades STORE`` performs the runs that STORE lacks; ``--only LEVEL`` limits
them to one level. ``--judge`` judges all runs, and prints a table of lost and forked records beside
the model's predictions.
"""

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from highwater.checkers.judge import judge
from highwater.checkers.spark.session import SparkStarter
from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.nemesis.stories.registry import find_story
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.prediction_check import as_predicted

TRIES: Final = 5
STORIES: Final = ("loss", "divergence", "held-fetch")
OLD: Final = "0.10.2"
LEVELS: Final[dict[str, dict[str, object]]] = {
    "before": {},
    "jars": {"to": ("0.11.0.3",), "protocol": OLD},
    "protocol": {"to": ("0.11.0.3",), "format": OLD},
    "format": {"to": ("0.11.0.3",)},
    "1.1.1-old-format": {"to": ("1.1.1",), "format": OLD},
    "2.0.1-old-format": {"to": ("2.0.1",), "format": OLD},
    "2.1.1-old-format": {"to": ("2.1.1",), "format": OLD},
    "2.8.2-old-format": {"to": ("2.8.2",), "format": OLD},
    "2.8.2-old-protocol": {"to": ("2.8.2",), "protocol": OLD},
    "2.8.2": {"to": ("2.8.2",)},
    "3.9.2-old-protocol": {"to": ("3.9.2-zk",), "protocol": OLD},
    "3.9.2-old-format": {"to": ("3.9.2-zk",), "protocol": "2.8", "format": OLD},
    "3.9.2": {"to": ("3.9.2-zk",)},
}
"""The levels to which a cluster of 0.10.2.2 is upgraded before the story."""


def plans(only: str | None = None) -> Iterator[tuple[str, Plan]]:
    """Yield every run's name and plan, grouped by level."""
    for level, where in LEVELS.items():
        for story in STORIES if only in (None, level) else ():
            for number in range(TRIES):
                plan = find_story(story).plan("0.10.2.2", seed=number)
                yield f"{level}-{story}-{number}", msgspec.structs.replace(plan, **where)


def make(store: Path, only: str | None) -> None:
    """Perform the runs that are missing."""
    with ClusterPool(store / ".fleet") as fleet:
        for name, plan in plans(only):
            if (store / name).exists():
                continue
            began = time.monotonic()
            try:
                run = fleet.execute(plan, Store(store), stop=threading.Event(), name=name)
            except HarnessError as error:
                print(f"{name}: {error.message}", flush=True)
                continue
            print(f"{name}: {time.monotonic() - began:.0f} s {run.status().problems}", flush=True)


def tell(store: Path) -> None:
    """Judge all runs, and print a row for each level and story."""
    made = {name: level for level in LEVELS for name, _ in plans(level) if (store / name).exists()}
    verdicts = judge([Run(store / name) for name in made], SparkStarter().session())
    rows: dict[tuple[str, str], Counter[str]] = {}
    for (name, level), verdict in zip(made.items(), verdicts, strict=True):
        run = Run(store / name)
        row = rows.setdefault((level, run.plan().story or ""), Counter())
        predicted = as_predicted(run, verdict)
        row["runs"] += 1
        row["predicted"] += bool(predicted)
        row["lost"] += verdict.ledger.lost > 0
        row["forked"] += verdict.counts.get("divergence", 0) > 0
        row["unknown"] += verdict.verdict == "unknown"
    columns = ("runs", "predicted", "lost", "forked", "unknown")
    print("| level | story |", " | ".join(columns), "|\n|---|---|", "---|" * len(columns))
    for (level, story), row in rows.items():
        print("|", level, "|", story, "|", " | ".join(str(row[one]) for one in columns), "|")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--only", choices=LEVELS)
    parser.add_argument("--judge", action="store_true")
    found = parser.parse_args()
    (tell if found.judge else lambda store: make(store, found.only))(found.store)


if __name__ == "__main__":
    main()
