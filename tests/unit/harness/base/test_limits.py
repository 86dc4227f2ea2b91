"""What is refused for its size is named by --help, and taken from the least to the most."""

from typing import Any

import msgspec
import pytest
import typer.main

from highwater.checkers.model.protocol.scope import BOUNDS, Scope
from highwater.cli.app import app
from highwater.harness.base import limits
from highwater.harness.base.errors import UsageError
from highwater.harness.base.limits import Limit
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.nemesis.schedules.generator import LEAST_S
from highwater.runtime.preflight import check_plan

LIMITS: dict[str, tuple[Limit, str]] = {
    "brokers": (limits.BROKERS, limits.BROKERS.says),
    "partitions": (limits.PARTITIONS, limits.PARTITIONS.says),
    "producers": (limits.CLIENTS, limits.CLIENTS.says),
    "consumers": (limits.CLIENTS, limits.CLIENTS.says),
    "subscribe": (limits.CLIENTS, limits.CLIENTS.says),
    "aborts": (limits.ABORTS, limits.ABORTS.says),
    "record_bytes": (limits.RECORD_BYTES, "16 to 900000"),
    "churn": (limits.CHURN_S, "1s to 1h"),
    "delivery_timeout": (limits.DELIVERY_S, "1s to 1h"),
    "duration": (limits.FAULTS_S, "0s to 168h"),
    "overlap": (limits.OVERLAP, limits.OVERLAP.says),
    "budget": (limits.TIMES, limits.TIMES.says),
}
"""By the name of the parameter: the limit, and how --help names it."""

OTHERWISE = {
    "subscribe": "subscribe",
    "churn": "churn_s",
    "delivery_timeout": "delivery_timeout_s",
}


def helps(*command: str) -> dict[str, str]:
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    return {one.name: one.help for one in found.params if getattr(one, "help", None)}


def asked(name: str, value: int) -> Plan:
    """A plan that asks for so much of it."""
    plan = Plan(kafka="4.3.1", nemesis=("kill", "pause"), duration_s=60)
    match name:
        case "brokers":
            topic = Topic(replication_factor=min(3, max(1, value)))
            return msgspec.structs.replace(plan, brokers=value, topic=topic)
        case "partitions":
            return msgspec.structs.replace(plan, topic=Topic(partitions=value))
        case "duration":
            return msgspec.structs.replace(plan, nemesis=(), duration_s=float(value))
        case "overlap":
            return msgspec.structs.replace(plan, overlap=value)
        case "budget":
            return msgspec.structs.replace(plan, budget={"kill": value})
        case _:
            fields = msgspec.structs.asdict(Workload()) | {OTHERWISE.get(name, name): value}
            return msgspec.structs.replace(plan, workload=Workload(**fields))


@pytest.mark.parametrize("name", LIMITS)
def test_help_names_what_is_refused(name: str) -> None:
    limit, says = LIMITS[name]
    assert says in helps("run")[name]
    for value in limit:
        check_plan(asked(name, value))
    for value in (limit.least - 1, limit.most + 1):
        if name == "churn" and value == 0:
            continue  # that is none at all
        with pytest.raises(UsageError) as refused:
            check_plan(asked(name, value))
        assert f"{limit.most:,}" in refused.value.hint or says in refused.value.hint


@pytest.mark.parametrize("name", BOUNDS)
def test_help_names_the_bounds_of_a_search(name: str) -> None:
    least, most = BOUNDS[name]
    assert f"{least} to {most}" in helps("model", "explore")[name]
    for value in (least - 1, most + 1):
        with pytest.raises(UsageError):
            Scope(**{name: value})  # type: ignore[arg-type]


def test_a_weight_is_named() -> None:
    assert limits.WEIGHT.says in helps("run")["nemesis"]


def test_durations_are_named_as_they_are_typed() -> None:
    assert Limit(0, 90).lasting == "0s to 90s"
    assert Limit(60, 7200).lasting == "1m to 2h"


def test_the_least_duration_of_a_random_schedule_is_named() -> None:
    assert f"at least {LEAST_S:g}s" in helps("run")["duration"]
