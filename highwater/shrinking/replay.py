"""The exact steps of a run, or of a plan in a file, on fresh brokers."""

import tempfile
import threading
from pathlib import Path

import msgspec

from highwater.api import JudgedRun, Progress, judge_all
from highwater.checkers.spark.session import SparkStarter
from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.base.spark_options import HERE, SparkOptions
from highwater.harness.base.wording import count
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import Run, Store
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.executed_steps import By, whole_steps
from highwater.runtime.preflight import check_plan


def plan_again(name: str, store: Store, *, by: By, kafka: str | None = None) -> Plan:
    """Return the plan that does the same as a run, or as a file says.

    Args:
        name: a run of the store, a run directory, or a file that holds a plan as JSON.
        by: how steps of a run find their targets. A plan's own steps say that themselves.
        kafka: another release to do it on.

    Raises:
        UsageError: it is neither, or the steps cannot be taken on that release.
        StoreError: a run that cannot be read.
    """
    replayed = read_plan(Path(name)) if Path(name).is_file() else as_taken(store.open(name), by=by)
    plan = msgspec.structs.replace(replayed, kafka=kafka or replayed.kafka)
    refuse_external(plan)
    check_plan(plan)
    return plan


def refuse_external(plan: Plan) -> None:
    """Refuse to break a cluster again that was confirmed for one run.

    Raises:
        UsageError: the plan is for an external cluster.
    """
    if plan.external is not None:
        raise UsageError(
            f"cluster {plan.external.cluster_id} is not ours, and was confirmed for one run only",
            hint="Repeat that from its seed, and confirm it: highwater run --inventory …",
        )


def read_plan(path: Path) -> Plan:
    """Return a plan from a file.

    Raises:
        UsageError: the file holds none, or cannot be read.
    """
    try:
        return Plan.from_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except StoreError as error:
        raise UsageError(
            f"{path} holds no plan: {error.message}",
            hint="A run's plan.json and what highwater shrink writes are plans; see"
            " docs/schedules.md.",
        ) from error


def as_taken(run: Run, *, by: By) -> Plan:
    """Return the plan of a run with its executed steps; a story or schedule as it is.

    Raises:
        UsageError: the run never came so far.
        StoreError: it cannot be read.
    """
    plan = run.plan()
    if plan.story is not None or plan.schedule is not None:
        return plan
    steps = whole_steps(run).steps(by)
    return msgspec.structs.replace(plan, nemesis=(), budget={}, overlap=1, steps=steps)


def perform(
    plan: Plan,
    store: Store,
    *,
    repeat: int = 1,
    spark: SparkOptions = HERE,
    progress: Progress = lambda *_: None,
) -> list[JudgedRun]:
    """Do a plan this many times, on one warm cluster with a topic for each, and judge all runs.

    Raises:
        UsageError: the plan asks for what there is not; nothing was started.
        HarnessError: a run could not go on. The runs that ended before are in the store.
    """
    check_plan(plan)
    stop = threading.Event()
    with (
        SparkStarter(spark) as starter,
        tempfile.TemporaryDirectory(prefix="highwater-") as folder,
        ClusterPool(Path(folder) / "clusters") as fleet,
    ):
        done: list[Run] = []
        for number in range(repeat):
            label = f"{plan.kafka} {plan.happens} {number + 1} of {repeat}"

            def tell(step: str, label: str = label) -> None:
                progress(label, step)

            done.append(fleet.execute(plan, store, stop=stop, progress=tell))
        fleet.close()
        progress("judge", f"judging {count(len(done), 'run')} in Spark")
        return judge_all(done, starter.session())
