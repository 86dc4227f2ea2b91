"""Runs on the user's cluster, and the command that heals faults that a killed run left on it."""

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec
from rich.text import Text
from typer import Option

from highwater import console
from highwater.cli.options.common import takes
from highwater.clusters.external.inventory import Inventory, resolved, to_toml
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.client_choice import KAFKA_PYTHON, LIBRDKAFKA, read_client
from highwater.harness.releases.cluster_facts import POSITIONS, SHARE_GROUPS, TRANSACTIONS
from highwater.harness.runs.plan import EXTERNAL, External, Plan, Topic
from highwater.harness.runs.topics.existing_topic import (
    MIN_ISR,
    UNCLEAN,
    ExistingTopic,
    likened,
    of_plan,
    only_read,
)

REPLICAS = 3
"""The number of replicas of each partition, if the cluster has as many brokers."""

KubernetesOption = Annotated[
    str | None,
    Option(
        "--kubernetes",
        metavar="CLUSTER",
        help="Your cluster in Kubernetes: CONTEXT/NAMESPACE/NAME of a Kafka resource of Strimzi, "
        "or of a StatefulSet.",
    ),
]
ConfirmOption = Annotated[
    str | None,
    Option(
        "--confirm",
        metavar="CODE",
        help="The code of your cluster, from highwater doctor --inventory or --kubernetes.",
    ),
]
LikeOption = Annotated[
    str | None,
    Option(
        "--like",
        metavar="TOPIC",
        help="On your cluster: copy settings of this topic, or of a plan: ./plan.json.",
    ),
]


def cluster_options(
    *, required: bool = False, anew: bool = True, by_operator: bool = False
) -> Callable[..., Path | None]:
    """Return the options that name the user's cluster; they yield the path of its inventory.

    Args:
        required: whether the command needs a cluster.
        anew: whether the inventory of a cluster in Kubernetes is written again if it exists.
        by_operator: whether Strimzi's operator restarts brokers.
    """

    def inventory_file(
        *,
        inventory: Annotated[
            Path | None,
            Option(
                "--inventory",
                metavar="FILE",
                help="Your cluster and its commands for faults (TOML).",
            ),
        ] = None,
        kubernetes: KubernetesOption = None,
    ) -> Path | None:
        if inventory and kubernetes:
            raise UsageError(
                "--inventory and --kubernetes exclude each other", hint="Name one cluster."
            )
        if required and not (inventory or kubernetes):
            raise UsageError(
                "no cluster was named",
                hint="Add --inventory FILE or --kubernetes CONTEXT/NAMESPACE/CLUSTER.",
            )
        if kubernetes is None:
            return inventory
        return _in_kubernetes(kubernetes, anew=anew, by_operator=by_operator)

    return inventory_file


def _in_kubernetes(target: str, *, anew: bool, by_operator: bool) -> Path:
    """Write the inventory of a cluster in Kubernetes. First heal what a killed run left."""
    from highwater.clusters.external.cluster import heal_leftovers
    from highwater.clusters.kubernetes.discovery import describe, inventory_path

    path = inventory_path(target)
    if path.exists():
        if not anew:
            return path
        heal_leftovers(path)
    return describe(target, by_operator=by_operator)


def topic_options(given: Mapping[str, object]) -> dict[str, str]:
    """Return the settings of the run's topic, by their names in Kafka."""
    names = {"partitions": "partitions", "min_isr": MIN_ISR, "unclean": UNCLEAN}
    return {names[name]: str(value).lower() for name, value in given.items() if name in names}


def release_of(kafka: str | None, cluster: str, inventory: Path | None) -> str:
    """Return the Kafka release of a run, from ``--kafka`` or from the inventory."""
    if (cluster == EXTERNAL) > (inventory is not None):
        raise UsageError(
            "an external cluster needs an inventory",
            hint="Add --inventory FILE or --kubernetes CONTEXT/NAMESPACE/CLUSTER.",
        )
    if inventory is None:
        if kafka is None:
            raise UsageError(
                "no Kafka release was named", hint=f"Add --kafka {MODERN}, for example."
            )
        return kafka
    named = Inventory.read(inventory).kafka
    if kafka not in (None, named):
        raise UsageError(
            f"{inventory} names Kafka {named}, but --kafka names {kafka}", hint="Leave --kafka out."
        )
    return named


def require_inventory(like: str | None, read_only: str | None, inventory: Path | None) -> None:
    """Raise an error for ``--like`` or ``--read-only`` without the inventory of their cluster."""
    for option, topic in (("--like", like), ("--read-only", read_only)):
        if topic and inventory is None:
            raise UsageError(
                f"{option} {topic} needs your cluster, which has this topic",
                hint="Add --inventory FILE (docs/external.md).",
            )


def onto(
    plan: Plan,
    path: Path,
    confirm: str | None,
    *,
    like: str | None = None,
    given: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Return the plan changed for a run on the user's cluster.

    The function first heals the faults that a killed run left, because they may keep the cluster
    from responding. Then it checks that the inventory and ``confirm`` name this cluster.

    Args:
        path: path of the inventory.
        like: the run's topic copies the settings of this topic, or those in this plan file (a name
            with a slash is a path).
        given: the topic settings from the command line; see ``topic_options``.
    """
    from highwater.clusters.external.cluster import heal_leftovers
    from highwater.clusters.external.identity import identify
    from highwater.clusters.external.topic_reader import read_topic

    path = resolved(path)
    inventory = Inventory.read(path)
    heal_leftovers(path)
    own_topics = _own_topics(plan)
    if like is not None and plan.read_only:
        raise UsageError(
            "--like copies a topic, and --read-only creates none", hint="Leave one of them out."
        )
    identity = identify(inventory, confirm, own_topics)
    count = len(inventory.brokers)
    name = f"{inventory.prefix}{secrets.token_hex(4)}"
    replicas = min(REPLICAS, count)
    topic = msgspec.structs.replace(plan.topic, name=name, replication_factor=replicas)
    program = plan.program
    if program is not None and program.out:
        program = msgspec.structs.replace(program, out=f"{name}-out")
    unmade = not own_topics and POSITIONS not in identity.topics
    if unmade and plan.read_only:
        raise UsageError(
            f"the inventory's user sees no topic {POSITIONS}, and the brokers would create it for a"
            " reader of librdkafka",
            hint="Let a consumer of yours join a group first; then the topic exists.",
        )
    unmade = unmade and _read_without_groups(plan, inventory)
    plan = msgspec.structs.replace(
        plan,
        reader_client=KAFKA_PYTHON if unmade else plan.reader_client,
        driver=EXTERNAL,
        kafka=inventory.kafka,
        brokers=count,
        broker_config={},  # the settings that make the cleaner fast in Highwater's own clusters
        topic=topic,
        program=program,
        external=External(
            inventory=str(path),
            cluster_id=identity.cluster_id,
            code=identity.code,
            brokers=tuple(sorted(inventory.brokers)),
            commands=tuple(sorted(inventory.commands.named())),
        ),
    )
    read = partial(read_topic, release(inventory.kafka), identity)
    if plan.read_only:
        return only_read(plan, read(plan.read_only))
    return plan if like is None else _like(plan, like, given, read)


def _like(
    plan: Plan, like: str, given: Mapping[str, str], read: Callable[[str], ExistingTopic]
) -> Plan:
    if plan.story is not None:
        raise UsageError(
            f"the story {plan.story} creates its own topic", hint="Leave --like or --story out."
        )
    return likened(plan, of_plan(Path(like)) if "/" in like else read(like), given)


def bare_inventory(bootstrap: str, kafka: str) -> tuple[Path, str]:
    """Write an inventory without commands, so that Highwater cannot inject faults into brokers.

    Returns:
        The inventory's path, and the code that confirms the cluster. Without faults the user need
        not type this code.
    """
    from highwater.clusters.external.identity import recognise
    from highwater.clusters.external.journal import journal_folder

    identity = recognise(Inventory(bootstrap=bootstrap, kafka=kafka, brokers={}))
    path = journal_folder(identity.cluster_id) / "bootstrap.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    brokers: dict[int, dict[str, str | int]] = {id_: {} for id_ in sorted(identity.addresses)}
    path.write_text(to_toml(Inventory(bootstrap=bootstrap, kafka=kafka, brokers=brokers)))
    return path, identity.code


def show_likeness(topic: Topic) -> None:
    """Print the settings that a run's topic copies from another topic, on standard error."""
    for line in topic.like.says(topic.settings()) if topic.like else ():
        console.err.print(Text(line))


def _own_topics(plan: Plan) -> list[str]:
    """Return Kafka's own topics to which the plan's clients, or their coordinators, write."""
    from highwater.nemesis.stories.registry import find_story

    workload = plan.workload
    by_story = plan.story is not None and find_story(plan.story).needs.added > 0
    by_program = plan.program is not None and not plan.without_input
    groups = bool(workload.members or workload.transform or by_story or by_program)
    used = {POSITIONS: groups, TRANSACTIONS: workload.transactions, SHARE_GROUPS: workload.share}
    return [topic for topic, uses in used.items() if uses]


def _read_without_groups(plan: Plan, inventory: Inventory) -> bool:
    """Return whether kafka-python can replace librdkafka as the plan's reader.

    librdkafka looks up a group's coordinator, and this makes brokers create
    ``__consumer_offsets``.
    """
    choice = read_client(KAFKA_PYTHON, inventory.kafka)
    return (
        plan.reader_client == LIBRDKAFKA
        and choice.compresses(plan.workload.compression)
        and not choice.why_not(release(inventory.kafka))
        and inventory.client.get("enable.ssl.certificate.verification") != "false"
    )


@takes(inventory=cluster_options(required=True, anew=False))
def heal(
    *,
    inventory: Path,
    as_json: Annotated[bool, Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Heal the faults that a killed run left on your cluster, and delete the run's topics.

    Topics with the inventory's prefix are deleted if runs on this machine created them. Other
    topics with this prefix are listed.
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
        console.out.print("\n".join(messages) or "The cluster had no fault to heal.")
