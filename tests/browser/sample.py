"""A judged run made by hand, laid down as it lies in a store.

Records are on the disks in Kafka's own formats, so that a report reads them as a real run's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.model.report_types import Reconciliation
from highwater.harness.runs.history import TABLES, record_value
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Environment, Run, RunStatus
from highwater.harness.runs.verdict import Verdict
from tests.support.logdirs import batch

TOPIC: Final = "events"
MADE_MS: Final = 1_795_000_000_000
Disk = Mapping[int, tuple[str, int]]
"""Offset to id and epoch."""


def ns(seconds: float) -> int:
    """Seconds of a run in nanoseconds."""
    return int(seconds * 1e9)


@dataclass(kw_only=True)
class Sample:
    """A run in the making; ``write`` lays it down."""

    plan: Plan
    verdict: Verdict
    replicas: dict[int, list[tuple[float, int | None, int | None]]] = field(default_factory=dict)
    partitions: list[tuple[float, int, int, list[int]]] = field(default_factory=list)
    faults: list[tuple[float, str, str, int | None, str]] = field(default_factory=list)
    cuts: list[tuple[float, int, int, str]] = field(default_factory=list)
    sends: list[tuple[float, float | None, int | None, str]] = field(default_factory=list)
    disks: dict[int, Disk] = field(default_factory=dict)
    model: Reconciliation | None = None
    topic: str = TOPIC
    environment: Environment | None = None
    status: RunStatus = field(default_factory=lambda: RunStatus(phase="frozen", quiesced=True))

    def judged(self, **fields: object) -> Self:
        """Give the verdict other fields."""
        self.verdict = msgspec.structs.replace(self.verdict, **fields)
        return self

    def write(self, store: Path) -> Run:
        """Lay the run down below a store and give it back."""
        run = Run(store / self.verdict.run)
        run.path.mkdir(parents=True)
        run.write("plan.json", self.plan.to_json())
        run.write_struct("environment.json", self.environment or environment())
        run.write_struct("status.json", self.status)
        run.write("analysis/verdict.json", self.verdict.to_json())
        if self.model is not None:
            run.write("analysis/model.json", self.model.to_json())
        for name, table in self.tables().items():
            run.parquet(name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(table, schema=TABLES[name]), run.parquet(name))
        for broker, disk in self.disks.items():
            write_log(run.replicas / str(broker) / f"{self.topic}-0", disk, self.plan.kafka)
        return run

    def tables(self) -> dict[str, list[dict[str, object]]]:
        """Rows of every table."""
        where = {"topic": self.topic, "partition": 0}
        return {
            "history/ops": [self._operation(*each) for each in self.sends],
            "events/replicas": [
                {"time_ns": ns(t), "broker": broker, **where, "leo": leo, "hw": hw}
                for broker, rows in self.replicas.items()
                for t, leo, hw in rows
            ],
            "events/partitions": [
                {
                    "time_ns": ns(t), **where, "leader": leader, "leader_epoch": epoch,
                    "isr": isr, "controller": 3,
                }
                for t, leader, epoch, isr in self.partitions
            ],
            "events/faults": [
                {"time_ns": ns(t), "fault": name, "phase": phase, "broker": broker, "says": says}
                for t, name, phase, broker, says in self.faults
            ],
            "events/log_lines": [
                {
                    "time_ns": ns(t), "broker": broker, "kind": "truncation", **where,
                    "offset": offset, "line": text,
                }
                for t, broker, offset, text in self.cuts
            ],
        }  # fmt: skip

    def _operation(
        self, start: float, end: float | None, offset: int | None, value: str
    ) -> dict[str, object]:
        return {
            "process": "producer-0", "kind": "send", "phase": "run",
            "outcome": "ok" if end else "info", "invoke_ns": ns(start),
            "complete_ns": None if end is None else ns(end), "topic": self.topic, "partition": 0,
            "offset": offset, "leader_epoch": None, "acks": self.plan.workload.acks,
            "value": value, "error": None if end else "_TIMED_OUT",
        }  # fmt: skip


def environment() -> Environment:
    """A machine."""
    jars = ("kafka-clients", "kafka_2.11", "zookeeper", "scala-library", "log4j")
    return Environment(
        started_at_ns=1_795_000_000_000_000_000,
        highwater="0.1.0",
        python="3.11.2",
        platform="Linux-6.1 x86_64",
        java="17.0.9",
        addresses={1: "127.0.0.11:9092", 2: "127.0.0.12:9092", 3: "127.0.0.13:9092"},
        coordination="zookeeper",
        truncation="A new follower cuts its log to its own HW at once (before KIP-101).",
        digests={f"{jar}.jar": f"{i:x}" * 64 for i, jar in enumerate(jars, 10)},
        packages={"pyspark": "4.3.0", "confluent-kafka": "2.16.0"},
        git_commit="4b6f67b594e5dd86e578d99d76d96731c9449d6a",
    )


def write_log(folder: Path, disk: Disk, kafka: str) -> None:
    """One segment with a batch per record, in the format that this version writes."""
    folder.mkdir(parents=True)
    magic = 1 if kafka.startswith(("0.9", "0.10")) else 2
    log = b"".join(
        batch(offset, [(None, record_value(value, 64))], epoch=epoch, magic=magic, time_ms=MADE_MS)
        for offset, (value, epoch) in sorted(disk.items())
    )
    (folder / f"{0:020}.log").write_bytes(log)
