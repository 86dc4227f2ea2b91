"""Sample runs by name: the stories, and runs that try a report's patience."""

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from highwater.harness.runs.history import TABLES, StreamWriter
from highwater.harness.runs.plan import Plan, Workload
from highwater.harness.runs.store import Run, RunStatus
from highwater.harness.runs.verdict import Anomaly, Ledger, Witness
from tests.browser import predicted
from tests.browser.sample import Sample, ns
from tests.browser.stories import divergence, loss, lost_anomaly, valid, verdict


def cut_short(*, name: str = "20261121T050300-2.8.2-kill-a7b8") -> Sample:
    """A run that ended while it was running: no disks, and nobody knows."""
    made = valid(name=name)
    made.model = predicted.unexplained(name)
    made.plan = Plan(kafka="2.8.2", nemesis=("kill", "pause"), duration_s=60, seed=9)
    made.verdict = verdict(
        made.plan,
        name,
        verdict="unknown",
        reasons=("The run was ended early while it was running.", "There was no final read."),
        headline="Not judged: the run was cut short, and nothing was read at the end.",
        ledger=Ledger(sent=5, acknowledged=4, failed=0, unknown=1, read=0, lost=0, unseen=4),
        checkers={"lost-write": "held", "divergence": "crashed: no replica was frozen"},
    )
    made.sends[-1] = (14.19, None, None, "p-9")
    made.status = RunStatus(phase="running", problems=("Broker 2 did not start again.",))
    made.disks = {}
    return made


def unfinished(run: Run) -> Run:
    """Turn a run's tables back into streams, one of them cut in the middle and one gone."""
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
    for i in range(118 * 20):
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
    return lost_anomaly(
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
        lost_anomaly(value=value, sentence=f"{value} is lost.", offset=3) for value in evil
    )
    made.judged(
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
