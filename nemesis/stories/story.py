"""A story (scripted scenario): a schedule for three brokers, with settings and a prediction.

The schedule is a function with the decorator ``story``, in the module of its family;
``nemesis.stories.registry`` imports all stories. A story does not state its outcome on a release:
the model predicts it, by executing the story's script with the release's rules. If the model cannot
express the story, the catalogue of hazards names the affected releases.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from highwater.checkers.hazards.catalogue import find_hazard
from highwater.checkers.hazards.evaluate import of_clients, of_release
from highwater.clusters.admin.sessions import await_cluster
from highwater.clusters.core.interfaces import Cluster, Probe
from highwater.harness.releases.catalogue import Release
from highwater.harness.releases.catalogue import release as find_release
from highwater.harness.releases.client_choice import (
    DRIVER,
    JAVA,
    LIBRARIES,
    LIBRDKAFKA,
    read_client,
)
from highwater.harness.releases.cluster_facts import GROUPS_CODEC
from highwater.harness.releases.group_protocols import CONSUMER_SETTINGS
from highwater.harness.runs.derived_settings import CLEANER, COMPACTED
from highwater.harness.runs.plan import Acks, Plan, Topic, Workload
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults.registry import Needs, by_request, find_fault
from highwater.nemesis.hw_lag_window import widen

if TYPE_CHECKING:
    from highwater.checkers.model.protocol.rules_by_release import Rules
    from highwater.checkers.model.report_types import ModelSnapshot, PartitionOutcome
    from highwater.checkers.model.schedules.script import ScriptSettings

SESSION_MS: Final = 3500
"""Session timeout of a broker, in ZooKeeper or with the KRaft controller. A broker sends a
heartbeat at least every third of the timeout, so a killed broker's session ends 2.33 to 3.5 s
later, plus up to a tick."""

FETCH_WAIT_S: Final = 1.5
"""The time for which a leader delays its response to an idle follower's fetch. It is the length of
the HW-lag window."""

_PROMPT_S: Final = 0.1
"""The delay of ``FETCH_WAIT_S`` in stories about groups: shorter, so that a coordinator's followers
get its records soon."""

CHECKPOINT_S: Final = 0.7
"""The interval at which a broker writes its high watermarks to disk. A story can wait for such a
write, or kill a broker between two writes."""

CLEANUP_S: Final = 1.0
"""The interval at which a coordinator removes expired offsets, and groups without members and
offsets. Kafka's default is 10 minutes."""

BROKER_CONFIG: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": str(SESSION_MS // 4),
        "replica.high.watermark.checkpoint.interval.ms": str(int(CHECKPOINT_S * 1000)),
        "offsets.retention.check.interval.ms": str(int(CLEANUP_S * 1000)),
        **widen(FETCH_WAIT_S),
        **CONSUMER_SETTINGS,
        **CLEANER,
    }
)
"""Broker settings of all stories, so that one running cluster can execute them all."""

EXPIRY_CHECK_MS: Final = 500
OFFSETS_KEPT_S: Final = 60
PRODUCERS_KEPT_S: Final = 3.0
EXPIRY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "log.retention.check.interval.ms": str(EXPIRY_CHECK_MS),
        "log.initial.task.delay.ms": str(EXPIRY_CHECK_MS),
        "offsets.retention.minutes": str(
            OFFSETS_KEPT_S // 60
        ),  # Kafka has no smaller unit for this setting
        "offsets.retention.check.interval.ms": str(EXPIRY_CHECK_MS),
        "producer.id.expiration.ms": str(int(PRODUCERS_KEPT_S * 1000)),
        "producer.id.expiration.check.interval.ms": str(EXPIRY_CHECK_MS),
    }
)
"""Additional broker settings of stories about expired records or offsets."""


SLOW_MOVES: Final[Mapping[str, str]] = MappingProxyType(
    {"alter.log.dirs.replication.quota.window.size.seconds": "60"}
)
"""Additional broker settings of stories with several log directories. A broker that has moved more
bytes than its limit moves no more for 11 minutes, instead of 11 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The predicted outcome of a story on a release.

    Attributes:
        lost: ids of the acknowledged records that are lost at the end.
        forked: offsets at which in-sync replicas hold different records at the end.
        others: kind and value of every other anomaly that breaks a promise; ``{topic}`` is the
            name of the run's topic, and None any value.
    """

    lost: frozenset[str] = frozenset()
    forked: frozenset[int] = frozenset()
    others: frozenset[tuple[str, str | None]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardEnding:
    """The outcome of a story that the model cannot predict. It depends on a hazard of the release.

    Attributes:
        hazard: id of the hazard in ``checkers.hazards.catalogue``; empty if the outcome depends
            only on the clients' library.
        ending: the outcome on releases that have the hazard; other releases lose no record.
        uncommitted: records that only one replica has, and that every release loses; with acks=0
            and acks=1 they are acknowledged.
        libraries: the client libraries with which this schedule loses records.
    """

    hazard: str
    ending: Prediction
    uncommitted: frozenset[str] = frozenset()
    libraries: tuple[str, ...] = (*LIBRARIES, DRIVER)


_REPLICAS: Final = 3

Role = Literal["A", "C", "D"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryNeeds:
    """The requirements of a story besides three brokers.

    Attributes:
        wire: the connections that the relay forwards: between nodes, or from clients. If it is
            empty, the story needs no relay.
        transactions: whether the story's client is transactional.
        idempotent: whether the story's client is idempotent, without transactions.
        controllers: the number of controllers that the cluster must have, which no later run uses;
            0: any number.
        dynamic_quorum: whether the voters of the quorum must be changeable (KIP-853).
        spoils: whether no later run can use the cluster.
        partitions: the number of partitions that the topic must have at first.
        tiered: whether brokers have a remote tier.
        log_dirs: the number of log directories of each broker.
        record_bytes: the size of the story's records.
        java: whether the story is about Kafka's Java clients.
        added: the number of partitions that the story adds to ``partitions``.
        expiry: whether brokers soon delete expired records and offsets.
        joined: the number of group members that the story starts.
        group: whether the story is about the records that a group coordinator writes.
        compressed: whether the group coordinator compresses these records.
        share: the number of members of the share group that the story starts.
        machine: a program that this machine must have, such as ``libfaketime``.
        keys: the number of keys of the records on a compacted topic; 0: the topic is not compacted.
        before: changes the cluster before Highwater creates the topic of the run.
        outside: the faults that the story injects, if it needs nothing else of an external cluster;
            or the reason why it is not available there.
    """

    wire: Literal["", "nodes", "clients"] = ""
    transactions: bool = False
    idempotent: bool = False
    controllers: int = 0
    dynamic_quorum: bool = False
    spoils: bool = False
    partitions: int = 1
    tiered: bool = False
    log_dirs: int = 1
    record_bytes: int = 64
    java: bool = False
    added: int = 0
    expiry: bool = False
    joined: int = 0
    group: bool = False
    compressed: bool = False
    share: int = 0
    machine: Needs = ""
    keys: int = 0
    before: Callable[[Plan, Cluster, Probe], None] | None = None
    outside: tuple[str, ...] | str = "the files of its brokers are not accessible"

    @property
    def client(self) -> str:
        """The default library of the story's clients, as in ``--client``."""
        return JAVA if self.java else LIBRDKAFKA

    @property
    def idempotence(self) -> bool:
        """True if the story's client is idempotent; every transactional client is."""
        return self.idempotent or self.transactions

    @property
    def waits_for_all(self) -> bool:
        """True if the story needs acks=all."""
        return self.idempotence or self.java

    @property
    def all_partitions(self) -> int:
        """The number of partitions after the story has added its own."""
        return self.partitions + self.added


NOTHING: Final = StoryNeeds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A scripted scenario: a schedule, its settings, and a script of it for the model.

    Attributes:
        play: the schedule; the first line of its docstring is the story's summary.
        script: the schedule in the language of ``checkers.model.schedules.script``; empty if the
            language cannot express the schedule.
        harm: for a story without a script, its outcome on releases with its hazard; else None.
        outcome: sentences for users: on which releases are which records lost?
        controller: the broker that is the controller on ZooKeeper: A, C, or D, which has no
            replica.
        topic_config: the topic settings that the story needs.
        min_isr_most: the largest min.insync.replicas with which the story is possible.
        why_not: returns why the story is not possible on a release; empty if it is possible.
    """

    name: str
    play: Callable[[ScheduleContext], None]
    script: str
    harm: HazardEnding | None
    needs: StoryNeeds
    outcome: str
    controller: Role
    topic_config: Mapping[str, str]
    min_isr_most: int
    why_not: Callable[[Release], str]

    @property
    def brokers(self) -> int:
        """The number of brokers: three replicas, and D if it is the controller on ZooKeeper."""
        return _REPLICAS + (self.controller == "D")

    def replicas(self, brokers: int) -> int:
        """Return the replication factor of the topic on a cluster with this number of brokers."""
        return _REPLICAS if self.brokers > _REPLICAS else brokers

    @property
    def summary(self) -> str:
        """The story in one sentence."""
        return (self.play.__doc__ or "").partition("\n")[0]

    def modelled(
        self, release: Release, plan: Plan, rules: "Rules | None" = None
    ) -> "PartitionOutcome":
        """Return the outcome in the model: lost and forked records, and the logs of A, B and C.

        Args:
            release: the release on which the story is executed.
            plan: the plan with the story's settings.
            rules: rules of the model that replace the release's rules.
        """
        from highwater.checkers.model.schedules.script import play  # noqa: PLC0415 - of Numba, which is slow to import

        return play(self.script, self._setting(release, plan, rules))

    def rehearse(self, release: Release, plan: Plan) -> "tuple[ModelSnapshot, ...]":
        """Return the model's state of A, B and C after each line of the script."""
        from highwater.checkers.model.schedules.script_trace import course  # noqa: PLC0415 - for the same reason

        return course(self.script, self._setting(release, plan))

    def _setting(
        self, release: Release, plan: Plan, rules: "Rules | None" = None
    ) -> "ScriptSettings":
        from highwater.checkers.model.protocol.rules_by_release import old_format, rules_of  # noqa: PLC0415 - for the same reason
        from highwater.checkers.model.schedules.script import ScriptSettings  # noqa: PLC0415 - for the same reason

        limits = {"protocol": plan.protocol, "written": plan.format}
        return ScriptSettings(
            rules=rules or rules_of(release.name, **limits),
            old_format=old_format(**limits),
            acks=plan.workload.acks,
            min_isr=plan.topic.min_insync_replicas,
            unclean=plan.topic.unclean_leader_election and release.elects_unclean,
        )

    def predict(self, release: Release, plan: Plan) -> Prediction:
        """Return the predicted outcome on this release with the plan's settings."""
        if self.harm is not None:
            client = read_client(plan.client, release.name)
            there = client.library in self.harm.libraries
            if self.harm.hazard:
                hazard = find_hazard(self.harm.hazard)
                there &= of_release(hazard, release, plan.protocol)
                there &= of_clients(hazard, client, release)
            ending = _about(plan.topic.name, self.harm.ending) if there else Prediction()
            acknowledged = plan.workload.acks != "all"
            lost = ending.lost | (self.harm.uncommitted if acknowledged else frozenset())
            return replace(ending, lost=lost)
        outcome = self.modelled(release, plan)
        return Prediction(lost=frozenset(outcome.lost), forked=frozenset(outcome.forked))

    def missing(self, plan: Plan) -> str:
        """Return why the story is not available on an external cluster; empty if it is."""
        kafka, needs = find_release(plan.kafka), self.needs
        reasons = {
            f"there is no relay between its {needs.wire}": bool(needs.wire),
            "client settings of an external cluster are settings of librdkafka": needs.java,
            "the story needs its own broker settings": needs.expiry or needs.group or needs.tiered,
            by_request(kafka, plan.driver): needs.added > 0,
        }
        if reason := next((why for why, needed in reasons.items() if why and needed), ""):
            return reason
        if isinstance(needs.outside, str):
            return needs.outside
        lacking = (find_fault(name).missing(kafka, plan) for name in needs.outside)
        return next(filter(None, lacking), "")

    def cast(self, cluster: Cluster, probe: Probe) -> tuple[int, int, int]:
        """Wait until the cluster is ready; choose the brokers A, B and C, and return their ids.

        Raises:
            WaitTimeoutError: a broker has no session in time, or no broker is the controller.
        """
        controller = await_cluster(cluster, probe)
        first, *others = sorted(cluster.brokers, key=lambda broker: (broker != controller, broker))
        orders = {"A": (first, *others), "C": (*others[:2], first), "D": (*others, first)}
        a, b, c = orders[self.controller][:_REPLICAS]
        return a, b, c

    def plan(
        self,
        kafka: str,
        *,
        seed: int = 0,
        acks: Acks = "all",
        unclean: bool = False,
        driver: str = "local",
    ) -> Plan:
        """Return the plan of this story on a release: no producers, and one consumer."""
        return Plan(
            kafka=kafka,
            driver=driver,
            brokers=self.brokers,
            controllers=self.needs.controllers or 1,
            story=self.name,
            seed=seed,
            topic=Topic(
                partitions=self.needs.all_partitions,
                added=self.needs.added,
                unclean_leader_election=unclean,
                config={**(COMPACTED if self.needs.keys else {}), **self.topic_config},
            ),
            workload=Workload(
                producers=0,
                consumers=1,
                acks=acks,
                idempotence=self.needs.idempotence,
                transactions=self.needs.transactions,
                record_bytes=self.needs.record_bytes,
                joined=self.needs.joined,
                keys=self.needs.keys,
                share=self.needs.share,
            ),
            broker_config={
                **BROKER_CONFIG,
                **(EXPIRY if self.needs.expiry else {}),
                **(widen(_PROMPT_S) if self.needs.group else {}),
                **({GROUPS_CODEC: "1"} if self.needs.compressed else {}),  # gzip
                **(SLOW_MOVES if self.needs.log_dirs > 1 else {}),
            },
            client=self.needs.client,
            wire_clients=self.needs.wire == "clients",
            tiered=self.needs.tiered,
        )


STORIES: dict[str, Story] = {}
"""Every story, by name."""


def story(
    name: str,
    end: str | HazardEnding,
    *,
    outcome: str,
    needs: StoryNeeds = NOTHING,
    controller: Role = "C",
    topic_config: Mapping[str, str] = MappingProxyType({}),
    min_isr_most: int = 1,
    why_not: Callable[[Release], str] = lambda _: "",
) -> Callable[[Callable[[ScheduleContext], None]], Callable[[ScheduleContext], None]]:
    """Register a schedule as a story. ``end`` is its script for the model, or else its outcome."""

    def register(play: Callable[[ScheduleContext], None]) -> Callable[[ScheduleContext], None]:
        STORIES[name] = Story(
            name=name,
            play=play,
            script=end if isinstance(end, str) else "",
            harm=end if isinstance(end, HazardEnding) else None,
            needs=needs,
            outcome=outcome,
            controller=controller,
            topic_config=topic_config,
            min_isr_most=min_isr_most,
            why_not=why_not,
        )
        return play

    return register


def _about(topic: str, ending: Prediction) -> Prediction:
    others = frozenset((kind, value and value.format(topic=topic)) for kind, value in ending.others)
    return replace(ending, others=others)
