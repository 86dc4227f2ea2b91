"""The command ``highwater run``: builds a plan from options, performs it, and judges the run."""

from typing import Annotated, Final

from typer import Option

from highwater import console
from highwater.cli import external
from highwater.cli.external import ConfirmOption, InventoryOption, LikeOption
from highwater.cli.options.common import (
    DEFAULT_STORE,
    ControllersOption,
    JsonOption,
    StoreOption,
    on_spark,
)
from highwater.cli.options.workload import (
    AcksOption,
    ClientOption,
    CompressionOption,
    ConsumersOption,
    DeliveryTimeoutOption,
    GroupProtocolOption,
    IdempotenceOption,
    KeysOption,
    RateOption,
    ReaderClientOption,
    RecordBytesOption,
    TombstonesOption,
    UncleanOption,
)
from highwater.harness.base import limits
from highwater.harness.base.errors import UsageError
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.releases.client_choice import LIBRDKAFKA
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store
from highwater.harness.runs.topics.topic_settings import with_settings

_FOR: Final = "30s"
"""How long faults go on, if nothing else is said."""


@on_spark
def run(  # noqa: PLR0913 - a command's options are its arguments
    *,
    kafka: Annotated[str | None, Option(help="Release, as highwater versions names it.")] = None,
    story: Annotated[
        str | None, Option(help="Scripted schedule, such as loss; docs/faults.md lists them.")
    ] = None,
    nemesis: Annotated[
        str | None,
        Option(
            help="Faults to mix at random, with weights: kill@leader=3,pause (docs/faults.md); or"
            f" none. A weight is {limits.WEIGHT.says}."
        ),
    ] = None,
    duration: Annotated[
        str | None,
        Option(
            "--for",
            help=f"How long faults go on: 60s, 2m; {limits.FAULTS_S.lasting}, 1.5s at least for a"
            f" nemesis; not with a story.  [default: {_FOR}]",
        ),
    ] = None,
    seed: Annotated[int, Option(help="Seed of all random choices.")] = 0,
    acks: AcksOption = "all",
    min_isr: Annotated[
        int | None,
        Option("--min-isr", help="min.insync.replicas, 1 to --brokers.  [default: 1]"),
    ] = None,
    unclean: UncleanOption = None,
    cluster: Annotated[str, Option(help="Cluster driver: local or docker.")] = "local",
    inventory: InventoryOption = None,
    confirm: ConfirmOption = None,
    like: LikeOption = None,
    brokers: Annotated[
        int, Option(help=f"Brokers, and replicas of each partition: {limits.BROKERS.says}.")
    ] = 3,
    controllers: ControllersOption = 1,
    log_dirs: Annotated[
        int,
        Option("--log-dirs", help=f"Log directories of each broker, {limits.LOG_DIRS.says}."),
    ] = 1,
    racks: Annotated[
        int,
        Option(help="Racks of brokers and readers, who fetch from a follower in theirs; 0: none."),
    ] = 0,
    tiered: Annotated[
        bool, Option("--tiered", help="Brokers have a remote tier (KIP-405), since 3.6.")
    ] = False,
    partitions: Annotated[
        int | None, Option(help=f"Partitions, {limits.PARTITIONS.says}.  [default: 3]")
    ] = None,
    producers: Annotated[
        int | None, Option(help=f"Producers, {limits.CLIENTS.says}.  [default: 3]")
    ] = None,
    consumers: ConsumersOption = 1,
    rate: RateOption = "200",
    record_bytes: RecordBytesOption = 64,
    compression: CompressionOption = "none",
    idempotence: IdempotenceOption = False,
    transactions: Annotated[
        bool, Option("--transactions", help="Producers send in transactions.")
    ] = False,
    aborts: Annotated[
        float, Option(help=f"Share of transactions to abort, {limits.ABORTS.says}.")
    ] = 0.2,
    transform: Annotated[
        bool, Option("--transform", help="Transactions also read, and commit their offsets.")
    ] = False,
    isolation: Annotated[
        str, Option(help="Of readers: read_committed, read_uncommitted, or both.")
    ] = "read_committed",
    subscribe: Annotated[
        int, Option(help=f"Members of a group of readers, {limits.CLIENTS.says}.")
    ] = 0,
    group_protocol: GroupProtocolOption = None,
    share: Annotated[
        int, Option(help=f"Members of a share group (KIP-932), {limits.CLIENTS.says}.")
    ] = 0,
    churn: Annotated[
        str,
        Option(
            help=f"How long a client lives until another replaces it: {limits.CHURN_S.lasting}."
        ),
    ] = "none",
    keys: KeysOption = 0,
    tombstones: TombstonesOption = 0.1,
    delivery_timeout: DeliveryTimeoutOption = "30s",
    client: ClientOption = None,
    reader_client: ReaderClientOption = LIBRDKAFKA,
    budget: Annotated[
        str,
        Option(
            help="At most so many of a fault, and brokers with a fault at a time:"
            " kill=5,brokers=1; of a fault"
            f" {limits.TIMES.says}, of brokers 1 to --brokers."
        ),
    ] = "none",
    overlap: Annotated[
        int, Option(help=f"Sequences of random faults at the same time, {limits.OVERLAP.says}.")
    ] = 1,
    trace_flushes: Annotated[
        bool,
        Option("--trace-flushes", help="Trace what brokers flush, for the fault torn-files."),
    ] = False,
    wire: Annotated[
        bool, Option("--wire", help="Put the wire between brokers, and record what passes.")
    ] = False,
    wire_clients: Annotated[
        bool, Option("--wire-clients", help="Put the wire between clients and brokers, too.")
    ] = False,
    message: Annotated[
        list[str] | None,
        Option(
            help="A message to hold, drop, repeat or delay, in the words of docs/wire.md:"
            " 'hold EndTxn client:*>broker-1 at=2s for=5s'. As often as needed, instead of a"
            " nemesis.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str, Option(help="Releases to upgrade to: before a story, or by the fault upgrade.")
    ] = "none",
    protocol: Annotated[
        str,
        Option(
            help="Newest inter.broker.protocol.version (KRaft: metadata.version) to speak: 0.10.2."
        ),
    ] = "",
    message_format: Annotated[
        str, Option("--format", help="Newest log.message.format.version to write.")
    ] = "",
    repeat: Annotated[int, Option(min=1, max=1000, help="Runs, one after the other.")] = 1,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Run one story or one random schedule on real brokers, judge it, and write its report."""
    from highwater.api import perform
    from highwater.nemesis.message_spec import read_option
    from highwater.nemesis.stories.registry import find_story

    kafka = external.release_of(kafka, cluster, inventory)
    external.require_inventory(like, inventory)
    script = find_story(story) if story else None
    if script is not None and duration is not None:
        raise UsageError(
            f"the story {script.name} ends by itself: --for {duration} has no effect",
            hint="Leave --for out, or name faults with --nemesis.",
        )
    duration = duration or _FOR
    added = script.needs.added if script else 0
    transactions = transactions or (script is not None and script.needs.transactions)
    workload = Workload(
        producers=(0 if story else 3) if producers is None else producers,
        consumers=consumers,
        acks=parse_values.acks(acks),
        idempotence=idempotence or transactions or (script is not None and script.needs.idempotent),
        transactions=transactions,
        aborts=aborts,
        transform=transform,
        isolation=parse_values.isolation(isolation),
        **parse_values.group(subscribe, group_protocol),
        share=share,
        churn_s=parse_values.churn(churn),
        keys=keys,
        tombstones=tombstones,
        rate=parse_values.rate(rate),
        record_bytes=script.needs.record_bytes if script else record_bytes,
        compression=compression,
        delivery_timeout_s=parse_values.duration(delivery_timeout),
    )
    plan = Plan(
        kafka=kafka,
        driver=cluster,
        brokers=max(brokers, script.brokers) if script else brokers,
        controllers=controllers,
        log_dirs=log_dirs,
        racks=racks,
        topic=Topic(
            partitions=(
                (script.needs.all_partitions if script else 3) if partitions is None else partitions
            ),
            added=added,
            replication_factor=script.replicas(brokers) if script else brokers,
            min_insync_replicas=1 if min_isr is None else min_isr,
            unclean_leader_election=bool(unclean),
            config=dict(script.topic_config) if script else {},
        ),
        workload=workload,
        story=story,
        nemesis=() if nemesis is None else parse_values.nemesis(nemesis),
        budget=parse_values.budget(budget),
        overlap=overlap,
        duration_s=0.0 if story else parse_values.duration(duration),
        seed=seed,
        broker_config=dict(script.broker_config) if script else {},
        trace_flushes=trace_flushes,
        wire=wire,
        wire_clients=wire_clients or (script is not None and script.needs.wire == "clients"),
        tiered=tiered or (script is not None and script.needs.tiered),
        steps=tuple(
            read_option(text, until_s=parse_values.duration(duration)) for text in message or ()
        ),
        to=parse_values.names(to),
        client=client or (LIBRDKAFKA if script is None else script.needs.client),
        reader_client=reader_client,
        protocol=protocol,
        format=message_format,
    )
    plans = [with_settings(plan)] * repeat
    if inventory is not None:
        given = external.topic_options(partitions=partitions, min_isr=min_isr, unclean=unclean)
        plans = [external.onto(plan, inventory, confirm, like=like, given=given) for plan in plans]
        external.show_likeness(plans[0].topic)
    with console.progress() as progress:
        judged = perform(plans, Store(store), spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)
