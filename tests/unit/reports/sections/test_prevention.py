"""What would have kept a record is said where the model's chain has a link that can be broken."""

import pytest

from highwater.checkers.model.report_types import (
    ExplanationLink,
    ModelFinding,
    PartitionOutcome,
    Reconciliation,
)
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.reports.sections.prevention import prevention


def said(kafka: str, *rules: str, kind: str = "lost-write") -> Reconciliation:
    chain = tuple(ExplanationLink(rule=rule, says="So it was.") for rule in rules)
    finding = ModelFinding(
        kind=kind, topic="events", partition=0, offset=3, record="m3", verdict="explained",
        because=chain,
    )  # fmt: skip
    return Reconciliation(
        run="run", kafka=kafka, kind="random", status="explained", observed=PartitionOutcome(),
        findings=(finding, finding),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "rules", "begins"),
    [
        (Plan(kafka="0.10.2.2"), ("acks=all", "epochs", "elections"), ["Kafka 0.11.0.2 or later."]),
        (Plan(kafka="1.1.1"), ("acks=all", "exact_epochs"), ["Kafka 2.0.0 or later."]),
        (
            Plan(kafka="4.3.1", workload=Workload(acks="1")),
            ("acks=1", "elections"),
            ["acks=all: a record"],
        ),
        (Plan(kafka="4.3.1"), ("acks=all", "unclean"), ["unclean.leader.election.enable=false"]),
        (
            Plan(kafka="0.11.0.3", protocol="0.10.2"),
            ("acks=all", "epochs"),
            ["Kafka 0.11.0.3's own inter.broker.protocol.version"],
        ),
        (
            Plan(kafka="0.10.2.2", to=("0.11.0.3",), story="loss", protocol="0.10.2"),
            ("acks=all", "epochs"),
            ["Kafka 0.11.0.3's own inter.broker.protocol.version"],
        ),
        (Plan(kafka="4.3.1"), ("acks=all", "epochs"), []),
        (
            Plan(kafka="4.0.2"),
            ("power-failure", "elr"),
            ["Kafka 4.1.2 or later, with min.insync.replicas=2."],
        ),
        (
            Plan(kafka="4.0.2", topic=Topic(min_insync_replicas=2)),
            ("power-failure", "elr"),
            ["Kafka 4.1.2 or later."],
        ),
        (Plan(kafka="3.9.0"), ("late_fenced",), ["Kafka 3.9.2 or later, except 4.0.0."]),
        (Plan(kafka="2.8.2"), ("late_fenced",), ["Kafka 3.9.2-zk or later, except 4.0.0."]),
        (Plan(kafka="4.0.0"), ("late_fenced",), ["Kafka 4.0.1 or later."]),
        (Plan(kafka="4.4.0"), ("elected_again_is_new",), []),
        (Plan(kafka="9.9.9"), ("acks=1",), []),
    ],
)
def test_each_link_that_can_be_broken_is_a_remedy(
    plan: Plan, rules: tuple[str, ...], begins: list[str]
) -> None:
    found = prevention(plan, said(plan.kafka, *rules))
    assert len(found) == len(begins)
    for one, begin in zip(found, begins, strict=True):
        assert one.startswith(begin)


def test_where_nothing_was_harmed_nothing_is_advised() -> None:
    plan = Plan(kafka="0.10.2.2")
    assert prevention(plan, None) == ()
    assert prevention(plan, said("0.10.2.2", "epochs", kind="duplicate")) == ()
