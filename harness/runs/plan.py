"""The plan of a run, saved as ``plan.json``. From a plan, the run can be repeated."""

import shlex
from pathlib import PurePath
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec.structs import force_setattr, replace

from highwater.harness.base import limits
from highwater.harness.base.errors import StoreError
from highwater.harness.base.wording import exact
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.releases.cluster_facts import UNCLEAN
from highwater.harness.releases.group_protocols import (
    CLASSIC,
    CONSUMER,
    CONSUMER_SETTINGS,
    LEAST_LOCK_S,
    LEAST_SESSION_S,
    LOCK_S,
    SESSION_S,
    SHARE_SETTINGS,
    SHARE_STATE_REPLICAS,
    GroupProtocol,
)
from highwater.harness.runs import parse_values
from highwater.harness.runs.availability import Limits
from highwater.harness.runs.derived_settings import derived
from highwater.harness.runs.likeness import Likeness
from highwater.harness.runs.options import Notation, Option, as_typed, options_of
from highwater.harness.runs.steps import ROLLING, Steps, current_fault

SCHEMA_VERSION = 1

Acks = parse_values.Acks
Isolation = parse_values.Isolation
Guarantee = parse_values.Guarantee

_DURATION: Final = Notation(parse_values.duration, lambda seconds: f"{exact(seconds)}s")
_NAMES: Final = Notation(parse_values.names, lambda names: ",".join(names) or "none")
_NEMESIS: Final = Notation(parse_values.nemesis, _NAMES.write)
_RATE: Final = Notation(parse_values.rate, lambda rate: exact(rate) if rate else "max")
_CHURN: Final = Notation(parse_values.churn, lambda s: _DURATION.write(s) if s else "none")
_BUDGET: Final = Notation(
    parse_values.budget,
    lambda budget: ",".join(f"{name}={most}" for name, most in budget.items()) or "none",
)

RECORD_NAME: Final = r"(?<![\w-])p\d+-\d+(?![\w-])"
"""Regular expression for the names of the records that the workload's producers send."""

WHOLE_RECORD: Final = r"(?s).+"
"""A regular expression that matches a complete record. By default, the complete record is the name
of a user's record."""


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topic under test and its settings, which decide Kafka's guarantee.

    Attributes:
        partitions: number of partitions at the run's end.
        added: number of these partitions that a story adds during the run.
        like: the existing topic whose settings this topic copies, on an external cluster.
    """

    name: str = "events"
    partitions: Annotated[int, Option("Partitions, {}.", limits.PARTITIONS, default="3")] = 1
    added: int = 0
    replication_factor: int = 3
    min_insync_replicas: Annotated[
        int, Option("min.insync.replicas, 1 to --brokers.", name="min_isr")
    ] = 1
    unclean_leader_election: Annotated[
        bool,
        Option(
            "Allow unclean elections, or forbid them.",
            name="unclean",
            typed="--unclean/--clean",
            default="clean",
        ),
    ] = False
    config: dict[str, str] = {}
    like: Likeness | None = None

    def settings(self) -> dict[str, str]:
        """Return the topic's configuration with Kafka's names.

        Retention and compaction are off, whatever the brokers' defaults are, because a removed
        record would look lost. A workload with keys enables compaction in ``config``. An empty
        value in ``config`` means that the brokers and controllers choose the setting.
        """
        settings = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.insync.replicas": str(self.min_insync_replicas),
            UNCLEAN: str(self.unclean_leader_election).lower(),
            **self.config,
        }
        return {name: value for name, value in settings.items() if value}

    @property
    def compacted(self) -> bool:
        """True if Kafka may remove records from the middle of this topic."""
        return "compact" in self.config.get("cleanup.policy", "")

    @property
    def expires(self) -> bool:
        """True if brokers delete records that are older than a limit."""
        return self.settings().get("retention.ms") != "-1"


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The clients of a run: producers and consumers while faults happen.

    Attributes:
        producers: number of producers, which are separate processes in the history; 0 if only a
            story sends records.
        idempotence: whether producers are idempotent. Like transactions, this needs 0.11 or later
            and acks=all.
        rate: records per second of all producers together; 0 means no limit.
        isolation: isolation levels. Readers and group members use them in turn.
        joined: number of group members that the story itself starts.
        churn_s: average life of a client in seconds; half of the clients end by a crash. With 0, no
            client is replaced.
    """

    producers: Annotated[int, Option("Producers, {}.", limits.CLIENTS)] = 3
    consumers: Annotated[
        int, Option("Readers during the run, {}.", limits.CLIENTS, "consumers")
    ] = 1
    acks: Annotated[Acks, Option("0, 1 or all.", notation=Notation(parse_values.acks))] = "all"
    idempotence: Annotated[bool, Option("Idempotent producers.")] = False
    rate: Annotated[float, Option("Records per second in all, or max.", notation=_RATE)] = 200.0
    record_bytes: Annotated[
        int, Option("Bytes of a value, {}.", limits.RECORD_BYTES, "bytes a record")
    ] = 64
    compression: Annotated[str, Option("none, gzip, snappy, lz4 or zstd.")] = "none"
    delivery_timeout_s: Annotated[
        float,
        Option(
            "Time until a send without a response becomes info: {.lasting}.",
            limits.DELIVERY_S,
            "seconds until a send without a response is info",
            name="delivery_timeout",
            notation=_DURATION,
        ),
    ] = 30.0
    transactions: Annotated[bool, Option("Producers send in transactions.")] = False
    aborts: Annotated[
        float,
        Option(
            "Share of transactions to abort, {}.",
            limits.ABORTS,
            "as the share of transactions to abort",
        ),
    ] = 0.2
    transform: Annotated[
        bool, Option("Transactions also read records, and commit their offsets.")
    ] = False
    isolation: Annotated[
        tuple[Isolation, ...],
        Option(
            "For readers: read_committed, read_uncommitted, or both.",
            notation=Notation(parse_values.isolation, ",".join),
        ),
    ] = ("read_committed",)
    subscribe: Annotated[int, Option("Members of a group of readers, {}.", limits.CLIENTS)] = 0
    joined: int = 0
    group_protocol: Annotated[
        GroupProtocol,
        Option(
            "Protocol of a group of readers: classic, or consumer (KIP-848, since 4.0).",
            notation=Notation(parse_values.group_protocol),
        ),
    ] = CLASSIC
    share: Annotated[int, Option("Members of a share group (KIP-932), {}.", limits.CLIENTS)] = 0
    churn_s: Annotated[
        float,
        Option(
            f"Average life of a client until a new client replaces it: {limits.CHURN_S.lasting}.",
            name="churn",
            notation=_CHURN,
        ),
    ] = 0.0
    keys: Annotated[int, Option("Record keys, on a compacted topic, {}; 0: none.", limits.KEYS)] = 0
    tombstones: Annotated[
        float,
        Option(
            "Share of records that delete their key, {}.",
            limits.ABORTS,
            "as the share of records that delete their key",
        ),
    ] = 0.1

    @property
    def members(self) -> int:
        """The number of group members, including those of share groups and stories."""
        return self.subscribe + self.share + self.joined


EXTERNAL: Final = "external"
"""The driver of external clusters."""


class External(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The external cluster of a run.

    Attributes:
        inventory: path of the file with the cluster's addresses and the commands for faults.
        cluster_id: id of the cluster that the user confirmed.
        code: the code with which the user confirmed the cluster; empty if the user confirmed only
            the id.
        brokers: ids of the brokers in which faults may be injected.
        commands: names of the inventory's commands, such as ``pause``.
    """

    inventory: str
    cluster_id: str
    brokers: tuple[int, ...]
    commands: tuple[str, ...]
    code: str = ""

    @property
    def words(self) -> str:
        """The command-line options for this cluster: ``--inventory FILE --confirm CODE``."""
        path = shlex.quote(self.inventory)
        return f"--inventory {path} --confirm {self.code or self.cluster_id}"


class ProgramPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program under test: it reads the topic under test, and writes to another topic.

    Attributes:
        command: the program and its arguments, with the placeholders of
            ``highwater.runtime.programs.instances``. Values of ``env`` may have placeholders, too.
        out: name of the output topic, which has as many partitions as the topic under test. If
            empty, the program writes elsewhere, and prints a line for each finished input. A
            program without input prints the records that it has written; see
            ``highwater.runtime.programs.printed_lines``.
        match: see ``harness.runs.programs.expressions``. With ``feed``, it also names inputs.
        outputs: number of outputs that an input must have. With fewer outputs, the input is only
            partly processed.
        when: an expression for inputs that need outputs; empty means that all inputs need them.
        feed: path of a file, see ``harness.runs.programs.feed``. If empty, the harness makes the
            inputs.
    """

    command: tuple[str, ...]
    out: str = "out"
    instances: Annotated[int, Option("Processes, {}.", limits.INSTANCES, "instances")] = 1
    guarantee: Annotated[
        Guarantee,
        Option(
            "at-least-once, at-most-once or exactly-once.",
            notation=Notation(parse_values.guarantee),
        ),
    ] = "at-least-once"
    match: Annotated[
        str,
        Option(
            "Where an output has the name of its input: key, header:NAME, $.json.path, "
            "module:function"
            " or a regular expression.",
            default="",
        ),
    ] = RECORD_NAME
    env: Annotated[
        tuple[str, ...],
        Option("Variable for the program, NAME={{bootstrap}}; may be repeated.", default=""),
    ] = ()
    outputs: Annotated[int, Option("Outputs for each input, {}.", limits.OUTPUTS, "outputs")] = 1
    when: Annotated[
        str, Option("Expression, as in --match, for the inputs that need an output.")
    ] = ""
    ordered: Annotated[
        bool, Option("Require the first outputs to be in the order of their partition's inputs.")
    ] = False
    feed: Annotated[
        str,
        Option("File with your own inputs, one JSON object per line, or an earlier run's folder."),
    ] = ""

    def __post_init__(self) -> None:
        """With ``feed`` but without ``match``, use the whole line as the record's name."""
        if self.feed and self.match == RECORD_NAME:
            force_setattr(self, "match", WHOLE_RECORD)

    def outlets(self, partitions: int) -> int:
        """Return the number of output partitions or, without an output topic, of instances.

        A fault may start one more instance.
        """
        return partitions if self.out else self.instances + 1

    def place(self, outlet: int, offset: int) -> str:
        """Return an output's position as text, such as ``offset 7 of payments-0``."""
        if self.out:
            return f"offset {offset} of {self.out}-{outlet}"
        return f"line {offset} that instance {outlet} printed"


PROGRAM_WORKLOAD: Final = Workload(producers=1, consumers=0, idempotence=True, rate=100.0)
"""The clients of a run with a program under test. They only send inputs to the program."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings that decide a run.

    Attributes:
        schema: version of the run directory's layout (``SCHEMA_VERSION``).
        steps: faults to inject step by step, instead of a story or a nemesis; see
            ``harness.runs.steps``.
        schedule: the model's schedule to replay, as plain JSON (see
            ``checkers.model.schedules.schedule``), or None.
        calm_s: duration of the pause between two series of faults in a random schedule; 0 means no
            pauses.
        max_outage_s: the user's limit for an outage; 0 means no limit.
        max_recovery_s: the user's limit for a recovery; 0 means no limit.
        duration_s: the duration of a random schedule; with steps, the least duration.
        broker_config: broker settings in addition to the driver's own, with Kafka's names.
        wire: whether the relay is between brokers even if no fault or story needs it.
        to: releases, in the order of the upgrades. A random schedule may not reach all releases.
        protocol: newest protocol version that brokers use; empty for the release's own.
        format: newest message format that brokers write; empty for the release's own.
        external: the cluster, if the driver is ``external``.
        read_only: the existing topic that the run only reads; ``topic`` then describes this topic.
        program: the program under test, or None.
    """

    kafka: Annotated[str, Option("Kafka release, such as 3.9.2; highwater versions lists all.")]
    schema: int = SCHEMA_VERSION
    driver: Annotated[str, Option("Cluster driver: local or docker.", name="cluster")] = "local"
    brokers: Annotated[
        int, Option("Brokers, and replicas of each partition: {}.", limits.BROKERS)
    ] = 3
    controllers: Annotated[int, Option("KRaft controllers, or ZooKeepers: 1, 3 or 5.")] = 1
    topic: Topic = Topic()
    workload: Workload = Workload()
    story: Annotated[str | None, Option("Scripted scenario, such as loss (docs/faults.md).")] = None
    nemesis: Annotated[
        tuple[str, ...],
        Option(
            f"Faults for a random schedule, weights {limits.WEIGHT.says}: kill@leader=3,pause"
            " (docs/faults.md); or none.",
            notation=_NEMESIS,
            default="",
        ),
    ] = ()
    budget: Annotated[
        dict[str, int],
        Option(
            f"Most injections of a fault, {limits.TIMES.says}, and most brokers with faults at a"
            " time: kill=5,brokers=1.",
            notation=_BUDGET,
        ),
    ] = {}
    overlap: Annotated[
        int, Option("Sequences of random faults at the same time, {}.", limits.OVERLAP)
    ] = 1
    calm_s: Annotated[
        float,
        Option(
            f"Quiet time after each group of random faults, {limits.CALM_S.lasting}.",
            name="calm",
            notation=_CHURN,
        ),
    ] = 0.0
    max_outage_s: Annotated[
        float,
        Option(
            "Longest allowed time without an acknowledgement in a partition.",
            name="max_outage",
            notation=_CHURN,
        ),
    ] = 0.0
    max_recovery_s: Annotated[
        float,
        Option(
            "Longest allowed time from a healing until all replicas are in sync.",
            name="max_recovery",
            notation=_CHURN,
        ),
    ] = 0.0
    steps: Steps = ()
    schedule: dict[str, Any] | None = None
    duration_s: Annotated[
        float,
        Option(
            "Duration of the faults, without a story: {.lasting}; with --nemesis at least 1.5s.",
            limits.FAULTS_S,
            "seconds of faults",
            name="duration",
            typed="--for",
            notation=_DURATION,
            default="30s",
        ),
    ] = 0.0
    seed: Annotated[int, Option("Seed of all random choices.", unit="seeds")] = 0
    broker_config: dict[str, str] = {}
    wire: Annotated[
        bool, Option("Put a proxy (the wire) between brokers, and record messages.")
    ] = False
    wire_clients: Annotated[bool, Option("Put the proxy between clients and brokers, too.")] = False
    to: Annotated[
        tuple[str, ...],
        Option(
            "Releases to upgrade to: before a story, or when the fault upgrade is injected.",
            notation=_NAMES,
        ),
    ] = ()
    protocol: Annotated[
        str,
        Option("Newest inter.broker.protocol.version (KRaft: metadata.version) to use: 0.10.2."),
    ] = ""
    format: Annotated[str, Option("Newest log.message.format.version to write.")] = ""
    trace_flushes: Annotated[bool, Option("Trace brokers' flushes, for the fault torn-files.")] = (
        False
    )
    log_dirs: Annotated[int, Option("Log directories of each broker, {}.", limits.LOG_DIRS)] = 1
    racks: Annotated[
        int,
        Option(
            "Racks of brokers and readers (readers fetch from followers in their rack); 0: none."
        ),
    ] = 0
    tiered: Annotated[bool, Option("Brokers have a remote tier (KIP-405), since 3.6.")] = False
    client: Annotated[
        str,
        Option(
            "Library of the producers: librdkafka, librdkafka:2.10.0, java, java:3.9.2,"
            " kafka-python, aiokafka, or ./driver (docs/driver.md)."
        ),
    ] = LIBRDKAFKA
    reader_client: Annotated[
        str, Option("Library of readers and members of groups, named as in --client.")
    ] = LIBRDKAFKA
    external: External | None = None
    read_only: Annotated[
        str, Option("Existing topic of your own cluster to read. The run then writes nothing.")
    ] = ""
    program: ProgramPlan | None = None

    def __post_init__(self) -> None:
        """Replace former names of faults with their current names."""
        budget = {current_fault(name): most for name, most in self.budget.items()}
        force_setattr(self, "nemesis", tuple(map(current_fault, self.nemesis)))
        force_setattr(self, "budget", budget)

    @property
    def played_on(self) -> str:
        """The brokers' release at the first fault, which is after all upgrades in a story."""
        return self.to[-1] if self.to and self.story else self.kafka

    @property
    def software(self) -> str:
        """The software under test, as text: ``0.11.0.3 with protocol 0.10.2``."""
        runs = self.played_on if self.story else " to ".join((self.kafka, *self.to[-1:]))
        limited = {"protocol": self.protocol, "format": self.format}
        others = [f"{what} {most}" for what, most in limited.items() if most]
        if "/" in self.client:
            others.append(f"the client driver {PurePath(self.client.split()[-1]).name}")
        elif ":" in self.client:
            others.append(self.client)
        return f"{runs} with {' and '.join(others)}" if others else runs

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The ids of the brokers in which faults can be injected."""
        if self.external is not None:
            return self.external.brokers
        return tuple(range(1, self.brokers + 1))

    @property
    def group(self) -> str:
        """The name of the group that the workload's members, or the program under test, join."""
        return group_of(self.topic.name)

    @property
    def share_group(self) -> str:
        """The name of the share group of a random run."""
        return share_group_of(self.topic.name)

    @property
    def session_s(self) -> float:
        """The session timeout in seconds of members of classic groups."""
        return SESSION_S if self.external is None else LEAST_SESSION_S

    @property
    def lock_s(self) -> float:
        """The time in seconds for which a record is locked for a member of the share group."""
        return LOCK_S if self.external is None else LEAST_LOCK_S

    @property
    def without_input(self) -> bool:
        """True if a program under test gets no inputs, and only writes."""
        return self.program is not None and not self.workload.producers

    @property
    def named_by_keys(self) -> bool:
        """True if a record's key is its name: for the user's own inputs."""
        return self.program is not None and bool(self.program.feed)

    def broker_settings(self) -> dict[str, str]:
        """Return broker settings. Coordinators' topics get a replica on every broker.

        With a single replica, such a topic would be unavailable without that broker.
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
        """Return the plan in the form of ``plan.json``."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read a plan; raise ``StoreError`` if it is not a plan, or has another schema version."""
        try:
            schema = msgspec.json.decode(text, type=_SchemaOnly).schema
        except msgspec.MsgspecError as error:
            raise StoreError(f"plan.json is not a plan: {error}") from error
        if schema != SCHEMA_VERSION:
            raise StoreError(
                f"the run has store schema {schema}; this Highwater reads schema {SCHEMA_VERSION}",
                hint="Judge it with the Highwater release that recorded it, or record it again.",
            )
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(f"plan.json is broken: {error}") from error

    @property
    def rolls(self) -> bool:
        """True if this is a plan of ``highwater rolling``."""
        return self.external is not None and [step.fault for step in self.steps] == [ROLLING]

    @property
    def calm(self) -> bool:
        """True if the plan has no faults: no story, nemesis, steps or schedule."""
        return not (self.story or self.nemesis or self.steps) and self.schedule is None

    @property
    def availability_limits(self) -> Limits:
        """The limits of outages that the user set; see ``harness.runs.availability``."""
        limits_s = {
            "unacknowledged": ("--max-outage", self.max_outage_s),
            "unsynced": ("--max-recovery", self.max_recovery_s),
        }
        return {name: limit for name, limit in limits_s.items() if limit[1]}

    @property
    def happens(self) -> str:
        """The schedule in a few words: the story's name, ``kill,pause`` or ``calm``."""
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
        """True if command-line options can express the complete plan.

        Options cannot express steps, or settings from Python. With a story, the story decides the
        settings of topic and brokers, so they need no options.
        """
        if self.steps and not self.rolls:
            return False
        if self.program is not None:
            return self == _of_options(self)
        if self.story or self.schedule is not None:
            return True
        topic, workload, plain = self.topic, self.workload, self.topic
        config, brokers = derived(keys=workload.keys > 0, tiered=self.tiered)
        if self.external is None:
            plain = replace(topic, name=Topic().name, replication_factor=self.brokers)
        if not (self.external and (topic.like or self.read_only)):
            plain = replace(plain, added=0, config=config, like=None)
        grouped = workload.group_protocol == CLASSIC or workload.subscribe > 0
        idempotent = workload.idempotence or not workload.transactions
        brokers = {} if self.external else brokers
        plan = replace(self, topic=plain, broker_config=brokers)
        return grouped and idempotent and not workload.joined and plan == self

    def command(self) -> str:
        """Return the command that repeats this run with every setting.

        The command reads a file of the run, and so must run in its directory, in three cases:
        options cannot express the plan, the plan is a replay, or the topic copies another topic.
        """
        if not self.has_options:
            return "highwater replay plan.json"
        if self.program is not None:
            return _program_command(self, self.program)
        if self.schedule is not None:
            words = ["highwater model replay schedule.json", *as_typed(self, "kafka")]
            words += as_typed(self, "cluster") if self.driver != "local" else []
            own_client = self.client == LIBRDKAFKA and "model" not in self.schedule
            words += [] if own_client else as_typed(self, "client")
            return " ".join([*words, *as_typed(self, "seed")])
        rolls = self.rolls
        words = [f"highwater {'rolling' if rolls else 'run'}"]
        words += as_typed(self, "kafka", *(() if self.read_only else _OF_TOPIC))
        if self.external is not None:
            words.append(self.external.words)
            words += ["--like ./plan.json"] if self.topic.like else []
        elif self.driver != "local":
            words += as_typed(self, "cluster")
        happens = ("story",) if self.story else ("duration",) if rolls else ("nemesis", "duration")
        words += as_typed(self, *happens, *_changed(self))
        return " ".join([*words, *([] if rolls else as_typed(self, "seed"))])


def group_of(topic: str) -> str:
    """Return the name of the group that reads a run's topic: ``<topic>-group``."""
    return f"{topic}-group"


def share_group_of(topic: str) -> str:
    """Return the name of the share group whose members read a run's topic."""
    return f"{topic}-share"


def transform_group_of(topic: str) -> str:
    """Return the name of the group whose members read in transactions."""
    return f"{topic}-transform"


def rack_of(number: int, racks: int) -> str:
    """Return the rack of a broker or reader: with 3 racks, number 4 -> ``rack-1``."""
    return f"rack-{(number - 1) % racks + 1}"


class _SchemaOnly(msgspec.Struct):
    schema: int


_OF_TOPIC: Final = ("acks", "min_isr", "unclean")
_AT_FIRST: Final = frozenset(("kafka", *_OF_TOPIC, "cluster", "story", "nemesis", "duration"))
_NEXT: Final = (
    *("producers", "consumers", "rate", "record_bytes", "compression", "overlap", "calm", "budget"),
    *("partitions", "brokers", "delivery_timeout", "aborts", "isolation", "subscribe", "share"),
    *("group_protocol", "churn", "keys", "tombstones"),
)
"""The order of options in commands; other options follow in the order of a plan's fields."""


def _of_options(plan: Plan) -> Plan:
    """Return the plan that ``highwater app`` makes from this plan's options, to compare the two."""
    topic, fed = plan.topic, plan.workload
    replicas = topic.replication_factor if plan.external else plan.brokers
    return Plan(
        kafka=plan.kafka,
        driver=plan.driver,
        external=plan.external,
        brokers=plan.brokers,
        topic=Topic(name=topic.name, partitions=topic.partitions, replication_factor=replicas),
        workload=replace(
            PROGRAM_WORKLOAD,
            producers=min(fed.producers, PROGRAM_WORKLOAD.producers),
            rate=fed.rate,
            idempotence=fed.idempotence,
            transactions=fed.transactions,
        ),
        nemesis=plan.nemesis,
        duration_s=plan.duration_s,
        seed=plan.seed,
        wire_clients=plan.external is None,
        program=plan.program,
    )


def _program_command(plan: Plan, program: ProgramPlan) -> str:
    read = "" if plan.without_input else plan.topic.name
    named = {word: name for word, name in (("--in", read), ("--out", program.out)) if name}
    if plan.external is not None and len(named) > 1:
        named = {}  # the run chooses the topics' names
    topics = " ".join(f"{word} {shlex.quote(name)}" for word, name in named.items())
    cluster = ["cluster"] if plan.driver != "local" else []
    cluster += ["brokers"] if plan.brokers != Topic().replication_factor else []
    if plan.external is not None:
        topics, cluster = f"{plan.external.words} {topics}".rstrip(), []
    usual = ProgramPlan(command=())
    changed = [
        n for n, option in options_of(ProgramPlan).items() if option.of(program) != option.of(usual)
    ]
    words = [
        f"highwater app {topics}",
        *as_typed(plan, "kafka", *cluster, "partitions"),
        *as_typed(plan, "rate", "transactions"),
        *as_typed(program, *changed),
        *as_typed(plan, "nemesis", "duration", "seed"),
        "--",
        shlex.join(program.command),
    ]
    return " ".join(words)


def _changed(plan: Plan) -> list[str]:
    """Return the names of options whose values differ from the defaults of ``highwater run``."""
    ours = plan.workload
    usual = Workload(idempotence=ours.transactions and ours.idempotence)
    if plan.story:
        usual = replace(usual, producers=0, record_bytes=ours.record_bytes, keys=ours.keys)
    topic = Topic(partitions=Topic().partitions if plan.story else 0)
    if plan.read_only:
        topic, usual = plan.topic, replace(usual, producers=0)
    base = Plan(kafka=plan.kafka, topic=topic, workload=usual, seed=plan.seed)
    if plan.external:
        base = replace(base, brokers=plan.brokers)
    options = options_of(Plan)
    names = [name for name in dict.fromkeys((*_NEXT, *options)) if name not in _AT_FIRST]
    return [name for name in names if options[name].of(plan) != options[name].of(base)]
