"""Runs on an external cluster, and the command that heals what such a run left broken."""

import secrets
from pathlib import Path
from typing import Annotated

import msgspec
from typer import Option

from highwater import console
from highwater.clusters.external.inventory import Inventory, resolved
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.client_choice import KAFKA_PYTHON, LIBRDKAFKA, read_client
from highwater.harness.runs.plan import External, Plan
from highwater.runtime.preflight import EXTERNAL

OFFSETS = "__consumer_offsets"
REPLICAS = 3
"""Of each partition, where there are as many brokers."""

InventoryOption = Annotated[
    Path | None,
    Option("--inventory", metavar="FILE", help="A cluster of yours, and how to break it (TOML)."),
]
ConfirmOption = Annotated[
    str | None, Option("--confirm", metavar="CODE", help="With --inventory: that cluster's code.")
]


def release_of(kafka: str | None, cluster: str, inventory: Path | None) -> str:
    """Return the release of a run, from ``--kafka`` or from the inventory."""
    if (cluster == EXTERNAL) > (inventory is not None):
        raise UsageError("an external cluster needs an inventory", hint="Add --inventory FILE.")
    if inventory is None:
        if kafka is None:
            raise UsageError("No release was named.", hint=f"Add --kafka {MODERN}, say.")
        return kafka
    named = Inventory.read(inventory).kafka
    if kafka not in (None, named):
        raise UsageError(
            f"{inventory} says Kafka {named}, and --kafka {kafka}", hint="Leave --kafka out."
        )
    return named


def onto(plan: Plan, path: Path, confirm: str | None) -> Plan:
    """Return the same plan for the cluster of an inventory, after checking the cluster's identity.

    Faults that a dead run left on it are healed first: without that it might not answer.
    """
    from highwater.clusters.external.cluster import heal_leftovers
    from highwater.clusters.external.identity import identify

    path = resolved(path)
    inventory = Inventory.read(path)
    heal_leftovers(path)
    identity = identify(inventory, confirm)
    count = len(inventory.brokers)
    topic = msgspec.structs.replace(
        plan.topic,
        name=f"{inventory.prefix}{secrets.token_hex(4)}",
        replication_factor=min(REPLICAS, count),
    )
    unmade = OFFSETS not in identity.topics and _read_without_groups(plan, inventory)
    return msgspec.structs.replace(
        plan,
        reader_client=KAFKA_PYTHON if unmade else plan.reader_client,
        driver=EXTERNAL,
        kafka=inventory.kafka,
        brokers=count,
        topic=topic,
        external=External(
            inventory=str(path),
            cluster_id=identity.cluster_id,
            code=identity.code,
            brokers=tuple(sorted(inventory.brokers)),
            commands=tuple(sorted(inventory.commands.named())),
        ),
    )


def _read_without_groups(plan: Plan, inventory: Inventory) -> bool:
    """Return whether kafka-python can read in librdkafka's place.

    librdkafka asks for the coordinator of a group that nobody joins, and brokers create
    ``__consumer_offsets`` for the answer.
    """
    choice = read_client(KAFKA_PYTHON, inventory.kafka)
    return (
        plan.reader_client == LIBRDKAFKA
        and choice.compresses(plan.workload.compression)
        and not choice.why_not(release(inventory.kafka))
        and inventory.client.get("enable.ssl.certificate.verification") != "false"
    )


def heal(
    *,
    inventory: Annotated[Path, Option(metavar="FILE", help="Inventory of the cluster.")],
    as_json: Annotated[bool, Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Heal the faults that a dead run left on a cluster of yours, and delete its topics.

    The next run does this too, and so does a guard process as soon as a run dies. This command also
    looks for topics with the prefix, deletes those that runs of this machine have made, and names
    the others.
    """
    from highwater.clusters.external.cluster import delete_left_topics, heal_leftovers

    messages: list[str] = []
    path = resolved(inventory)
    Inventory.read(path)
    heal_leftovers(path, messages.append)
    delete_left_topics(path, messages.append)
    if as_json:
        console.print_json({"mended": messages})
    else:
        console.out.print("\n".join(messages) or "There was nothing to mend.")
