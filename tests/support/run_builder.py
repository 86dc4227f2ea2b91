"""Builds tiny run directories by hand: operations, observations, and real record batches."""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from highwater.harness.runs import manifest
from highwater.harness.runs.history import (
    DECISIONS_TABLE,
    GROUPS_TABLE,
    LOOKUPS_TABLE,
    MESSAGES_TABLE,
    OPTIONAL,
    QUORUM_TABLE,
    TABLES,
    StreamWriter,
    record_value,
)
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Environment, Phase, Run, RunStatus
from highwater.harness.runs.topics.record_keys import parts

MS = 1_000_000
_EPOCH_AT, _CRC_AT = 12, 17


def batch(base_offset: int, leader_epoch: int, values: Sequence[str]) -> bytes:
    """A v2 record batch as a leader writes it; offset and epoch are under no checksum."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for index, name in enumerate(values):
        key, value, time_ms = _on_disk(name)
        builder.append(index, timestamp=time_ms, key=key, value=value, headers=[])
    data = bytearray(builder.build())
    data[0:8] = struct.pack(">q", base_offset)
    data[_EPOCH_AT : _EPOCH_AT + 4] = struct.pack(">i", leader_epoch)
    return bytes(data)


def _on_disk(name: str) -> tuple[bytes | None, bytes | None, int]:
    """Key, value and timestamp of a record of that name."""
    named = parts(name)
    if named is None:
        return None, record_value(name, 32), 1
    value = None if named.deletes else record_value(name, 32)
    return named.key.encode(), value, named.timestamp_ms if named.deletes else 1


class RunBuilder:
    """Gathers a run's rows and bytes; ``write`` puts them where the harness would.

    It is the story ``loss`` if a fault is injected, else a calm run; or what ``plan`` is set to.

    Args:
        path: the run directory to make.
        topic: of the plan; one partition of ``events`` on three brokers unless told.
    """

    def __init__(
        self,
        path: Path,
        *,
        kafka: str = "0.10.2.2",
        topic: Topic | None = None,
        workload: Workload | None = None,
        quiesced: bool = True,
        phase: Phase = "frozen",
        client: str = "librdkafka",
    ) -> None:
        self.path = path
        self.topic = topic or Topic()
        self.workload = workload or Workload()
        self.plan = Plan(kafka=kafka, topic=self.topic, workload=self.workload, client=client)
        self.status = RunStatus(phase=phase, quiesced=quiesced)
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self.disks: dict[tuple[int, int], list[bytes]] = {}
        self.segments: list[tuple[str, bytes]] = []
        self.now_ns = 0

    @classmethod
    def rehearsal(cls) -> Self:
        """A run that is never written: for tests that look at its rows."""
        return cls(Path("rehearsal"))

    def tick(self, ms: float = 10) -> int:
        """Let time pass; the new time in nanoseconds."""
        self.now_ns += int(ms * MS)
        return self.now_ns

    def send(
        self,
        value: str,
        offset: int | None,
        *,
        partition: int | None = 0,
        outcome: str = "ok",
        process: str = "producer-0",
        phase: str = "run",
        leader_epoch: int | None = None,
    ) -> None:
        """A record was sent, and this came of it."""
        start = self.tick(1)
        self._operation(
            process=process,
            kind="send",
            phase=phase,
            outcome=outcome,
            invoke_ns=start,
            complete_ns=self.tick(4) if outcome != "info" else None,
            partition=partition,
            offset=offset,
            leader_epoch=leader_epoch,
            acks=self.workload.acks,
            value=value,
            error=None if outcome == "ok" else "_TIMED_OUT",
        )

    def read(
        self,
        value: str,
        offset: int,
        *,
        partition: int = 0,
        process: str = "reader",
        phase: str = "final",
        leader_epoch: int | None = None,
        isolation: str | None = None,
    ) -> None:
        """A reader met a record."""
        self._operation(
            process=process,
            kind="read",
            phase=phase,
            outcome="ok",
            invoke_ns=self.tick(1),
            complete_ns=self.tick(1),
            partition=partition,
            offset=offset,
            leader_epoch=leader_epoch,
            acks=None,
            value=value,
            error=None,
            isolation=isolation,
        )

    def transact(
        self,
        process: str,
        op: int,
        sends: Sequence[tuple[str, int | None]],
        reads: Sequence[tuple[str, int]] = (),
        *,
        outcome: str = "ok",
    ) -> None:
        """A transaction read and sent records of partition 0, values and offsets; it ended so."""
        shared: dict[str, object] = {
            "process": process,
            "phase": "run",
            "outcome": outcome,
            "invoke_ns": self.tick(1),
            "complete_ns": self.tick(4) if outcome == "ok" else None,
            "partition": 0,
            "leader_epoch": None,
            "op": op,
            "error": None if outcome == "ok" else "_TIMED_OUT",
        }
        read = {"kind": "read", "acks": None, "isolation": "read_committed"}
        send = {"kind": "send", "acks": "all", "isolation": None}
        for value, place in reads:
            self._operation(**shared, **read, value=value, offset=place)
        for value, told in sends:
            self._operation(**shared, **send, value=value, offset=told)

    def join(self, group: str, process: str = "member-0") -> None:
        """A client joined a group."""
        self._moved("subscribe", process, 0, value=group)

    def seek(self, partition: int, offset: int | None, process: str = "member-0") -> None:
        """A reader went on from an offset; None: from wherever."""
        self._moved("seek", process, partition, offset=offset)

    def final_range(self, kind: str, offset: int) -> None:
        """The final read of a run that only reads began at an offset (seek), or ended at one."""
        self._moved(kind, "reader", 0, offset=offset, phase="final")

    def rebalance(self, partition: int, process: str = "member-0") -> None:
        """A member's partitions were changed."""
        self._moved("rebalance", process, partition)

    def lookup(
        self, broker: int, time_ms: int | None, offset: int | None, *, hw: int, start: int = 0
    ) -> None:
        """A leader was asked for the first record from a time on, or for the largest timestamp."""
        row: dict[str, Any] = {"broker": broker, "partition": 0, "start": start, "hw": hw}
        row |= {"invoke_ns": self.tick(1), "complete_ns": self.tick(1)}
        row |= {"timestamp_ms": time_ms, "offset": offset}
        self.rows.setdefault(LOOKUPS_TABLE, []).append(row)

    def journal(
        self,
        event: str,
        process: str,
        offset: int | None,
        *,
        outcome: str = "ok",
        takes_ms: float = 1,
        group: str = "events-group",
        **row: int,
    ) -> None:
        """A member of a group wrote down an event, which began now and took so long."""
        begun_ns = self.tick(1)
        self.tick(1)
        self.rows.setdefault(GROUPS_TABLE, []).append(
            {
                "process": process,
                "group": group,
                "event": event,
                "outcome": outcome,
                "invoke_ns": begun_ns,
                "complete_ns": begun_ns + int(takes_ms * MS),
                "partition": None if event == "drained" else 0,
                "offset": offset,
                **row,
            }
        )

    def _moved(
        self,
        kind: str,
        process: str,
        partition: int,
        *,
        offset: int | None = None,
        value: str = "",
        phase: str = "run",
    ) -> None:
        self._operation(
            process=process,
            kind=kind,
            phase=phase,
            outcome="ok",
            invoke_ns=self.tick(1),
            complete_ns=self.now_ns,
            partition=partition,
            offset=offset,
            leader_epoch=None,
            acks=None,
            value=value,
            error=None,
        )

    def fence(self, offset: int, *, partition: int = 0, read: bool = True) -> None:
        """The fence was written to a partition and, unless told otherwise, read back."""
        value = f"fence-{partition}"
        self.send(value, offset, partition=partition, process="fence", phase="final")
        if read:
            self.read(value, offset, partition=partition)

    def leader(self, leader: int, epoch: int, isr: Sequence[int], *, partition: int = 0) -> None:
        """The controller's word on a partition changed."""
        self.rows["events/partitions"].append(
            {
                "time_ns": self.now_ns,
                "topic": self.topic.name,
                "partition": partition,
                "leader": leader,
                "leader_epoch": epoch,
                "isr": list(isr),
                "controller": 1,
            }
        )

    def observe(
        self, broker: int, leo: int | None, hw: int | None = None, *, partition: int = 0
    ) -> None:
        """A replica told its LEO and HW; None: it did not answer."""
        self.rows["events/replicas"].append(
            {
                "time_ns": self.now_ns,
                "broker": broker,
                "topic": self.topic.name,
                "partition": partition,
                "leo": leo,
                "hw": leo if hw is None else hw,
            }
        )

    def observe_all(self, leo: int | None, hw: int | None = None) -> None:
        """The three replicas of partition 0 told the same."""
        for broker in (1, 2, 3):
            self.observe(broker, leo, hw)

    def fault(self, fault: str, broker: int | None, says: str, *, phase: str = "inject") -> None:
        """The nemesis did something."""
        if phase == "inject" and self.plan.calm:
            self.plan = msgspec.structs.replace(self.plan, story="loss")
        self.rows["events/faults"].append(
            {
                "time_ns": self.now_ns,
                "fault": fault,
                "phase": phase,
                "broker": broker,
                "says": says,
            }
        )

    def decided(
        self,
        kind: str,
        value: str | None = None,
        *,
        evidence: str = "answered",
        subject: str | None = None,
        **row: int | str,
    ) -> None:
        """A controller was asked for something, or ZooKeeper read at the end."""
        self.rows.setdefault(DECISIONS_TABLE, []).append(
            {
                "time_ns": self.now_ns,
                "evidence": evidence,
                "kind": kind,
                "subject": subject or self.topic.name,
                "value": value,
                **row,
            }
        )

    def quorum(self, ends: dict[int, int], hw: int, *, leader: int = 100, epoch: int = 1) -> None:
        """The quorum's leader told how far each controller's log goes, and what is committed."""
        self.rows.setdefault(QUORUM_TABLE, []).extend(
            {
                "time_ns": self.now_ns,
                "node": node,
                "voter": True,
                "leo": leo,
                "leader": leader,
                "epoch": epoch,
                "hw": hw,
            }
            for node, leo in ends.items()
        )

    def message(
        self, api: str, source: str, *, event: str = "sent", partition: int | None = None
    ) -> None:
        """Something happened to a request that the wire had kept."""
        self.rows.setdefault(MESSAGES_TABLE, []).append(
            {
                "time_ns": self.now_ns,
                "event": event,
                "message": 1,
                "action": "hold",
                "side": "request",
                "source": source,
                "target": "broker-1",
                "connection": 1,
                "place": 1,
                "api": api,
                "version": 1,
                "correlation": 1,
                "transactional_id": f"{self.topic.name}-tx",
                "producer_id": 7,
                "epoch": 0,
                **({} if partition is None else {"topic": self.topic.name, "partition": partition}),
            }
        )

    def log_line(
        self, broker: int, kind: str, line: str, *, offset: int | None = None, partition: int = 0
    ) -> None:
        """A broker's own log says something about a partition."""
        self.rows["events/log_lines"].append(
            {
                "time_ns": self.now_ns,
                "broker": broker,
                "kind": kind,
                "topic": self.topic.name,
                "partition": partition,
                "offset": offset,
                "line": line,
            }
        )

    def disk(
        self, brokers: Iterable[int], records: Sequence[tuple[int, int, str]], *, partition: int = 0
    ) -> None:
        """Append (offset, leader epoch, value) to replicas' disks, a batch each."""
        batches = [batch(offset, epoch, [value]) for offset, epoch, value in records]
        for broker in brokers:
            self.disks.setdefault((broker, partition), []).extend(batches)

    def remote(self, records: Sequence[tuple[int, int, str]], *, partition: int = 0) -> None:
        """A segment of (offset, leader epoch, value), a batch each, lies in the remote tier."""
        self.plan = msgspec.structs.replace(self.plan, tiered=True)
        data = b"".join(batch(offset, epoch, [value]) for offset, epoch, value in records)
        folder = f"{self.topic.name}-{partition}-{'t' * 22}"
        name = f"{records[0][0]:020d}-{len(self.segments):022d}.log"
        self.segments.append((f"{folder}/{name}", data))

    def everywhere(self, records: Sequence[tuple[int, int, str]], *, partition: int = 0) -> None:
        """Records that were acknowledged, read back, and are on every broker's disk."""
        for offset, epoch, value in records:
            self.send(value, offset, partition=partition, leader_epoch=epoch)
            self.read(value, offset, partition=partition)
        self.disk(range(1, self.plan.brokers + 1), records, partition=partition)

    def damage(self, broker: int, index: int, *, partition: int = 0) -> None:
        """Flip a bit in the last byte of one batch's value on one disk."""
        batches = self.disks[broker, partition]
        data = bytearray(batches[index])
        data[-2] ^= 1
        batches[index] = bytes(data)

    def write(self, *, sealed: bool = True) -> Run:
        """Make the run directory; unsealed tables stay Arrow streams, as while a run goes on."""
        run = Run(self.path)
        run.path.mkdir(parents=True)
        self._observe_something()
        run.write("plan.json", self.plan.to_json())
        run.write_struct("status.json", self.status)
        run.write_struct("environment.json", _ENVIRONMENT)
        for name, rows in self.rows.items():
            path, schema = run.path / name, {**TABLES, **OPTIONAL}[name]
            path.parent.mkdir(exist_ok=True)
            if sealed:
                table = pa.Table.from_pylist(rows, schema=schema)
                pq.write_table(table, path.with_suffix(".parquet"))
            else:
                with StreamWriter(path.with_suffix(".arrows"), schema) as writer:
                    writer.append_rows(rows)
        for broker in range(1, self.plan.brokers + 1):
            for partition in range(self.topic.partitions):
                folder = run.replicas / str(broker) / f"{self.topic.name}-{partition}"
                folder.mkdir(parents=True)
                data = b"".join(self.disks.get((broker, partition), []))
                (folder / f"{0:020d}.log").write_bytes(data)
        for name, data in self.segments:
            (run.remote_tier / name).parent.mkdir(parents=True, exist_ok=True)
            (run.remote_tier / name).write_bytes(data)
        return run

    def checkpoint(self, broker: int, watermarks: dict[int, int]) -> None:
        """Write a broker's ``replication-offset-checkpoint``; call after ``write``."""
        lines = [f"{self.topic.name} {partition} {hw}" for partition, hw in watermarks.items()]
        text = "\n".join(["0", str(len(lines)), *lines, ""])
        (self.path / "replicas" / str(broker) / "replication-offset-checkpoint").write_text(text)

    def _observe_something(self) -> None:
        """Let every observer have told something, as in a real run: none was lost."""
        if not self.rows["events/log_lines"]:
            line: dict[str, Any] = {"kind": "loaded", "line": "Loading logs.", "offset": None}
            line |= {"time_ns": 0, "broker": 1, "topic": None, "partition": None}
            self.rows["events/log_lines"].append(line)
        if not self.rows["events/replicas"]:
            silent: dict[str, Any] = {"time_ns": 0, "broker": 1, "leo": None, "hw": None}
            silent |= {"topic": self.topic.name, "partition": 0}
            self.rows["events/replicas"].append(silent)
        if self.workload.transactions:
            self.rows.setdefault(MESSAGES_TABLE, [])

    def _operation(self, **row: object) -> None:
        self.rows["history/ops"].append({"topic": self.topic.name, **row})


_ENVIRONMENT = Environment(
    started_at_ns=1_790_000_000_000_000_000,
    highwater="0.1.0",
    python="3.11",
    platform="Linux",
    java="17",
    addresses={1: "127.0.0.11:9092", 2: "127.0.0.12:9092", 3: "127.0.0.13:9092"},
)


def listed(run: Run) -> Run:
    """The same run with a list of the files that it has now, as when it ended."""
    digest = manifest.record(run, {})
    run.write_struct("status.json", msgspec.structs.replace(run.status(), manifest=digest))
    return run
