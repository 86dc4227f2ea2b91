"""Write a plan in a short form: as JSON without default values, or as a pytest test."""

from typing import Any, Final

import msgspec
from msgspec.structs import fields

from highwater.harness.runs.plan import Plan
from highwater.shrinking.trials import Goal

_TEST: Final = '''"""Kafka {kafka}: {what}.

Written by highwater shrink. It was so in {hits} of {runs} runs.
"""

import pytest

from highwater import KafkaRun, Plan

PLAN = Plan.from_json(
    r"""
{plan}
""".encode()
)


@pytest.mark.kafka("{kafka}")
def test_{name}(kafka_run: KafkaRun) -> None:
    """Fails when it happens again in one of {tries} runs."""
    for _ in range({tries}):
        kafka_run(PLAN, check=False).assert_none({kinds})
'''
_TRIES: Final = 3


def brief_json(plan: Plan) -> bytes:
    """Return the plan as JSON without default values; ``Plan.from_json`` reads it."""
    return msgspec.json.format(
        msgspec.json.encode(_brief(plan) | {"schema": plan.schema}), indent=2
    )


def _brief(value: Any) -> Any:  # noqa: ANN401 - whatever a plan holds
    """Convert a value to Python's built-in types.

    A struct becomes a dict of the fields that differ from their defaults.
    """
    if isinstance(value, tuple):
        return [_brief(item) for item in value]
    if not isinstance(value, msgspec.Struct):
        return value
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {
        field.name: _brief(values[field.name])
        for field in fields(value)
        if values[field.name] not in (field.default, _made(field.default_factory))
    }


def _made(factory: Any) -> Any:  # noqa: ANN401 - msgspec's mark for none, or a function
    return factory() if callable(factory) else factory


def module_of(plan: Plan, goal: Goal, hits: int, runs: int) -> str:
    """Return a Python module with one test, which fails if the plan reproduces the anomaly."""
    faults = [step.fault for step in plan.steps]
    return _TEST.format(
        kafka=plan.kafka,
        what=f"{', '.join(goal.kinds)} after {', '.join(faults) or 'no fault at all'}",
        hits=hits,
        runs=runs,
        plan=brief_json(plan).decode(),
        name="no_" + "_".join(goal.kinds).replace("-", "_").lower(),
        tries=_TRIES,
        kinds=", ".join(f'"{kind}"' for kind in goal.kinds),
    )
