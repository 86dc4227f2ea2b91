"""The command ``highwater run``: builds a plan from options, performs it, and judges the run."""

from typing import Annotated

import typer

from highwater import console
from highwater.cli import external
from highwater.cli.external import ConfirmOption, InventoryOption
from highwater.cli.options.common import DEFAULT_STORE, JsonOption, StoreOption, on_spark
from highwater.harness.base import limits
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store


@on_spark
def run(  # noqa: PLR0913 - a command's options are its arguments
    *,
    kafka: Annotated[
        str | None, typer.Option(help="Release, as highwater versions names it.")
    ] = None,
    story: Annotated[
        str | None,
        typer.Option(help="Scripted schedule, such as loss; docs/faults.md lists them."),
    ] = None,
    nemesis: Annotated[
        str | None,
        typer.Option(
            help="Faults to mix at random, with weights: kill@leader=3,pause (docs/faults.md); or"
            f" none. A weight is {limits.WEIGHT.says}."
        ),
    ] = None,
    duration: Annotated[
        str,
        typer.Option(
            "--for",
            help=f"How long faults go on: 60s, 2m; {limits.FAULTS_S.lasting},"
            " 1.5s at least for a nemesis.",
        ),
    ] = "30s",
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    acks: Annotated[str, typer.Option(help="0, 1 or all.")] = "all",
    min_isr: Annotated[
        int, typer.Option("--min-isr", help="min.insync.replicas, 1 to --brokers.")
    ] = 1,
    unclean: Annotated[bool, typer.Option("--unclean", help="Allow unclean elections.")] = False,
    cluster: Annotated[str, typer.Option(help="Cluster driver: local or docker.")] = "local",
    inventory: InventoryOption = None,
    confirm: ConfirmOption = None,
    brokers: Annotated[
        int,
        typer.Option(help=f"Brokers, and replicas of each partition: {limits.BROKERS.says}."),
    ] = 3,
    partitions: Annotated[
        int | None, typer.Option(help=f"Partitions, {limits.PARTITIONS.says}.  [default: 3]")
    ] = None,
    producers: Annotated[
        int | None, typer.Option(help=f"Producers, {limits.CLIENTS.says}.  [default: 3]")
    ] = None,
    consumers: Annotated[
        int, typer.Option(help=f"Readers during the run, {limits.CLIENTS.says}.")
    ] = 1,
    rate: Annotated[str, typer.Option(help="Records per second in all, or max.")] = "200",
    record_bytes: Annotated[
        int,
        typer.Option("--record-bytes", help=f"Bytes of a value, {limits.RECORD_BYTES.says}."),
    ] = 64,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    idempotence: Annotated[
        bool, typer.Option("--idempotence", help="Idempotent producers.")
    ] = False,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Producers send in transactions.")
    ] = False,
    aborts: Annotated[
        float, typer.Option(help=f"Share of transactions to abort, {limits.ABORTS.says}.")
    ] = 0.2,
    transform: Annotated[
        bool, typer.Option("--transform", help="Transactions also read, and commit their offsets.")
    ] = False,
    isolation: Annotated[
        str, typer.Option(help="Of readers: read_committed, read_uncommitted, or both.")
    ] = "read_committed",
    subscribe: Annotated[
        int, typer.Option(help=f"Members of a group of readers, {limits.CLIENTS.says}.")
    ] = 0,
    churn: Annotated[
        str,
        typer.Option(
            help=f"How long a client lives until another replaces it: {limits.CHURN_S.lasting}."
        ),
    ] = "none",
    delivery_timeout: Annotated[
        str,
        typer.Option(
            "--delivery-timeout",
            help=f"When an unanswered send becomes info: {limits.DELIVERY_S.lasting}.",
        ),
    ] = "30s",
    budget: Annotated[
        str,
        typer.Option(
            help="At most so many of a fault, and brokers with a fault at a time:"
            " kill=5,brokers=1; of a fault"
            f" {limits.TIMES.says}, of brokers 1 to --brokers."
        ),
    ] = "none",
    overlap: Annotated[
        int,
        typer.Option(help=f"Sequences of random faults at the same time, {limits.OVERLAP.says}."),
    ] = 1,
    wire: Annotated[
        bool, typer.Option("--wire", help="Put the wire between brokers, and record what passes.")
    ] = False,
    wire_clients: Annotated[
        bool, typer.Option("--wire-clients", help="Put the wire between clients and brokers, too.")
    ] = False,
    message: Annotated[
        list[str] | None,
        typer.Option(
            help="A message to hold, drop, repeat or delay, in the words of docs/wire.md:"
            " 'hold EndTxn client:*>broker-1 at=2s for=5s'. As often as needed, instead of a"
            " nemesis.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str, typer.Option(help="Releases to upgrade to: before a story, or by the fault upgrade.")
    ] = "none",
    protocol: Annotated[
        str,
        typer.Option(
            help="Newest inter.broker.protocol.version (KRaft: metadata.version) to speak: 0.10.2."
        ),
    ] = "",
    message_format: Annotated[
        str, typer.Option("--format", help="Newest log.message.format.version to write.")
    ] = "",
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="Runs, one after the other.")] = 1,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    spark: SparkOptions,
) -> None:
    """Run one story or one random schedule on real brokers, judge it, and write its report."""
    from highwater.api import perform
    from highwater.nemesis.message_spec import read_option
    from highwater.nemesis.stories.registry import find_story

    kafka = external.release_of(kafka, cluster, inventory)
    workload = Workload(
        producers=(0 if story else 3) if producers is None else producers,
        consumers=consumers,
        acks=parse_values.acks(acks),
        idempotence=idempotence or transactions,
        transactions=transactions,
        aborts=aborts,
        transform=transform,
        isolation=parse_values.isolation(isolation),
        subscribe=subscribe,
        churn_s=parse_values.churn(churn),
        rate=parse_values.rate(rate),
        record_bytes=record_bytes,
        compression=compression,
        delivery_timeout_s=parse_values.duration(delivery_timeout),
    )
    plan = Plan(
        kafka=kafka,
        driver=cluster,
        brokers=brokers,
        topic=Topic(
            partitions=(1 if story else 3) if partitions is None else partitions,
            replication_factor=brokers,
            min_insync_replicas=min_isr,
            unclean_leader_election=unclean,
            config=dict(find_story(story).topic_config) if story else {},
        ),
        workload=workload,
        story=story,
        nemesis=() if nemesis is None else parse_values.nemesis(nemesis),
        budget=parse_values.budget(budget),
        overlap=overlap,
        duration_s=0.0 if story else parse_values.duration(duration),
        seed=seed,
        broker_config=dict(find_story(story).broker_config) if story else {},
        wire=wire,
        wire_clients=wire_clients,
        steps=tuple(
            read_option(text, until_s=parse_values.duration(duration)) for text in message or ()
        ),
        to=parse_values.names(to),
        protocol=protocol,
        format=message_format,
    )
    plans = [plan] * repeat
    if inventory is not None:
        plans = [external.onto(plan, inventory, confirm) for plan in plans]
    with console.progress() as progress:
        judged = perform(plans, Store(store), spark=spark, progress=progress)
    console.finish(judged, as_json=as_json)
