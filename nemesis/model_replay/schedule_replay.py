"""Execute a schedule from the model on real brokers.

The model executes one step at a time, but real brokers run concurrently. So the player pauses
(SIGSTOP) each broker that must not act yet, and after each step it waits for the expected state. A
pause must be shorter than the replica lag limit, and with ZooKeeper than the session timeout
(``settings``). If the brokers do not follow the schedule, a ScheduleNotFollowedError names the
step.
"""

import contextlib
from dataclasses import dataclass
from typing import Final

from highwater.checkers.model.schedules.schedule import Schedule, ScheduleStep
from highwater.clusters.admin.sessions import await_cluster
from highwater.clusters.core.interfaces import Cluster, Probe
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.hw_lag_window import widen
from highwater.nemesis.model_replay.message_player import LAG_S, SETTINGS, MessagePlayer
from highwater.nemesis.model_replay.replay_steps import replay_steps
from highwater.nemesis.model_replay.step_player import Player
from highwater.nemesis.stories.story import FETCH_WAIT_S

ZOOKEEPER_SESSION_S: Final = 18.0
"""The session timeout with ZooKeeper; a broker cannot be paused longer. The timeout may be long,
because the step ``expire`` ends sessions at once."""

KRAFT_SESSION_S: Final = 9.0
"""The session timeout on KRaft, for brokers that the harness keeps no session of."""

SHRINK_S: Final = 4.0
"""The replica lag limit for a schedule in which a lagging follower leaves the ISR."""


def settings(schedule: Schedule) -> dict[str, str]:
    """Return the broker settings with which a schedule is replayed.

    Followers learn a new HW only after ``FETCH_WAIT_S``. Brokers write no HW to disk during the
    schedule, unless the schedule waits for such a write.
    """
    actions = {step.action for step in schedule.steps}
    by_message = dict(SETTINGS) if schedule.by == "message" else {}
    if by_message and "lag" in actions:
        by_message["replica.lag.time.max.ms"] = str(int(LAG_S * 1000))
    on_disk = "checkpoint" in actions or any(step.expect.hw_on_disk for step in schedule.steps)
    lag_s = SHRINK_S if "shrink" in actions else 30.0
    return {
        **widen(FETCH_WAIT_S),
        # A new leader first stops its fetcher, which waits this long for a paused peer (by default
        # 30 s; seen on 0.10.2.2 and 0.11.0.3).
        "request.timeout.ms": str(int(FETCH_WAIT_S * 1000) + 1000),
        "auto.leader.rebalance.enable": "false",
        "zookeeper.session.timeout.ms": str(int(ZOOKEEPER_SESSION_S * 1000)),
        "broker.session.timeout.ms": str(int(KRAFT_SESSION_S * 1000)),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": str(int(lag_s * 1000)),
        "replica.high.watermark.checkpoint.interval.ms": "1000" if on_disk else "3600000",
        **by_message,
        **schedule.settings,
    }


def plan(schedule: Schedule, kafka: str, *, seed: int = 0, driver: str = "local") -> Plan:
    """Return the plan that replays a schedule on a release.

    With ZooKeeper, the controller is an additional broker without a replica. Only a failover kills
    it, so each failover needs one more broker. With KRaft, the plan has an additional broker if all
    replicas are down at the same time; this broker then reports the controller's decisions.
    """
    spare = int(_all_are_down(schedule))
    if release(kafka).coordination == "zookeeper":
        spare = 1 + sum(step.action == "failover" for step in schedule.steps)
    return Plan(
        kafka=kafka,
        driver=driver,
        brokers=schedule.replicas + spare,
        schedule=schedule.plain(),
        seed=seed,
        topic=Topic(
            partitions=1 + schedule.partition,
            replication_factor=schedule.replicas,
            min_insync_replicas=schedule.min_isr,
            unclean_leader_election=schedule.unclean,
        ),
        workload=Workload(producers=0, consumers=1, acks=schedule.acks),
        broker_config=settings(schedule),
        wire=schedule.by == "message" or any(step.action == "observe" for step in schedule.steps),
    )


def _all_are_down(schedule: Schedule) -> bool:
    """Return whether, after any step, all brokers with a replica are down."""
    down: set[int | None] = set()
    for step in schedule.steps:
        if step.action in {"kill", "stop"}:
            down.add(step.broker)
        elif step.action == "start":
            down.discard(step.broker)
        if len(down) == schedule.replicas:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Replay:
    """Chooses brokers for a plan's schedule from the model, and executes the schedule."""

    schedule: Schedule

    def cast(self, cluster: Cluster, probe: Probe) -> tuple[int, ...]:
        """Return the brokers that get a replica, in assignment order, without the controller.

        Raises:
            WaitTimeoutError: a broker has no session, or no broker is the controller.
        """
        controller = await_cluster(cluster, probe)
        return tuple(sorted(set(cluster.brokers) - {controller})[: self.schedule.replicas])

    def play(self, context: ScheduleContext) -> None:
        """Execute every step of the plan's schedule.

        Raises:
            ScheduleNotFollowedError: a step could not be executed, or had an unexpected effect.
            HarnessError: the run must end early.
        """
        play(context, self.schedule)


def play(context: ScheduleContext, schedule: Schedule) -> None:
    """Execute a schedule; the context's replicas must be in the schedule's order.

    Raises:
        ScheduleNotFollowedError: a step could not be executed, or had an unexpected effect.
        HarnessError: the run must end early.
    """
    kind = MessagePlayer if schedule.by == "message" else Player
    player = kind(context, schedule)
    with contextlib.ExitStack() as ending:
        ending.callback(player.finish)
        player.begin()
        replay_steps(
            context,
            schedule.steps,
            player.take,
            title=lambda step: step.says or _title(step),
            broker=lambda step: None if step.broker is None else player.broker(step.broker),
        )


def _title(step: ScheduleStep) -> str:
    whom = step.record if step.broker is None else f"broker {step.broker}"
    return f"{step.action} {whom or ''}".strip()
