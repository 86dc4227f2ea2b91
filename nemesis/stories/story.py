"""A story: a schedule for three brokers, its settings, and what predicts its end.

A schedule is a function of a ScheduleContext. Write one in a file of its family and decorate it
with ``story``; ``nemesis.stories.registry`` knows them all. How it must end on a release is not
written down: the model plays its script under that release's rules, or, where the model does not
know what a story is about, the catalogue of hazards says which releases have the hazard.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from highwater.checkers.hazards.catalogue import find_hazard
from highwater.checkers.hazards.evaluate import of_clients, of_release
from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import Release
from highwater.harness.releases.client_choice import JAVA, LIBRARIES, LIBRDKAFKA, read_client
from highwater.harness.runs.plan import Acks, Plan, Topic, Workload
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.hw_lag_window import widen

if TYPE_CHECKING:
    from highwater.checkers.model.protocol.rules_by_release import Rules
    from highwater.checkers.model.report_types import ModelSnapshot, PartitionOutcome
    from highwater.checkers.model.schedules.script import ScriptSettings

SESSION_MS: Final = 3500
"""Session of a broker, in ZooKeeper or with the KRaft controller. Heartbeats come at least every
third of it, so a killed broker's session ends 2.33 to 3.5 s later (and up to a tick after that)."""

FETCH_WAIT_S: Final = 1.5
"""How long the leader parks an idle follower's fetch; so long the HW-lag window is open."""

CHECKPOINT_S: Final = 0.7
"""How often a broker writes its high watermarks to disk: often enough to wait for it, and leaving
time enough to kill a broker between two such moments."""

BROKER_CONFIG: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": str(SESSION_MS // 4),
        "replica.high.watermark.checkpoint.interval.ms": str(int(CHECKPOINT_S * 1000)),
        **widen(FETCH_WAIT_S),
    }
)
"""Broker settings of every story: the same, so that one warm cluster can play all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction of a story for a release, by that release's rules.

    Attributes:
        lost: ids of the acknowledged records that are gone at the end.
        forked: offsets at which in-sync replicas hold different records at the end.
        others: kind and value of every other anomaly that breaks a promise; ``{topic}`` is the
            name of the run's topic.
    """

    lost: frozenset[str] = frozenset()
    forked: frozenset[int] = frozenset()
    others: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardEnding:
    """The end of a story where its hazard is, which the model does not know.

    Attributes:
        hazard: its id in ``checkers.hazards.catalogue``; empty where nothing is lost, so that it is
            none, and the library of the clients alone decides.
        ending: what becomes of the records on its releases; on others nothing does.
        uncommitted: records that one replica alone has, and that are lost on every release; with
            acks=0 and 1 they are acknowledged.
        libraries: those whose clients come to it by this schedule.
    """

    hazard: str
    ending: Prediction
    uncommitted: frozenset[str] = frozenset()
    libraries: tuple[str, ...] = LIBRARIES


_REPLICAS: Final = 3

Role = Literal["A", "C", "D"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryNeeds:
    """The needs of a story beyond three brokers.

    Attributes:
        wire: between whom the wire has to stand.
        transactions: whether its client is transactional.
        idempotent: whether its client is idempotent, without transactions.
        one_controller: whether it is about a cluster with a single one.
        partitions: how many its topic has to have at first.
        tiered: whether brokers have a remote tier.
        record_bytes: the size of its records.
        java: whether it is about Kafka's own producer.
        added: how many partitions it adds to these.
    """

    wire: Literal["", "nodes", "clients"] = ""
    transactions: bool = False
    idempotent: bool = False
    one_controller: bool = False
    partitions: int = 1
    tiered: bool = False
    record_bytes: int = 64
    java: bool = False
    added: int = 0

    @property
    def client(self) -> str:
        """The library of its clients, as a plan has it, unless another is asked for."""
        return JAVA if self.java else LIBRDKAFKA

    @property
    def idempotence(self) -> bool:
        """True if its client is idempotent, as each transactional one is."""
        return self.idempotent or self.transactions

    @property
    def waits_for_all(self) -> bool:
        """True if it takes acks=all."""
        return self.idempotence or self.java

    @property
    def all_partitions(self) -> int:
        """The number of partitions that its topic has in the end, at least."""
        return self.partitions + self.added


NOTHING: Final = StoryNeeds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A scripted schedule, its settings, and the same as moves of the model.

    Attributes:
        play: the schedule; its docstring's first line is the summary.
        script: what happens in it, in the words of ``checkers.model.schedules.script``; empty where
            the model lacks words for it, and ``harm`` is there instead.
        harm: how it ends where the hazard is.
        outcome: what it comes to and where, one sentence for a person.
        controller: who is the controller on ZooKeeper: A, C, or D, which has no replica.
        topic_config: settings of the topic that it needs.
        min_isr_most: the largest min.insync.replicas that lets it be played.
        why_not: why it cannot be played on a release; empty where it can.
    """

    name: str
    play: Callable[[ScheduleContext], None]
    script: str
    harm: HazardEnding | None
    needs: StoryNeeds
    outcome: str
    controller: Role
    broker_config: Mapping[str, str]
    topic_config: Mapping[str, str]
    min_isr_most: int
    why_not: Callable[[Release], str]

    @property
    def brokers(self) -> int:
        """The number of brokers that it needs: its replicas, and a controller without one."""
        return _REPLICAS + (self.controller == "D")

    def replicas(self, brokers: int) -> int:
        """Return the replication factor on so many brokers."""
        return _REPLICAS if self.brokers > _REPLICAS else brokers

    @property
    def summary(self) -> str:
        """The summary: what happens, in one sentence."""
        return _first_line(self.play)

    def modelled(
        self, release: Release, plan: Plan, rules: "Rules | None" = None
    ) -> "PartitionOutcome":
        """Return the model's outcome of the story: lost, forked, and the logs of A, B, C.

        Args:
            release: that it is played on.
            plan: its settings.
            rules: others than those of the release, to see what would be.
        """
        from highwater.checkers.model.schedules.script import play  # noqa: PLC0415 - of Numba, which is slow to import

        return play(self.script, self._setting(release, plan, rules))

    def rehearse(self, release: Release, plan: Plan) -> "tuple[ModelSnapshot, ...]":
        """Return how the model has A, B and C after each line of the script."""
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
        """Return what becomes of the records on this release under the plan's settings."""
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

    def cast(self, cluster: Cluster, probe: Probe) -> tuple[int, int, int]:
        """Choose A, B and C.

        Waits until every broker has a session and there is a controller: on a warm cluster some
        broker may have been restarted a moment ago.

        Raises:
            WaitTimeoutError: that is not so within the limit.
        """
        controller, _ = await_condition(
            lambda: (probe.controller(), probe.live_brokers()),
            lambda seen: seen[1] == set(cluster.brokers),
            what="every broker to have a session, and a controller",
            limit_s=30,
            passing=(UnreachableError,),
        )
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
        """Return the plan of this story on a release: its own records and one reader."""
        return Plan(
            kafka=kafka,
            driver=driver,
            brokers=self.brokers,
            story=self.name,
            seed=seed,
            topic=Topic(
                partitions=self.needs.all_partitions,
                added=self.needs.added,
                unclean_leader_election=unclean,
                config=dict(self.topic_config),
            ),
            workload=Workload(
                producers=0,
                consumers=1,
                acks=acks,
                idempotence=self.needs.idempotence,
                transactions=self.needs.transactions,
                record_bytes=self.needs.record_bytes,
            ),
            broker_config=dict(self.broker_config),
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
    """Register a schedule, with its script for the model or with the harm that it does."""

    def register(play: Callable[[ScheduleContext], None]) -> Callable[[ScheduleContext], None]:
        STORIES[name] = Story(
            name=name,
            play=play,
            script=end if isinstance(end, str) else "",
            harm=end if isinstance(end, HazardEnding) else None,
            needs=needs,
            outcome=outcome,
            controller=controller,
            broker_config=BROKER_CONFIG,
            topic_config=topic_config,
            min_isr_most=min_isr_most,
            why_not=why_not,
        )
        return play

    return register


def _about(topic: str, ending: Prediction) -> Prediction:
    others = frozenset((kind, value.format(topic=topic)) for kind, value in ending.others)
    return replace(ending, others=others)


def _first_line(function: Callable[..., object]) -> str:
    return (function.__doc__ or "").partition("\n")[0]
