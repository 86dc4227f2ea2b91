"""Judged runs as they lie in a store, made by hand: what the stories leave behind, and some odd ones.

Times, cuts and elections follow what real brokers did (0.10.2.2 and 4.3.1, three brokers). Records are
on the disks in Kafka's own formats, so that a report reads them as it reads a real run's.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from harness.history import TABLES, StreamWriter, record_value
from harness.plan import Plan, Topic, Workload
from harness.store import Environment, Run, Status
from harness.verdict import Anomaly, Ledger, Verdict, Witness

TOPIC: Final = "events"
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
    status: Status = field(default_factory=lambda: Status(phase="frozen", quiesced=True))

    def write(self, store: Path) -> Run:
        """Lay the run down below a store and give it back."""
        run = Run(store / self.verdict.run)
        run.path.mkdir(parents=True)
        run.write("plan.json", self.plan.to_json())
        run.write_struct("environment.json", environment())
        run.write_struct("status.json", self.status)
        run.write("analysis/verdict.json", self.verdict.to_json())
        rows = [msgspec.to_builtins(each) for each in self.verdict.anomalies]
        columns = pa.schema(
            [(n, pa.string()) for n in ("kind", "topic", "value", "sentence")]
            + [("partition", pa.int32()), ("offset", pa.int64()), ("breaks", pa.bool_())]
        )
        pq.write_table(
            pa.Table.from_pylist(rows, schema=columns), run.analysis / "anomalies.parquet"
        )
        for name, table in self.tables().items():
            run.parquet(name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(table, schema=TABLES[name]), run.parquet(name))
        for broker, disk in self.disks.items():
            write_log(run.replicas / str(broker) / f"{TOPIC}-0", disk, self.plan.kafka)
        return run

    def tables(self) -> dict[str, list[dict[str, object]]]:
        """Rows of every table."""
        where = {"topic": TOPIC, "partition": 0}
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
            "complete_ns": None if end is None else ns(end), "topic": TOPIC, "partition": 0,
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
        digests={f"{jar}.jar": f"{i:x}" * 64 for i, jar in enumerate(jars, 10)},
        packages={"pyspark": "4.3.0", "confluent-kafka": "2.16.0"},
        git_commit="4b6f67b594e5dd86e578d99d76d96731c9449d6a",
    )


def write_log(folder: Path, disk: Disk, kafka: str) -> None:
    """One segment with a batch per record, in the format that this version writes."""
    folder.mkdir(parents=True)
    old = kafka.startswith(("0.9", "0.10"))
    log = bytearray()
    for offset, (value, epoch) in sorted(disk.items()):
        made = record_value(value, 64)
        if old:
            legacy = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
            legacy.append(offset, timestamp=1_795_000_000_000, key=None, value=made)
            log += legacy.build()
            continue
        batch = DefaultRecordBatchBuilder(
            magic=2, compression_type=0, is_transactional=False, producer_id=-1,
            producer_epoch=-1, base_sequence=-1, batch_size=1 << 20,
        )  # fmt: skip
        batch.append(0, timestamp=1_795_000_000_000, key=None, value=made, headers=[])
        data = bytearray(batch.build())
        data[0:8] = offset.to_bytes(8, "big")
        data[12:16] = epoch.to_bytes(4, "big")
        log += data
    (folder / f"{0:020}.log").write_bytes(bytes(log))


def story_plan(kafka: str, story: str) -> Plan:
    """The plan of a story."""
    return Plan(
        kafka=kafka,
        story=story,
        seed=7,
        topic=Topic(partitions=1),
        workload=Workload(producers=0, consumers=1),
        broker_config={"zookeeper.session.timeout.ms": "2000", "replica.fetch.wait.max.ms": "1500"},
    )


PROMISE: Final = (
    "acks=all with min.insync.replicas=1 and clean elections: a record that every in-sync replica had "
    "when it was acknowledged is read by every consumer that passes its offset."
)


def lost_witnesses() -> tuple[Witness, ...]:
    """What the loss story shows of m3."""
    seen, lines, ops = "events/replicas", "events/log_lines", "history/ops"

    def at(t: float | None, who: str, what: str, epoch: int | None, says: str, src: str) -> Witness:
        time_ns = None if t is None else ns(t)
        return Witness(
            time_ns=time_ns, who=who, what=what, leader_epoch=epoch, says=says, source=src
        )

    return (
        at(5.401, "broker 1", "appended", 0, "Broker 1, the leader, holds m3: LEO 4, HW 3.", seen),
        at(5.409, "broker 2", "held", 0, "Broker 2 holds m3 above its HW: LEO 4, HW 3.", seen),
        at(5.410, "broker 3", "held", 0, "Broker 3 holds m3 above its HW: LEO 4, HW 3.", seen),
        at(5.412, "producer-0", "acknowledged", 0, "m3 is acknowledged at offset 3, acks=all.", ops),
        at(5.415, "broker 1", "killed", 0, "Broker 1 is killed.", "events/faults"),
        at(6.515, "broker 2", "killed", 0, "Broker 2 is killed.", "events/faults"),
        at(7.42, "broker 2", "elected", 1, "Broker 2, already dead, is made leader.", "events/partitions"),
        at(7.45, "broker 3", "truncated", 1, "Broker 3 becomes its follower and cuts its log to its HW: LEO 4 → 3.", lines),
        at(8.61, "broker 3", "elected", 2, "Broker 3 is elected from the ISR, cleanly, at LEO 3.", "events/partitions"),
        at(14.2, "broker 3", "replaced", 2, "Offset 3 now holds another record, fence-0.", ops),
        at(14.9, "reader", "passed", None, "The final read passes offset 3 without meeting m3.", ops),
        at(None, "broker 1", "disk", None, "Broker 1 ends without m3.", "replicas/1"),
    )  # fmt: skip


def verdict(plan: Plan, name: str, **changes: object) -> Verdict:
    """A verdict with everything in it, and the given changes."""
    values: dict[str, object] = {
        "run": name,
        "kafka": plan.kafka,
        "acks": plan.workload.acks,
        "verdict": "valid",
        "reasons": (),
        "promise": PROMISE,
        "headline": "All 5 acknowledged records were read at the end, and the replicas agree.",
        "ledger": Ledger(sent=5, acknowledged=5, failed=0, unknown=0, read=5, lost=0, unseen=0),
        "counts": {},
        "anomalies": (),
        "checkers": dict.fromkeys(
            ("lost-write", "divergence", "unseen", "duplicate", "corrupt"), "held"
        ),
        **changes,
    }
    return msgspec.convert(values, Verdict)


def _written(times: Sequence[float]) -> dict[int, list[tuple[float, int | None, int | None]]]:
    """Three replicas that take m0, m1, m2: leader 1 first, the followers' HW half a second late."""
    rows: dict[int, list[tuple[float, int | None, int | None]]] = {
        b: [(0.6, 0, 0)] for b in (1, 2, 3)
    }
    for i, t in enumerate(times, 1):
        rows[1] += [(t, i, i - 1), (t + 0.02, i, i)]
        for broker in (2, 3):
            rows[broker] += [(t + 0.01, i, i - 1), (t + 0.62, i, i)]
    return rows


def _lost_anomaly(**changes: object) -> Anomaly:
    values: dict[str, object] = {
        "kind": "lost-write",
        "topic": TOPIC,
        "partition": 0,
        "offset": 3,
        "value": "m3",
        "sentence": "m3 was acknowledged at offset 3 with acks=all by the leader and both in-sync "
        "followers; the final read passed offset 3 and found fence-0 there.",
        "breaks": True,
        "witnesses": lost_witnesses(),
        **changes,
    }
    return msgspec.convert(values, Anomaly)


def loss(*, name: str = "20261121T050000-0.10.2.2-loss-a1b2") -> Sample:
    """Story 1 on 0.10.2.2: m3 is lost under clean elections."""
    plan = story_plan("0.10.2.2", "loss")
    rows = _written((1.2, 2.4, 3.6))
    rows[1] += [
        (5.4, 4, 3),
        (5.411, 4, 4),
        (5.44, None, None),
        (12.1, 3, 3),
        (14.21, 4, 3),
        (14.8, 4, 4),
    ]
    rows[2] += [(5.409, 4, 3), (6.54, None, None), (12.4, 3, 3), (14.21, 4, 3), (14.8, 4, 4)]
    rows[3] += [(5.41, 4, 3), (7.46, 3, 3), (14.2, 4, 3), (14.23, 4, 4)]
    final = {**{i: (f"m{i}", 0) for i in range(3)}, 3: ("fence-0", 2)}
    return Sample(
        plan=plan,
        verdict=verdict(
            plan,
            name,
            verdict="invalid",
            reasons=("1 acknowledged record is lost under settings that promise to keep it.",),
            headline="1 of 5 acknowledged records is lost: m3 at events-0, offset 3, acks=all, "
            "every election clean.",
            ledger=Ledger(sent=5, acknowledged=5, failed=0, unknown=0, read=4, lost=1, unseen=0),
            counts={"lost-write": 1},
            anomalies=(_lost_anomaly(),),
            checkers={"lost-write": "found 1", "divergence": "held", "unseen": "held",
                      "duplicate": "held", "corrupt": "held"},
        ),
        replicas=rows,
        partitions=[
            (0.6, 1, 0, [1, 2, 3]), (7.42, 2, 1, [2, 3]), (8.61, 3, 2, [3]),
            (12.9, 3, 2, [3, 1]), (13.2, 3, 2, [3, 1, 2]),
        ],
        faults=[
            (5.2, "step", "note", None, "every replica stands at LEO = HW = 3"),
            (5.415, "kill", "inject", 1, "broker 1 is killed"),
            (6.515, "kill", "inject", 2, "broker 2 is killed"),
            (11.3, "kill", "heal", 1, "broker 1 is started again"),
            (11.5, "kill", "heal", 2, "broker 2 is started again"),
        ],
        cuts=[
            (7.45, 3, 3, "Truncating log events-0 to offset 3. (kafka.log.Log)"),
            (11.98, 1, 3, "Truncating log events-0 to offset 3. (kafka.log.Log)"),
            (12.2, 2, 3, "Truncating log events-0 to offset 3. (kafka.log.Log)"),
        ],
        sends=[
            (1.19, 1.22, 0, "m0"), (2.39, 2.42, 1, "m1"), (3.59, 3.62, 2, "m2"),
            (5.39, 5.412, 3, "m3"), (14.19, 14.24, 3, "fence-0"),
        ],
        disks=dict.fromkeys((1, 2, 3), final),
    )  # fmt: skip


def divergence(*, name: str = "20261121T050100-0.10.2.2-divergence-c3d4") -> Sample:
    """Story 2 on 0.10.2.2: broker 1 comes back and keeps m3 where the others hold m4."""
    made = loss(name=name)
    plan = story_plan("0.10.2.2", "divergence")
    rows = made.replicas
    rows[1] = [r for r in rows[1] if r[0] < 6] + [(12.1, 4, 4), (14.21, 5, 4), (14.8, 5, 5)]  # noqa: RUF005
    rows[2] = [r for r in rows[2] if r[0] < 12] + [
        (12.4, 3, 3),
        (12.6, 4, 4),
        (14.21, 5, 4),
        (14.8, 5, 5),
    ]  # noqa: RUF005
    rows[3] = [r for r in rows[3] if r[0] < 14] + [
        (9.1, 4, 3),
        (9.12, 4, 4),
        (14.2, 5, 4),
        (14.23, 5, 5),
    ]  # noqa: RUF005
    lost = tuple(
        msgspec.structs.replace(
            w, says="m4 is acknowledged at offset 3 by broker 3.", time_ns=ns(9.1)
        )
        if w.what == "replaced"
        else w
        for w in lost_witnesses()
        if w.what not in {"passed", "disk"}
    )
    disk = [
        Witness(time_ns=ns(12.1), who="broker 1", what="follower", leader_epoch=2, source="events/log_lines",
                says="Broker 1 comes back with HW 4 = LEO 4: nothing to cut, nothing to fetch."),
        Witness(who="broker 1", what="disk", says="Broker 1 holds m3 at offset 3.", source="replicas/1"),
        Witness(who="broker 2", what="disk", says="Broker 2 holds m4 at offset 3.", source="replicas/2"),
        Witness(who="broker 3", what="disk", says="Broker 3 holds m4 at offset 3.", source="replicas/3"),
    ]  # fmt: skip
    fork = _lost_anomaly(
        kind="divergence",
        sentence="Offset 3 is m3 on broker 1 and m4 on brokers 2 and 3; all three are in sync.",
        witnesses=(*lost, *disk),
    )
    gone = _lost_anomaly(
        sentence="m3 was acknowledged at offset 3; the final read passed it and found m4 there.",
        witnesses=lost,
    )
    made.plan = plan
    made.verdict = verdict(
        plan,
        name,
        verdict="invalid",
        reasons=("1 acknowledged record is lost.", "In-sync replicas differ at 1 offset."),
        headline="1 of 6 acknowledged records is lost, and in-sync replicas hold different records "
        "at 1 of 5 offsets.",
        ledger=Ledger(sent=6, acknowledged=6, failed=0, unknown=0, read=5, lost=1, unseen=0),
        counts={"lost-write": 1, "divergence": 1},
        anomalies=(gone, fork),
        checkers={"lost-write": "found 1", "divergence": "found 1", "unseen": "held"},
    )
    made.cuts = [c for c in made.cuts if c[1] != 1]
    made.sends = [*made.sends[:4], (9.08, 9.13, 3, "m4"), (14.19, 14.24, 4, "fence-0")]
    base = {i: (f"m{i}", 0) for i in range(3)}
    end = {4: ("fence-0", 2)}
    made.disks = {
        1: {**base, 3: ("m3", 0), **end}, 2: {**base, 3: ("m4", 2), **end}, 3: {**base, 3: ("m4", 2), **end},
    }  # fmt: skip
    return made


def valid(*, name: str = "20261121T050200-4.3.1-loss-e5f6") -> Sample:
    """Story 1 on 4.3.1: broker 3 keeps m3, and nothing is lost."""
    made = loss(name=name)
    made.plan = story_plan("4.3.1", "loss")
    made.verdict = verdict(made.plan, name)
    made.cuts = []
    rows = made.replicas
    rows[1] = [r for r in rows[1] if r[0] < 6] + [(12.1, 4, 4), (14.21, 5, 4), (14.8, 5, 5)]  # noqa: RUF005
    rows[2] = [r for r in rows[2] if r[0] < 12] + [
        (12.4, 4, 3),
        (12.9, 4, 4),
        (14.21, 5, 4),
        (14.8, 5, 5),
    ]  # noqa: RUF005
    rows[3] = [r for r in rows[3] if r[0] < 6] + [(8.7, 4, 4), (14.2, 5, 4), (14.23, 5, 5)]  # noqa: RUF005
    made.sends = [*made.sends[:4], (14.19, 14.24, 4, "fence-0")]
    disk = {**{i: (f"m{i}", 0) for i in range(4)}, 4: ("fence-0", 2)}
    made.disks = dict.fromkeys((1, 2, 3), disk)
    return made


def cut_short(*, name: str = "20261121T050300-2.8.2-kill-a7b8") -> Sample:
    """A run that ended while it was running: no disks, and nobody knows."""
    made = valid(name=name)
    made.plan = Plan(kafka="2.8.2", nemesis=("kill", "pause"), duration_s=60, seed=9)
    made.verdict = verdict(
        made.plan,
        name,
        verdict="unknown",
        reasons=("The run was cut short while it was running.", "There was no final read."),
        headline="Not judged: the run was cut short, and nothing was read at the end.",
        ledger=Ledger(sent=5, acknowledged=4, failed=0, unknown=1, read=0, lost=0, unseen=4),
        checkers={"lost-write": "held", "divergence": "crashed: no replica was frozen"},
    )
    made.sends[-1] = (14.19, None, None, "p-9")
    made.status = Status(phase="running", problems=("Broker 2 did not start again.",))
    made.disks = {}
    return made


def unfinished(run: Run) -> Run:
    """Turn a run's tables back into streams, the last of them cut in the middle, one of them gone."""
    for name, schema in TABLES.items():
        rows = pq.read_table(run.parquet(name)).cast(schema).to_pylist()
        run.parquet(name).unlink()
        with StreamWriter(run.stream(name), schema) as stream:
            for i in range(0, len(rows), 4):
                stream.append_rows(rows[i : i + 4])
    cut = run.stream("events/replicas")
    cut.write_bytes(cut.read_bytes()[: -cut.stat().st_size // 5])
    run.stream("events/log_lines").unlink()
    return run


def big(
    *, name: str = "20261121T050400-0.10.2.2-kill-pause-c9d0", records: int = 100_000
) -> Sample:
    """A random run: many acknowledgements, twenty faults, a burst of lost records."""
    dice = random.Random(7)  # noqa: S311 - a sample, no secret
    plan = Plan(
        kafka="0.10.2.2",
        nemesis=("kill", "pause"),
        duration_s=120,
        seed=7,
        workload=Workload(acks="1", rate=0),
    )
    made = Sample(plan=plan, verdict=verdict(plan, name))
    step = 118.0 / records
    made.sends = [(i * step + 1, i * step + 1.01, i, f"p{i % 3}-{i}") for i in range(records)]
    made.partitions = [(0.5, 1, 0, [1, 2, 3])]
    made.replicas = {b: [(0.5, 0, 0)] for b in (1, 2, 3)}
    for i in range(0, 118 * 20):
        t = 1 + i / 20
        leo = int(i / 20 / step)
        for broker in (1, 2, 3):
            lag = dice.randrange(0, 40) if broker > 1 else 0
            made.replicas[broker].append(
                (t, max(0, leo - lag), max(0, leo - lag - dice.randrange(60)))
            )
    for i in range(20):
        t, broker = 4 + i * 5.6, 1 + i % 3
        fault = ("kill", "pause")[i % 2]
        made.faults.append((t, fault, "inject", broker, f"broker {broker} is {fault}ed"))
        if i < 19:
            made.faults.append((t + 3.1, fault, "heal", broker, f"broker {broker} runs again"))
        leader = 1 + (broker % 3)
        made.partitions.append((t + 1.9, leader, i + 1, [b for b in (1, 2, 3) if b != broker]))
        made.partitions.append((t + 4.2, leader, i + 1, [1, 2, 3]))
        rows = made.replicas[broker]
        made.replicas[broker] = [r for r in rows if not t < r[0] < t + 3.4]
        made.replicas[broker].append((t + 0.03, None, None))
        made.replicas[broker].sort()
    lost = [
        _big_loss(int((4 + 5.6 * k - 1) / step) - n, step)
        for k in (2, 9, 15)
        for n in range(1, 101)
    ]
    read = records - len(lost)
    made.verdict = verdict(
        plan,
        name,
        verdict="valid",
        headline=f"{len(lost)} of {records:,} acknowledged records are lost, as acks=1 allows.",
        promise="acks=1 promises that the leader wrote a record, not that it survives the leader.",
        ledger=Ledger(sent=records + 90, acknowledged=records, failed=40, unknown=50, read=read,
                      lost=len(lost), unseen=0),
        counts={"lost-write": len(lost)},
        anomalies=tuple(lost),
        checkers={"lost-write": f"found {len(lost)}", "divergence": "held"},
    )  # fmt: skip
    everything = {i: (f"p{i % 3}-{i}", 0) for i in range(records)}
    for each in lost:
        everything[each.offset or 0] = (f"q-{each.offset}", 3)
    made.disks = dict.fromkeys((1, 2, 3), everything)
    return made


def _big_loss(offset: int, step: float) -> Anomaly:
    t = offset * step + 1
    value = f"p{offset % 3}-{offset}"
    return _lost_anomaly(
        offset=offset,
        value=value,
        breaks=False,
        sentence=f"{value} was acknowledged at offset {offset} by the leader alone.",
        witnesses=(
            Witness(time_ns=ns(t + 0.01), who="broker 1", what="acknowledged", source="history/ops",
                    says=f"Broker 1 acknowledges {value}."),
            Witness(time_ns=ns(t + 1), who="broker 1", what="killed", source="events/faults",
                    says="Broker 1 is killed."),
        ),
    )  # fmt: skip


def hostile(*, name: str = "20261121T050500-0.10.2.2-loss-ffff") -> Sample:
    """The loss story with records that want to be more than records."""
    made = loss(name=name)
    evil = ("<script>alert(1)</script>", "\u202egnp.exe\u2066\x00\x1b[31m", "x" * 10_000)
    anomalies = tuple(
        _lost_anomaly(value=value, sentence=f"{value} is lost.", offset=3) for value in evil
    )
    made.verdict = msgspec.structs.replace(
        made.verdict,
        anomalies=anomalies,
        counts={"lost-write": 3},
        headline=f"Lost: {evil[0]} & {evil[1]}",
        checkers={"</table><img src=x onerror=alert(2)>": "crashed: \"'<b>"},
    )
    made.sends += [(6.0, 6.01, 3, value) for value in evil]
    made.faults.append((6.1, '"><svg onload=alert(3)>', "inject", 3, "<i>oops</i>\u202e"))
    for disk in made.disks:
        made.disks[disk] = {**made.disks[disk], 4: (evil[0], 2), 5: (evil[1], 2), 6: (evil[2], 2)}
    return made


SAMPLES: Final[Mapping[str, Callable[[], Sample]]] = {
    "loss": loss,
    "divergence": divergence,
    "valid": valid,
    "cut-short": cut_short,
    "hostile": hostile,
    "big": big,
}


def write_all(store: Path, names: Iterable[str] = SAMPLES) -> dict[str, Run]:
    """Every sample as a run below ``store``."""
    return {name: SAMPLES[name]().write(store) for name in names}
