"""A model's schedule on real brokers, from the schedule to a run directory that can be judged."""

import threading

from highwater.checkers.model.schedules.schedule import Schedule
from highwater.harness.runs.store import Run, Store
from highwater.nemesis.model_replay.schedule_replay import plan
from highwater.runtime.cluster_pool import ClusterPool
from highwater.runtime.run_status import Progress
from highwater.runtime.runner import execute


def replay(
    schedule: Schedule,
    kafka: str,
    store: Store,
    *,
    stop: threading.Event,
    seed: int = 0,
    driver: str = "local",
    progress: Progress = lambda _: None,
    fleet: ClusterPool | None = None,
) -> Run:
    """Replay a schedule on a release, which need not be the release it was generated for.

    A step that fails, or that has another effect than expected, becomes a problem in
    ``status.json`` that names it; the run is then judged ``unknown``, since the schedule was not
    reproduced. ``schedule.json`` in the run is the schedule.

    Args:
        stop: set from outside to end the run early.
        fleet: a pool of warm clusters; without it, the run starts a cluster. Schedules share a
            cluster when ``nemesis.model_replay.schedule_replay.settings`` are the same for them.

    Raises:
        UsageError: no such release or driver, or the schedule needs something that does not exist.
        HarnessError: the harness could not go on.
    """
    replay_plan = plan(schedule, kafka, seed=seed, driver=driver)
    if fleet is None:
        run = execute(replay_plan, store, stop=stop, progress=progress)
    else:
        run = fleet.execute(replay_plan, store, stop=stop, progress=progress)
    run.write("schedule.json", schedule.to_json())
    return run
