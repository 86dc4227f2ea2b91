"""Which runs end with questions: to coordinators, and about times to leaders."""

import pytest

from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.runtime.final_requests import asks_coordinators, looks_up_times

TRANSACTIONS = Workload(transactions=True, idempotence=True)


@pytest.mark.parametrize(
    ("plan", "asks"),
    [
        (Plan(kafka="4.4.0", workload=TRANSACTIONS), True),
        (Plan(kafka="4.4.0", workload=Workload(subscribe=2)), True),
        (Plan(kafka="4.4.0", workload=Workload(share=2)), True),
        (Plan(kafka="4.4.0", workload=Workload()), False),
        (Plan(kafka="2.8.2", workload=TRANSACTIONS), False),
        (Plan(kafka="4.4.0", workload=TRANSACTIONS, brokers=1), False),
        (Plan(kafka="4.4.0", workload=TRANSACTIONS, story="removed-group"), False),
    ],
)
def test_which_runs_ask(plan: Plan, *, asks: bool) -> None:
    assert asks_coordinators(plan) is asks


@pytest.mark.parametrize(
    ("plan", "asks"),
    [
        (Plan(kafka="4.4.0"), True),
        (Plan(kafka="0.10.2.2"), True),
        (Plan(kafka="0.10.0.1"), False),
        (Plan(kafka="4.4.0", topic=Topic(config={"cleanup.policy": "delete"})), True),
        (Plan(kafka="4.4.0", topic=Topic(config={"cleanup.policy": "compact"})), False),
    ],
)
def test_which_runs_look_up_times(plan: Plan, *, asks: bool) -> None:
    assert looks_up_times(plan) is asks
