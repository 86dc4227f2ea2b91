"""The plan of a run: a frozen value, saved as ``plan.json``, which can be repeated."""

import shlex
from typing import Any, Final, Literal, Self

import msgspec
from msgspec.structs import force_setattr

from highwater.harness.base.errors import StoreError
from highwater.harness.base.wording import exact
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
from highwater.harness.runs.topics.derived_settings import derived
from highwater.harness.runs.topics.likeness import Likeness

SCHEMA_VERSION = 1

Acks = Literal["0", "1", "all"]
Isolation = Literal["read_committed", "read_uncommitted"]
Guarantee = Literal["at-least-once", "exactly-once", "at-most-once"]

RECORD_NAME: Final = r"(?<![\w-])p\d+-\d+(?![\w-])"
"""Regular expression of the names that records of the workload's producers have."""


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topic under test and the topic-level settings that decide what is promised about it.

    Attributes:
        partitions: number of partitions, at the end.
        added: number of those that a story adds; the topic is created without them.
        like: the topic after which it is made, on an external cluster.
    """

    name: str = "events"
    partitions: int = 1
    added: int = 0
    replication_factor: int = 3
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
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
        producers: concurrent producers, each a process of its own in the history; 0 when a story
            sends every record itself.
        consumers: readers that poll every partition during the run.
        idempotence: the idempotent producer (0.11 and later, acks=all).
        rate: records per second over all producers; 0 is flat out.
        delivery_timeout_s: after this long without an answer a send is ``info``.
        transactions: whether producers send in transactions (0.11 and later, acks=all).
        aborts: the share of them that the producer aborts.
        transform: whether a transaction also reads, as a member of a group, and commits how far.
        isolation: of readers and group members, dealt out in turn.
        subscribe: members of a group that shares the partitions.
        group_protocol: of that group: ``classic``, or ``consumer`` (KIP-848).
        share: members of a share group (KIP-932).
        churn_s: how long a client lives on average until another takes its place; half of them
            crash. 0: none is replaced.
        keys: number of keys that records have, on a compacted topic; 0: they have none.
        tombstones: the share of keyed records that delete their key.
    """

    producers: int = 3
    consumers: int = 1
    acks: Acks = "all"
    idempotence: bool = False
    rate: float = 200.0
    record_bytes: int = 64
    compression: str = "none"
    delivery_timeout_s: float = 30.0
    transactions: bool = False
    aborts: float = 0.2
    transform: bool = False
    isolation: tuple[Isolation, ...] = ("read_committed",)
    subscribe: int = 0
    group_protocol: GroupProtocol = CLASSIC
    share: int = 0
    churn_s: float = 0.0
    keys: int = 0
    tombstones: float = 0.1

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


class ProgramPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program under test: it reads the topic under test, and writes to another.

    Attributes:
        command: the program and its arguments, with the placeholders of
            ``highwater.runtime.program_instances``.
        out: name of the topic that it writes to; it has as many partitions.
        instances: number of processes that the program is started as.
        guarantee: how often the program says that it processes each input.
        match: regular expression of an input's name in an output; of several groups the first.
    """

    command: tuple[str, ...]
    out: str = "out"
    instances: int = 1
    guarantee: Guarantee = "at-least-once"
    match: str = RECORD_NAME


PROGRAM_WORKLOAD: Final = Workload(producers=1, consumers=0, idempotence=True, rate=100.0)
"""The clients of a run with a program under test: they only feed it."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides a run, and nothing that is found out while it runs.

    Attributes:
        schema: version of the run directory's layout (``SCHEMA_VERSION``).
        kafka: catalogue name of the release, such as ``0.10.2.2``.
        controllers: number of KRaft controllers, or of ZooKeepers: odd.
        story: name of a scripted schedule, or None.
        nemesis: names of the faults that a random schedule mixes; empty with a story.
        budget: how often a fault is injected at most, by its name, and by ``brokers`` on how many
            brokers one is open at a time.
        overlap: how many sequences of random faults go on at the same time.
        steps: what is to happen instead, step by step; see ``harness.runs.faults.steps``.
        schedule: what to replay, as plain JSON (see ``checkers.model.schedules.schedule``), or
            None.
        duration_s: how long a random schedule goes on; with steps, the least.
        seed: what every random choice of the run follows from.
        broker_config: broker settings beside the driver's own, as Kafka spells them.
        wire: whether the wire is between the nodes though no fault or story needs it.
        wire_clients: whether it is also between clients and brokers.
        to: releases that the cluster is upgraded to, one after the other: before a story, and as
            far as it comes under a nemesis that upgrades.
        protocol: the newest ``inter.broker.protocol.version`` that brokers speak, or on KRaft the
            newest ``metadata.version``, as the release that has it; empty: their own.
        format: the newest ``log.message.format.version`` that they write; empty: their own.
        trace_flushes: whether the flushes of brokers' files are traced.
        log_dirs: number of log directories of each broker.
        racks: number of racks that brokers and readers are in by turns; 0: none.
        tiered: whether brokers have a remote tier (KIP-405).
        client: library that producers are of: ``librdkafka``, ``java`` of the brokers' release, or
            of another, ``java:3.9.2``.
        reader_client: library that readers and members of a group are of, as ``client`` names it.
        external: the cluster, where the driver is ``external``.
        program: the program under test, or None.
    """

    kafka: str
    schema: int = SCHEMA_VERSION
    driver: str = "local"
    brokers: int = 3
    controllers: int = 1
    topic: Topic = Topic()
    workload: Workload = Workload()
    story: str | None = None
    nemesis: tuple[str, ...] = ()
    budget: dict[str, int] = {}
    overlap: int = 1
    steps: Steps = ()
    schedule: dict[str, Any] | None = None
    duration_s: float = 0.0
    seed: int = 0
    broker_config: dict[str, str] = {}
    wire: bool = False
    wire_clients: bool = False
    to: tuple[str, ...] = ()
    protocol: str = ""
    format: str = ""
    trace_flushes: bool = False
    log_dirs: int = 1
    racks: int = 0
    tiered: bool = False
    client: str = LIBRDKAFKA
    reader_client: str = LIBRDKAFKA
    external: External | None = None
    program: ProgramPlan | None = None

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

    @property
    def group(self) -> str:
        """The group of the workload's members, or of the program under test."""
        return f"{self.topic.name}-group"

    def broker_settings(self) -> dict[str, str]:
        """Return broker settings: with coordinators in use, their topics on every broker.

        A coordinator's topic that one broker alone holds is gone as long as that broker is.
        """
        workload = self.workload
        if not (workload.transactions or workload.members or self.program):
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
        if self.program is not None:
            return self == _of_options(self)
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
        rolls = self.rolls
        if self.program is not None:
            return _program_command(self, self.program)
        if self.schedule is not None:
            words = ["highwater model replay schedule.json", f"--kafka {self.kafka}"]
            words += [f"--cluster {self.driver}"] if self.driver != "local" else []
            own_client = self.client == LIBRDKAFKA and "model" not in self.schedule
            words += [] if own_client else [f"--client {self.client}"]
            return " ".join([*words, f"--seed {self.seed}"])
        words = [f"highwater {'rolling' if rolls else 'run'}", f"--kafka {self.kafka}"]
        words.append(f"--acks {self.workload.acks}")
        words.append(f"--min-isr {self.topic.min_insync_replicas}")
        if self.topic.unclean_leader_election:
            words.append("--unclean")
        if self.external is not None:
            words.append(f"--inventory {shlex.quote(self.external.inventory)}")
            words.append(f"--confirm {self.external.code or self.external.cluster_id}")
            words += ["--like ./plan.json"] if self.topic.like else []
        elif self.driver != "local":
            words.append(f"--cluster {self.driver}")
        if self.story:
            words.append(f"--story {self.story}")
        else:
            words += [] if rolls else [f"--nemesis {','.join(self.nemesis) or 'none'}"]
            words.append(f"--for {exact(self.duration_s)}s")
        words += _differences(self)
        words += [f"--to {','.join(self.to)}"] if self.to else []
        words += [f"--{what} {most}" for what, most in self._caps() if most]
        words += [f"--controllers {self.controllers}"] if self.controllers > 1 else []
        words += ["--trace-flushes"] if self.trace_flushes else []
        words += [f"--log-dirs {self.log_dirs}"] if self.log_dirs > 1 else []
        words += [f"--racks {self.racks}"] if self.racks else []
        words += [f"--client {self.client}"] if self.client != LIBRDKAFKA else []
        readers = self.reader_client
        words += [f"--reader-client {readers}"] if readers != LIBRDKAFKA else []
        words += ["--wire"] if self.wire else []
        words += ["--wire-clients"] if self.wire_clients else []
        words += [] if rolls else [f"--seed {self.seed}"]
        return " ".join(words)


def rack_of(number: int, racks: int) -> str:
    """Return the rack of a broker or a reader, both counted from 1."""
    return f"rack-{(number - 1) % racks + 1}"


class _SchemaOnly(msgspec.Struct):
    schema: int


def _of_options(plan: Plan) -> Plan:
    """Return the plan that the options of ``highwater app`` make of one with a program."""
    topic, rate = plan.topic, plan.workload.rate
    return Plan(
        kafka=plan.kafka,
        driver=plan.driver,
        brokers=plan.brokers,
        topic=Topic(name=topic.name, partitions=topic.partitions, replication_factor=plan.brokers),
        workload=msgspec.structs.replace(PROGRAM_WORKLOAD, rate=rate),
        nemesis=plan.nemesis,
        duration_s=plan.duration_s,
        seed=plan.seed,
        program=plan.program,
    )


def _program_command(plan: Plan, program: ProgramPlan) -> str:
    options: list[tuple[str, object, object]] = [
        ("--in", "", plan.topic.name),
        ("--out", "", program.out),
        ("--kafka", "", plan.kafka),
        ("--cluster", "local", plan.driver),
        ("--brokers", Topic().replication_factor, plan.brokers),
        ("--partitions", 0, plan.topic.partitions),
        ("--instances", 0, program.instances),
        ("--rate", "", exact(plan.workload.rate) if plan.workload.rate else "max"),
        ("--guarantee", "", program.guarantee),
        ("--match", RECORD_NAME, program.match),
        ("--nemesis", "", ",".join(plan.nemesis) or "none"),
        ("--for", "", f"{exact(plan.duration_s)}s"),
        ("--seed", "", plan.seed),
    ]
    words = [[name, str(value)] for name, default, value in options if value != default]
    return shlex.join(
        ["highwater", "app", *(w for pair in words for w in pair), "--", *program.command]
    )


def _differences(plan: Plan) -> list[str]:
    """Return the options that are not at the defaults of ``highwater run``."""
    base, ours = Workload(), plan.workload
    budget = ",".join(f"{name}={most}" for name, most in plan.budget.items())
    options: list[tuple[str, object, object]] = [
        ("--producers", 0 if plan.story else base.producers, ours.producers),
        ("--consumers", base.consumers, ours.consumers),
        ("--rate", exact(base.rate), exact(ours.rate) if ours.rate else "max"),
        (
            "--record-bytes",
            ours.record_bytes if plan.story else base.record_bytes,
            ours.record_bytes,
        ),
        ("--compression", base.compression, ours.compression),
        ("--overlap", 1, plan.overlap),
        ("--budget", "", budget),
        ("--partitions", Topic().partitions if plan.story else 0, plan.topic.partitions),
        ("--brokers", plan.brokers if plan.external else Topic().replication_factor, plan.brokers),
        ("--delivery-timeout", base.delivery_timeout_s, ours.delivery_timeout_s),
        ("--aborts", base.aborts, ours.aborts),
        ("--isolation", ",".join(base.isolation), ",".join(ours.isolation)),
        ("--subscribe", base.subscribe, ours.subscribe),
        ("--share", base.share, ours.share),
        ("--group-protocol", base.group_protocol, ours.group_protocol),
        ("--churn", base.churn_s, ours.churn_s),
        ("--keys", base.keys, ours.keys),
        ("--tombstones", base.tombstones, ours.tombstones),
    ]
    words = [f"{name} {_word(name, value)}" for name, default, value in options if value != default]
    switches = (
        ("--idempotence", ours.idempotence and not ours.transactions),
        ("--transactions", ours.transactions),
        ("--transform", ours.transform),
        ("--tiered", plan.tiered),
    )
    return words + [name for name, on in switches if on]


def _word(option: str, value: object) -> str:
    seconds = "s" if option in {"--delivery-timeout", "--churn"} else ""
    return f"{exact(value)}{seconds}" if isinstance(value, int | float) else str(value)
