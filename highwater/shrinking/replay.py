"""Repeat the executed steps of a run, or a plan from a file, on new brokers."""

from pathlib import Path

import msgspec

from highwater.api import JudgedRun, Progress, perform_groups
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.spark_options import HERE, SparkOptions
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.runtime.campaign import Campaign, PlannedRun
from highwater.runtime.executed_steps import By, whole_steps
from highwater.runtime.preflight import check_plan


def plan_again(name: str, store: Store, *, by: By, kafka: str | None = None) -> Plan:
    """Return a plan that repeats a run, or the plan of a file.

    Args:
        name: name of a run in the store, or path of a run directory or a plan file.
        by: for a run: repeat each step on the same ``role``, or on the same ``broker`` id.
    """
    file = next((path for path in (Path(name), store.root / name) if path.is_file()), None)
    replayed = read_plan(file) if file else as_taken(store.open(name), by=by)
    plan = msgspec.structs.replace(replayed, kafka=kafka or replayed.kafka)
    refuse_external(plan)
    check_plan(plan)
    return plan


def refuse_external(plan: Plan) -> None:
    """Raise an error for an external cluster: the user confirmed its use for one run only."""
    if plan.external is not None:
        raise UsageError(
            f"cluster {plan.external.cluster_id} is external, and you confirmed it for one run "
            "only",
            hint="Repeat the run from its seed, and confirm: highwater run --inventory …",
        )


def read_plan(path: Path) -> Plan:
    """Read a plan from a file: as TOML if its suffix is .toml, else as JSON."""
    try:
        text = path.read_bytes()
        if path.suffix == ".toml":
            text = msgspec.json.encode(msgspec.toml.decode(text))
        return Plan.from_json(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, StoreError) as error:
        raise UsageError(
            f"{path} is no plan: {getattr(error, 'message', error)}",
            hint="Name a run's plan.json, or the plan.json of highwater shrink "
            "(docs/schedules.md).",
        ) from error


def as_taken(run: Run, *, by: By) -> Plan:
    """Return a run's plan with the steps that the run executed.

    The plan of a story, or of a schedule from the model, is returned unchanged.
    """
    plan = run.plan()
    if plan.story is not None or plan.schedule is not None:
        return plan
    steps = whole_steps(run).steps(by)
    return msgspec.structs.replace(plan, nemesis=(), budget={}, overlap=1, calm_s=0.0, steps=steps)


def perform(
    plan: Plan,
    store: Store,
    *,
    repeat: int = 1,
    spark: SparkOptions = HERE,
    progress: Progress = lambda *_: None,
) -> list[JudgedRun]:
    """Perform a plan ``repeat`` times on one cluster, with a new topic each time, and judge."""
    check_plan(plan)
    happens = f"{plan.kafka} {plan.happens}"
    runs = [
        PlannedRun(plan=plan, label=f"{happens} {number + 1} of {repeat}")
        for number in range(repeat)
    ]
    return perform_groups([runs], Campaign(store=store, progress=progress), spark)
