"""What the model says of the sample runs."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from highwater.checkers.model.report_types import (
    Difference,
    ExplanationLink,
    ModelFinding,
    ModelSnapshot,
    PartitionOutcome,
    Reconciliation,
)
from highwater.checkers.model.schedules.script_trace import recast
from highwater.harness.releases.catalogue import release
from highwater.nemesis.stories.registry import find_story
from tests.browser.sample import TOPIC, ns

KEPT: Final = ("m0", "m1", "m2")
CHAIN: Final = (
    ExplanationLink(
        rule="acks=all",
        says="Broker 1 acknowledged m3 when its whole ISR, 1, 2 and 3, held it.",
        event="m3 ok at offset 3; LEO 4 on brokers 1, 2 and 3",
        broker=1,
        time_ns=ns(5.412),
    ),
    ExplanationLink(
        rule="epochs",
        says="A new leader was named, and broker 3 truncated its log to its HW 3, without asking.",
        event="Truncating log events-0 to offset 3. (kafka.log.Log)",
        broker=3,
        time_ns=ns(7.449),
    ),
    ExplanationLink(
        rule="clean-election",
        says="Broker 3 was elected out of the ISR, and did not hold m3 any more.",
        event="leader 3, epoch 2, ISR [3]",
        broker=3,
        time_ns=ns(8.61),
    ),
)
LOST: Final = ModelFinding(
    kind="lost-write", topic=TOPIC, partition=0, offset=3, record="m3", verdict="explained",
    because=CHAIN,
)  # fmt: skip


def outcome(
    *logs: Sequence[str], lost: tuple[str, ...] = (), forked: tuple[int, ...] = ()
) -> PartitionOutcome:
    """Logs of brokers 1, 2 and 3."""
    held: Mapping[str, tuple[str, ...]] = {str(b): tuple(log) for b, log in enumerate(logs, 1)}
    return PartitionOutcome(lost=lost, forked=forked, logs=dict(held))


def course(story: str, kafka: str) -> tuple[ModelSnapshot, ...]:
    """How the model has brokers 1, 2 and 3 in a story, step by step."""
    found = find_story(story)
    return recast(found.rehearse(release(kafka), found.plan(kafka)), ("1", "2", "3"))


def as_predicted(run: str) -> Reconciliation:
    """The loss story: m3 was to be lost, and is."""
    both = outcome(*[KEPT] * 3, lost=("m3",))
    return Reconciliation(
        run=run, kafka="0.10.2.2", kind="scripted", status="as-predicted", predicted=both,
        observed=both, findings=(LOST,), course=course("loss", "0.10.2.2"),
        checked={"elections": 2, "cuts": 3, "ISR changes": 4},
    )  # fmt: skip


def forked(run: str) -> Reconciliation:
    """The divergence story: m3 was to be lost on all but broker 1, and is."""
    both = outcome(
        (*KEPT, "m3"), (*KEPT, "m4"), (*KEPT, "m4"), lost=("m3",), forked=(3,)
    )  # fmt: skip
    fork = msgspec.structs.replace(LOST, kind="divergence")
    return msgspec.structs.replace(
        as_predicted(run), predicted=both, observed=both, findings=(LOST, fork),
        course=course("divergence", "0.10.2.2"),
    )  # fmt: skip


def kept(run: str) -> Reconciliation:
    """The loss story on a release that keeps m3."""
    both = outcome(*[(*KEPT, "m3")] * 3)
    return msgspec.structs.replace(
        as_predicted(run), kafka="4.3.1", predicted=both, observed=both, findings=(),
        course=course("loss", "4.3.1"),
    )  # fmt: skip


def not_reproduced(run: str) -> Reconciliation:
    """m3 was to be lost, and is not."""
    return msgspec.structs.replace(
        as_predicted(run),
        status="not-reproduced",
        observed=outcome(*[(*KEPT, "m3")] * 3),
        findings=(),
        absent=("m3 should be lost: broker 3 should cut it, and did not.",),
        differences=tuple(
            Difference(broker=b, offset=3, predicted=None, observed="m3") for b in (1, 2, 3)
        ),
    )


def unexplained(run: str) -> Reconciliation:
    """A random run in which a record is gone that nobody cut."""
    link = ExplanationLink(
        rule="out-of-thin-air",
        says="Broker 2 held m7 at offset 7, cut nothing, and does not hold it any more.",
        event="no truncation of broker 2 was logged or observed",
        broker=2,
        time_ns=None,
    )
    strange = ModelFinding(
        kind="lost-write", topic=TOPIC, partition=0, offset=7, record="m7",
        verdict="unexplained", because=(link,), count=2,
    )  # fmt: skip
    return Reconciliation(
        run=run, kafka="2.8.2", kind="random", status="unexplained", observed=PartitionOutcome(),
        findings=(LOST, strange), checked={"elections": 9},
    )  # fmt: skip
