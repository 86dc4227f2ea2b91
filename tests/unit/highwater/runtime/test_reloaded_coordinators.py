"""Only random runs on several brokers of our own end with questions to coordinators."""

import pytest

from highwater.harness.runs.plan import Plan, Workload
from highwater.runtime.reloaded_coordinators import asks_coordinators

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
