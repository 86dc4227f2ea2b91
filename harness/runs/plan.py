"""The plan of a run: a frozen value, saved as ``plan.json``, which can be repeated."""

import shlex
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec.structs import force_setattr

from highwater.harness.base import limits
from highwater.harness.base.errors import StoreError
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs.faults.steps import ROLLING, Steps, current_fault
from highwater.harness.runs.group_protocols import (
    CLASSIC,
    CONSUMER,
    CONSUMER_SETTINGS,
    SHARE_SETTINGS,
    SHARE_STATE_REPLICAS,
    GroupProtocol,
)
from highwater.harness.runs.parse_values import Acks, Isolation
from highwater.harness.runs.settings import (
    ACKS,
    BUDGET,
    CHURN,
    DURATION,
    GROUP_PROTOCOL,
    ISOLATION,
    NAMES,
    NEMESIS,
    RATE,
    Setting,
    options,
    settings_of,
)
from highwater.harness.runs.topics.derived_settings import derived
from highwater.harness.runs.topics.likeness import Likeness

__all__ = [
    "SCHEMA_VERSION",
    "Acks",
    "External",
    "Isolation",
    "Plan",
    "Topic",
    "Workload",
    "rack_of",
]

SCHEMA_VERSION = 1


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topic under test and the topic-level settings that decide what is promised about it.

    Attributes:
        partitions: number at the end.
        added: number of those that a story adds; the topic is created without them.
        like: the topic after which it is made, on an external cluster.
    """

    name: str = "events"
    partitions: Annotated[
        int, Setting("Partitions, {}.", limits.PARTITIONS, "partitions", default="3")
    ] = 1
    added: int = 0
    replication_factor: int = 3
    min_insync_replicas: Annotated[
        int, Setting("min.insync.replicas, 1 to --brokers.", name="min_isr")
    ] = 1
    unclean_leader_election: Annotated[
        bool,
        Setting(
            "Allow unclean elections, or forbid them; takes no value.",
            name="unclean",
            option="--unclean/--clean",
            default="clean",
        ),
    ] = False
    config: dict[str, str] = {}
    like: Likeness | None = None

    def settings(self) -> dict[str, str]:
        """Return the topic's configuration as Kafka spells it.

        Nothing may go from it by itself, whatever its brokers' defaults are: what expires or is
        compacted would look lost. A workload with keys has a compacted topic by its ``config``.
        """
        return {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.insync.replicas": str(self.min_insync_replicas),
            "unclean.leader.election.enable": str(self.unclean_leader_election).lower(),
            **self.config,
        }


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The clients: producers and consumers while faults happen.

    Attributes:
        producers: each a process of its own in the history; 0 when a story sends every record
            itself.
        consumers: readers that poll every partition.
        idempotence: 0.11 and later, acks=all; transactions, too.
        rate: over all producers; 0 is flat out.
        isolation: of readers and group members, dealt out in turn.
        subscribe: the group shares the partitions.
        churn_s: on average; half of the clients crash at their end. 0: none is replaced.
    """

    producers: Annotated[int, Setting("Producers, {}.", limits.CLIENTS, "producers")] = 3
    consumers: Annotated[
        int, Setting("Readers during the run, {}.", limits.CLIENTS, "consumers")
    ] = 1
    acks: Annotated[Acks, Setting("0, 1 or all.", words=ACKS)] = "all"
    idempotence: Annotated[bool, Setting("Idempotent producers.")] = False
    rate: Annotated[float, Setting("Records per second in all, or max.", words=RATE)] = 200.0
    record_bytes: Annotated[
        int, Setting("Bytes of a value, {}.", limits.RECORD_BYTES, "bytes a record")
    ] = 64
    compression: Annotated[str, Setting("none, gzip, snappy, lz4 or zstd.")] = "none"
    delivery_timeout_s: Annotated[
        float,
        Setting(
            "When an unanswered send becomes info: {}.",
            limits.DELIVERY_S,
            "seconds until an unanswered send is info",
            name="delivery_timeout",
            words=DURATION,
        ),
    ] = 30.0
    transactions: Annotated[bool, Setting("Producers send in transactions.")] = False
    aborts: Annotated[
        float,
        Setting(
            "Share of transactions to abort, {}.", limits.ABORTS, "of all transactions aborted"
        ),
    ] = 0.2
    transform: Annotated[bool, Setting("Transactions also read, and commit their offsets.")] = False
    isolation: Annotated[
        tuple[Isolation, ...],
        Setting("Of readers: read_committed, read_uncommitted, or both.", words=ISOLATION),
    ] = ("read_committed",)
    subscribe: Annotated[
        int, Setting("Members of a group of readers, {}.", limits.CLIENTS, "members of a group")
    ] = 0
    group_protocol: Annotated[
        GroupProtocol,
        Setting(
            "Protocol of a group of readers: classic, or consumer (KIP-848, since 4.0).",
            words=GROUP_PROTOCOL,
        ),
    ] = CLASSIC
    share: Annotated[
        int,
        Setting(
            "Members of a share group (KIP-932), {}.", limits.CLIENTS, "members of a share group"
        ),
    ] = 0
    churn_s: Annotated[
        float,
        Setting(
            f"How long a client lives until another replaces it: {limits.CHURN_S.lasting}.",
            name="churn",
            words=CHURN,
        ),
    ] = 0.0
    keys: Annotated[
        int,
        Setting(
            "Keys of the records, on a compacted topic, {}; 0: none.",
            limits.KEYS,
            "keys of records",
        ),
    ] = 0
    tombstones: Annotated[
        float,
        Setting(
            "Share of keyed records that delete, {}.",
            limits.ABORTS,
            "of all records with keys deleting theirs",
        ),
    ] = 0.1

    @property
    def members(self) -> int:
        """The members of groups."""
        return self.subscribe + self.share


class External(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An external cluster on which a run takes place.

    Attributes:
        inventory: path of the file that says how to reach and how to break it.
        cluster_id: of the cluster that was confirmed to be the one.
        code: that confirmed it; empty in plans that were confirmed by the id alone.
        brokers: ids of those that may be hurt.
        commands: that the inventory has, such as ``pause``.
    """

    inventory: str
    cluster_id: str
    brokers: tuple[int, ...]
    commands: tuple[str, ...]
    code: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides a run, and nothing that is found out while it runs.

    Attributes:
        schema: version of the run directory's layout (``SCHEMA_VERSION``).
        steps: what is to happen instead of a story or a nemesis, step by step; see
            ``harness.runs.faults.steps``.
        schedule: what to replay, as plain JSON (see ``checkers.model.schedules.schedule``), or
            None.
        duration_s: how long a random schedule goes on; with steps, the least.
        broker_config: broker settings beside the driver's own, as Kafka spells them.
        wire: even where no fault or story needs it.
        to: one after the other; under a nemesis that upgrades as far as it comes.
        protocol: as the release that has it; empty: the brokers' own. So is ``format``.
        racks: brokers and readers are in by turns.
        external: the cluster, where the driver is ``external``.
    """

    kafka: Annotated[str, Setting("Release, as highwater versions names it.")]
    schema: int = SCHEMA_VERSION
    driver: Annotated[str, Setting("Cluster driver: local or docker.", name="cluster")] = "local"
    brokers: Annotated[
        int, Setting("Brokers, and replicas of each partition: {}.", limits.BROKERS, "brokers")
    ] = 3
    controllers: Annotated[
        int, Setting("KRaft controllers, or ZooKeepers of an ensemble: 1, 3 or 5.")
    ] = 1
    topic: Topic = Topic()
    workload: Workload = Workload()
    story: Annotated[
        str | None, Setting("Scripted schedule, such as loss; docs/faults.md lists them.")
    ] = None
    nemesis: Annotated[
        tuple[str, ...],
        Setting(
            "Faults to mix at random, with weights: kill@leader=3,pause (docs/faults.md); or none."
            f" A weight is {limits.WEIGHT.says}.",
            words=NEMESIS,
            default="",
        ),
    ] = ()
    budget: Annotated[
        dict[str, int],
        Setting(
            "At most so many of a fault, and brokers with a fault at a time: kill=5,brokers=1; of a"
            f" fault {limits.TIMES.says}, of brokers 1 to --brokers.",
            words=BUDGET,
        ),
    ] = {}
    overlap: Annotated[
        int,
        Setting(
            "Sequences of random faults at the same time, {}.",
            limits.OVERLAP,
            "sequences of faults at the same time",
        ),
    ] = 1
    steps: Steps = ()
    schedule: dict[str, Any] | None = None
    duration_s: Annotated[
        float,
        Setting(
            "How long faults go on: 60s, 2m; {}, 1.5s at least for a nemesis; not with a story.",
            limits.FAULTS_S,
            "seconds of faults",
            name="duration",
            option="--for",
            words=DURATION,
            default="30s",
        ),
    ] = 0.0
    seed: Annotated[int, Setting("Seed of all random choices.")] = 0
    broker_config: dict[str, str] = {}
    wire: Annotated[bool, Setting("Put the wire between brokers, and record what passes.")] = False
    wire_clients: Annotated[bool, Setting("Put the wire between clients and brokers, too.")] = False
    to: Annotated[
        tuple[str, ...],
        Setting("Releases to upgrade to: before a story, or by the fault upgrade.", words=NAMES),
    ] = ()
    protocol: Annotated[
        str,
        Setting("Newest inter.broker.protocol.version (KRaft: metadata.version) to speak: 0.10.2."),
    ] = ""
    format: Annotated[str, Setting("Newest log.message.format.version to write.")] = ""
    trace_flushes: Annotated[
        bool, Setting("Trace what brokers flush, for the fault torn-files.")
    ] = False
    log_dirs: Annotated[
        int,
        Setting(
            "Log directories of each broker, {}.", limits.LOG_DIRS, "log directories of a broker"
        ),
    ] = 1
    racks: Annotated[
        int, Setting("Racks of brokers and readers, who fetch from a follower in theirs; 0: none.")
    ] = 0
    tiered: Annotated[bool, Setting("Brokers have a remote tier (KIP-405), since 3.6.")] = False
    client: Annotated[
        str,
        Setting(
            "Library of the producers: librdkafka, java, Java's of a release (java:3.9.2),"
            " kafka-python or aiokafka."
        ),
    ] = LIBRDKAFKA
    reader_client: Annotated[
        str, Setting("Library of the readers, and of the members of a group, named as of --client.")
    ] = LIBRDKAFKA
    external: External | None = None

    def __post_init__(self) -> None:
        """Give faults the names that they have now."""
        budget = {current_fault(name): most for name, most in self.budget.items()}
        force_setattr(self, "nemesis", tuple(map(current_fault, self.nemesis)))
        force_setattr(self, "budget", budget)

    @property
    def played_on(self) -> str:
        """The release that faces the faults, or that faces them first."""
        return self.to[-1] if self.to and self.story else self.kafka

    @property
    def software(self) -> str:
        """The software of its brokers, in words: ``0.11.0.3 with protocol 0.10.2``."""
        runs = self.played_on if self.story else " to ".join((self.kafka, *self.to[-1:]))
        caps = " and ".join(f"{what} {most}" for what, most in self._caps() if most)
        return f"{runs} with {caps}" if caps else runs

    def _caps(self) -> tuple[tuple[str, str], ...]:
        return ("protocol", self.protocol), ("format", self.format)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The ids of brokers that a fault can hit."""
        if self.external is not None:
            return self.external.brokers
        return tuple(range(1, self.brokers + 1))

    def broker_settings(self) -> dict[str, str]:
        """Return broker settings: with coordinators in use, their topics on every broker.

        A coordinator's topic that one broker alone holds is gone as long as that broker is.
        """
        workload = self.workload
        if not (workload.transactions or workload.members):
            return self.broker_config
        topics = ("transaction.state.log.replication.factor", "offsets.topic.replication.factor")
        settings = dict.fromkeys(topics, str(self.brokers))
        if workload.group_protocol == CONSUMER:
            settings |= CONSUMER_SETTINGS
        if workload.share:
            settings |= {SHARE_STATE_REPLICAS: str(self.brokers), **SHARE_SETTINGS}
        return settings | self.broker_config

    def to_json(self) -> bytes:
        """Return the plan as ``plan.json`` holds it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read a plan back; raise ``StoreError`` if it is none, or of another schema version."""
        try:
            schema = msgspec.json.decode(text, type=_SchemaOnly).schema
        except msgspec.MsgspecError as error:
            raise StoreError(f"plan.json is not a plan: {error}") from error
        if schema != SCHEMA_VERSION:
            raise StoreError(
                f"the run was recorded with store schema {schema}; this is schema {SCHEMA_VERSION}",
                hint="Judge it with the Highwater release that recorded it, or repeat the run.",
            )
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(f"plan.json is broken: {error}") from error

    @property
    def rolls(self) -> bool:
        """True if it is one of ``highwater rolling``."""
        return self.external is not None and [step.fault for step in self.steps] == [ROLLING]

    @property
    def calm(self) -> bool:
        """True if it asks for nothing to happen."""
        return not (self.story or self.nemesis or self.steps) and self.schedule is None

    @property
    def happens(self) -> str:
        """The schedule in a word or two."""
        if self.schedule is not None:
            return str(self.schedule.get("name", "replay"))
        return (
            self.story
            or ",".join(self.nemesis)
            or ",".join(dict.fromkeys(step.fault for step in self.steps))
            or "calm"
        )

    @property
    def has_options(self) -> bool:
        """True if options of the command line say all of it.

        Not those that a program gave settings of its own, and not steps. The settings of topic and
        brokers of a story are taken for the story's own.
        """
        if self.steps and not self.rolls:
            return False
        if self.story or self.schedule is not None:
            return True
        topic, workload = self.topic, self.workload
        config, brokers = derived(keys=workload.keys > 0, tiered=self.tiered)
        plain = (
            topic
            if topic.like and self.external
            else Topic(
                name=topic.name if self.external else Topic().name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor if self.external else self.brokers,
                min_insync_replicas=topic.min_insync_replicas,
                unclean_leader_election=topic.unclean_leader_election,
                config=config,
            )
        )
        grouped = workload.group_protocol == CLASSIC or workload.subscribe > 0
        idempotent = workload.idempotence or not workload.transactions
        brokers = {} if self.external else brokers
        plan = msgspec.structs.replace(self, topic=plain, broker_config=brokers)
        return grouped and idempotent and plan == self

    def command(self) -> str:
        """Return the command that repeats this run with every setting.

        Where no options say all of it, of a replay, and of a topic made like another, it is for
        the run's directory.
        """
        if not self.has_options:
            return "highwater replay plan.json"
        if self.schedule is not None:
            words = ["highwater model replay schedule.json", *options(self, "kafka")]
            words += options(self, "cluster") if self.driver != "local" else []
            own_client = self.client == LIBRDKAFKA and "model" not in self.schedule
            words += [] if own_client else options(self, "client")
            return " ".join([*words, *options(self, "seed")])
        rolls = self.rolls
        words = [f"highwater {'rolling' if rolls else 'run'}"]
        words += options(self, "kafka", "acks", "min_isr", "unclean")
        if self.external is not None:
            words.append(f"--inventory {shlex.quote(self.external.inventory)}")
            words.append(f"--confirm {self.external.code or self.external.cluster_id}")
            words += ["--like ./plan.json"] if self.topic.like else []
        elif self.driver != "local":
            words += options(self, "cluster")
        happens = ("story",) if self.story else ("duration",) if rolls else ("nemesis", "duration")
        words += options(self, *happens, *_changed(self))
        return " ".join([*words, *([] if rolls else options(self, "seed"))])


def rack_of(number: int, racks: int) -> str:
    """Return the rack of a broker or a reader, both counted from 1."""
    return f"rack-{(number - 1) % racks + 1}"


class _SchemaOnly(msgspec.Struct):
    schema: int


_AT_FIRST: Final = (
    "kafka",
    "acks",
    "min_isr",
    "unclean",
    "cluster",
    "story",
    "nemesis",
    "duration",
)
_NEXT: Final = (
    *("producers", "consumers", "rate", "record_bytes", "compression", "overlap", "budget"),
    *("partitions", "brokers", "delivery_timeout", "aborts", "isolation", "subscribe", "share"),
    *("group_protocol", "churn", "keys", "tombstones"),
)
"""The order of options in commands; others come after these, in the order of a plan's fields."""


def _changed(plan: Plan) -> list[str]:
    """Return the names of settings that are not at the defaults of ``highwater run``."""
    ours, usual = plan.workload, Workload()
    usual = Workload(
        producers=0 if plan.story else usual.producers,
        record_bytes=ours.record_bytes if plan.story else usual.record_bytes,
        idempotence=ours.transactions and ours.idempotence,
    )
    base = Plan(
        kafka=plan.kafka,
        brokers=plan.brokers if plan.external else Topic().replication_factor,
        topic=Topic(partitions=Topic().partitions if plan.story else 0),
        workload=usual,
        seed=plan.seed,
    )
    settings = settings_of(Plan)
    names = dict.fromkeys((*_NEXT, *settings))
    return [
        name
        for name in names
        if name not in _AT_FIRST and settings[name].of(plan) != settings[name].of(base)
    ]
