"""What the two stories leave behind: times, cuts and elections follow what real brokers did."""

from collections.abc import Sequence
from typing import Final

import msgspec

from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.verdict import Anomaly, Ledger, Verdict, Witness
from tests.browser import predicted
from tests.browser.sample import TOPIC, Sample, ns


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
    "acks=all with min.insync.replicas=1 and clean elections: a record that every in-sync replica "
    "had when it was acknowledged is read by every consumer that passes its offset."
)


def witness(t: float | None, who: str, what: str, epoch: int | None, says: str) -> Witness:
    """A piece of evidence, as ``checkers.lineage`` words it."""
    source = {"held": "events/replicas", "truncated": "events/log_lines", "kill": "events/faults",
              "follower": "events/log_lines", "elected": "events/partitions",
              "disk": "replicas"}.get(what, "history/ops")  # fmt: skip
    time_ns = None if t is None else ns(t)
    return Witness(
        time_ns=time_ns, who=who, what=what, leader_epoch=epoch, says=says, source=source
    )


def lost_witnesses() -> tuple[Witness, ...]:
    """What the loss story shows of m3."""
    window = "held offset 3 (LEO 4) above its HW, which was still 3."
    dead = "Broker 2 became leader in epoch 1, ISR [2, 3], although it is dead."
    return (
        witness(5.39, "story", "sent", None, "story sent m3 with acks=all."),
        witness(5.401, "broker 1", "held", 0, "Broker 1, the leader, appended m3 at offset 3."),
        witness(5.409, "broker 2", "held", 0, f"Broker 2 {window}"),
        witness(5.410, "broker 3", "held", 0, f"Broker 3 {window}"),
        witness(5.412, "broker 1", "acknowledged", 0, "Broker 1 acknowledged m3 at offset 3."),
        witness(5.415, "nemesis", "kill", None, "Broker 1 is killed."),
        witness(6.515, "nemesis", "kill", None, "Broker 2 is killed."),
        witness(7.449, "broker 3", "truncated", 1, "Broker 3 logged: “Truncating to offset 3”"),
        witness(7.455, "controller", "elected", 1, dead),
        witness(7.46, "broker 3", "truncated", 1, "Broker 3 truncated its log: LEO 4 became 3."),
        witness(8.61, "controller", "elected", 2, "Broker 3 became leader in epoch 2, ISR [3]."),
        witness(14.2, "broker 3", "replaced", 2, "Broker 3 acknowledged fence-0 at offset 3."),
        witness(None, "reader", "passed", None, "The final reader passed offset 3 without m3."),
    )


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


def lost_anomaly(**changes: object) -> Anomaly:
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
            anomalies=(lost_anomaly(),),
            checkers={"lost-write": "found 1", "divergence": "held", "unseen": "held",
                      "duplicate": "held", "corrupt": "held"},
        ),
        replicas=rows,
        partitions=[
            (0.6, 1, 0, [1, 2, 3]), (7.455, 2, 1, [2, 3]), (8.61, 3, 2, [3]),
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
            (7.449, 3, 3, "Truncating log events-0 to offset 3. (kafka.log.Log)"),
            (11.98, 1, 3, "Truncating log events-0 to offset 3. (kafka.log.Log)"),
            (12.2, 2, 3, "Truncating log events-0 to offset 3. (kafka.log.Log)"),
        ],
        sends=[
            (1.19, 1.22, 0, "m0"), (2.39, 2.42, 1, "m1"), (3.59, 3.62, 2, "m2"),
            (5.39, 5.412, 3, "m3"), (14.19, 14.24, 3, "fence-0"),
        ],
        disks=dict.fromkeys((1, 2, 3), final),
        model=predicted.as_predicted(name),
    )  # fmt: skip


def divergence(*, name: str = "20261121T050100-0.10.2.2-divergence-c3d4") -> Sample:
    """Story 2 on 0.10.2.2: broker 1 comes back and keeps m3 where the others hold m4."""
    made = loss(name=name)
    plan = story_plan("0.10.2.2", "divergence")
    rows = made.replicas
    rows[1] = [r for r in rows[1] if r[0] < 6] + [(12.1, 4, 4), (14.21, 5, 4), (14.8, 5, 5)]
    rows[2] = [r for r in rows[2] if r[0] < 12] + [
        (12.4, 3, 3),
        (12.6, 4, 4),
        (14.21, 5, 4),
        (14.8, 5, 5),
    ]
    rows[3] = [r for r in rows[3] if r[0] < 14] + [
        (9.1, 4, 3),
        (9.12, 4, 4),
        (14.2, 5, 4),
        (14.23, 5, 5),
    ]
    lost = (
        *(w for w in lost_witnesses() if w.what not in {"replaced", "passed"}),
        witness(9.1, "broker 3", "replaced", 2, "Broker 3 acknowledged m4 at the same offset 3."),
    )
    back = "Broker 1 is back with HW 4 = LEO 4: nothing to cut, nothing to fetch."
    disk = [
        witness(12.1, "broker 1", "follower", 2, back),
        witness(None, "broker 1", "disk", 0, "The disk of broker 1 holds m3 at offset 3."),
        witness(None, "broker 2", "disk", 2, "The disk of broker 2 holds m4 at offset 3."),
        witness(None, "broker 3", "disk", 2, "The disk of broker 3 holds m4 at offset 3."),
    ]
    fork = lost_anomaly(
        kind="divergence",
        sentence="Offset 3 is m3 on broker 1 and m4 on brokers 2 and 3; all three are in sync.",
        witnesses=(*lost, *disk),
    )
    gone = lost_anomaly(
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
    made.model = predicted.forked(name)
    made.cuts = [c for c in made.cuts if c[1] != 1]
    made.sends = [*made.sends[:4], (9.08, 9.13, 3, "m4"), (14.19, 14.24, 4, "fence-0")]
    base = {i: (f"m{i}", 0) for i in range(3)}
    end = {4: ("fence-0", 2)}
    made.disks = {
        1: {**base, 3: ("m3", 0), **end},
        2: {**base, 3: ("m4", 2), **end},
        3: {**base, 3: ("m4", 2), **end},
    }
    return made


def valid(*, name: str = "20261121T050200-4.3.1-loss-e5f6") -> Sample:
    """Story 1 on 4.3.1: broker 3 keeps m3, and nothing is lost."""
    made = loss(name=name)
    made.plan = story_plan("4.3.1", "loss")
    made.verdict = verdict(made.plan, name)
    made.model = predicted.kept(name)
    made.cuts = []
    rows = made.replicas
    rows[1] = [r for r in rows[1] if r[0] < 6] + [(12.1, 4, 4), (14.21, 5, 4), (14.8, 5, 5)]
    rows[2] = [r for r in rows[2] if r[0] < 12] + [
        (12.4, 4, 3),
        (12.9, 4, 4),
        (14.21, 5, 4),
        (14.8, 5, 5),
    ]
    rows[3] = [r for r in rows[3] if r[0] < 6] + [(8.7, 4, 4), (14.2, 5, 4), (14.23, 5, 5)]
    made.sends = [*made.sends[:4], (14.19, 14.24, 4, "fence-0")]
    disk = {**{i: (f"m{i}", 0) for i in range(4)}, 4: ("fence-0", 2)}
    made.disks = dict.fromkeys((1, 2, 3), disk)
    return made
