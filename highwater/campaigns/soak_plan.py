"""Draw the random runs of a soak: the soak's seed and a run's number determine the run.

Faults that this machine does not support are left out. A few consecutive runs share a cluster.
Settings of topic, clients and nemesis are random in each run.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from highwater.clusters.releases.jars import TIERED_SINCE
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE, Release, release
from highwater.harness.releases.client_choice import LIBRDKAFKA, ClientChoice, read_client
from highwater.harness.releases.group_protocols import CLASSIC
from highwater.harness.runs import parse_values
from highwater.harness.runs.plan import Acks, Isolation, Plan, Topic, Workload
from highwater.harness.runs.topics.record_keys import TIMESTAMPS
from highwater.harness.runs.topics.topic_settings import with_settings
from highwater.nemesis.faults.registry import (
    CONTROLLERS,
    KEYS,
    NO_GROUPS,
    OF_MACHINE,
    TIERED,
    Fault,
    Needs,
    faults,
    find_fault,
)
from highwater.nemesis.schedules.upgrade_path import UPGRADE
from highwater.nemesis.stories.story import BROKER_CONFIG

SHARED: Final = 5
"""The number of consecutive runs that share a release and a cluster."""

_FAMILIES: Final = {
    "process": 4,
    "network": 4,
    "leadership": 2,
    "coordination": 2,
}
"""Weights of the fault families in the random choice; other families have weight 1."""

_SECONDS: Final = (12.0, 20.0, 30.0, 45.0)
_ACKS: Final[tuple[Acks, ...]] = ("all", "all", "all", "all", "all", "1", "1", "0")
_BOTH: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")
_WIRED: Final = 0.4
_UNCLEAN: Final = 0.2
_TIERED: Final = 0.2
_TIER_OUTAGE: Final = "tier-outage"
_ONE_IN_FOUR: Final = 0.25


def draw(
    seed: int,
    number: int,
    *,
    kafkas: Sequence[str],
    driver: str = "local",
    controllers: int = 1,
    client: str = LIBRDKAFKA,
    reader_client: str = LIBRDKAFKA,
    group_protocol: str = "",
) -> Plan:
    """Return the plan of one run of a soak.

    Controller faults are possible only with several controllers. Only librdkafka's clients have
    upgrades, because Java clients have the cluster's release. Only its producers run
    consume-transform-produce transactions. Releases that the clients do not support are left out.
    """
    libraries = client, reader_client
    kafkas = [
        kafka
        for kafka in kafkas
        if not any(_choice(word, kafka).why_not(release(kafka)) for word in libraries)
    ]
    if not kafkas:
        raise UsageError("a soak needs a release", hint="Use --kafka all.")
    portion = random.Random(f"{seed}/{number // SHARED}")  # noqa: S311 - to be repeatable
    kafka = release(portion.choice(kafkas))
    wired, quick = portion.random() < _WIRED, portion.random() < 0.5  # noqa: PLR2004 - a coin
    tiered = portion.random() < _TIERED and kafka.number >= TIERED_SINCE and driver == "local"
    dice = random.Random(f"{seed}/{number // SHARED}/{number}")  # noqa: S311 - for the same reason
    of_keys = random.Random(f"{seed}/{number // SHARED}/{number}/keys")  # noqa: S311 - as well
    workload = _workload(dice, kafka)
    if group_protocol:
        workload = replace(workload, **parse_values.group(workload.subscribe, group_protocol))
    workload = _possible(workload, of_keys, kafka, libraries)
    workload = replace(workload, keys=0) if tiered else workload
    unclean, later = dice.random() < _UNCLEAN, _later(kafka)
    options = _options(workload) | {
        "--unclean": unclean,
        "--to": bool(later) and set(libraries) == {LIBRDKAFKA},
        CONTROLLERS: controllers > 1,
        TIERED: tiered,
    }
    nemesis = _nemesis(dice, kafka, driver, wired=wired, options=options)
    plan = Plan(
        kafka=kafka.name,
        driver=driver,
        controllers=controllers,
        topic=Topic(
            partitions=dice.choice((1, 3)),
            min_insync_replicas=dice.choice((1, 2)),
            unclean_leader_election=unclean,
        ),
        workload=workload,
        nemesis=nemesis,
        to=(dice.choice(later),) if UPGRADE in nemesis else (),
        duration_s=dice.choice(_SECONDS),
        seed=dice.randrange(1 << 31),
        broker_config=dict(BROKER_CONFIG) if quick else {},
        wire=wired,
        tiered=tiered,
        client=client,
        reader_client=reader_client,
    )
    return with_settings(plan)


def _possible(
    workload: Workload, of_keys: random.Random, kafka: Release, libraries: tuple[str, str]
) -> Workload:
    """Remove from a workload the features that its client libraries lack, and draw its keys.

    Only librdkafka's producers send records with keys.
    """
    ours = libraries[0] == LIBRDKAFKA
    workload = replace(workload, transform=workload.transform and ours)
    codec = workload.compression
    if not all(_choice(word, kafka.name).compresses(codec) for word in libraries):
        workload = replace(workload, compression="none")
    able = ours and kafka.number >= TIMESTAMPS and workload.acks == "all"
    if able and _now_and_then(of_keys):
        workload = replace(workload, keys=of_keys.choice((10, 100)))
    if _choice(libraries[1], kafka.name).why_no_member(workload.group_protocol):
        workload = replace(workload, subscribe=0, group_protocol=CLASSIC)
    return workload


def _choice(client: str, kafka: str) -> ClientChoice:
    return read_client(client, release(kafka).version)


def _workload(dice: random.Random, kafka: Release) -> Workload:
    acks = dice.choice(_ACKS)
    idempotence = kafka.idempotence and acks == "all" and dice.random() < 0.5  # noqa: PLR2004
    transactions = idempotence and dice.random() < 0.5  # noqa: PLR2004 - half of those
    subscribe = 2 if _now_and_then(dice) else 0
    return Workload(
        producers=dice.choice((1, 2, 3)),
        consumers=2,
        acks=acks,
        idempotence=idempotence,
        rate=dice.choice((20.0, 100.0, 200.0)),
        record_bytes=dice.choice((32, 64, 512)),
        compression=dice.choice(("none", dice.choice(sorted(kafka.compressions)))),
        delivery_timeout_s=dice.choice((8.0, 30.0)),
        transactions=transactions,
        transform=transactions and _now_and_then(dice),
        isolation=_BOTH if transactions and _now_and_then(dice) else _BOTH[:1],
        subscribe=subscribe,
        churn_s=5.0 if _now_and_then(dice) else 0.0,
    )


def _now_and_then(dice: random.Random) -> bool:
    return dice.random() < _ONE_IN_FOUR


def _later(kafka: Release) -> list[str]:
    both = [entry for entry in CATALOGUE.values() if entry.coordination == kafka.coordination]
    return [entry.name for entry in both if entry.number > kafka.number]


def _options(workload: Workload) -> dict[Needs, bool]:
    """Return whether a run with this workload on this machine has each option of faults."""
    return {
        "": True,
        "--transactions": workload.transactions,
        "--subscribe": workload.subscribe > 0,
        KEYS: workload.keys > 0,
        NO_GROUPS: not (workload.members or workload.transform),
        **{needs: not why_not() for needs, why_not in OF_MACHINE.items()},
    }


def _nemesis(
    dice: random.Random,
    kafka: Release,
    driver: str,
    *,
    wired: bool,
    options: Mapping[Needs, bool],
) -> tuple[str, ...]:
    """Draw one to three of the possible faults.

    Network faults are possible only with the relay. A run with a remote tier also has
    ``tier-outage``.

    Args:
        options: for each option that a fault may need, whether the run has this option.
    """
    possible = [fault for fault in faults().values() if not fault.why_not(kafka, driver)]
    choices = [
        fault
        for fault in possible
        if options.get(fault.needs, False) and (wired or fault.family != "network")
    ]
    families = sorted({choice.family for choice in choices})
    weights = [_FAMILIES.get(family, 1) for family in families]
    chosen: dict[str, Fault] = {}
    for _ in range(dice.choice((1, 2, 2, 3))):
        [family] = dice.choices(families, weights)
        picked = dice.choice([choice for choice in choices if choice.family == family])
        chosen[picked.name] = picked
    if options[TIERED]:
        chosen[_TIER_OUTAGE] = find_fault(_TIER_OUTAGE)
    if any(choice.needs == "--to" for choice in chosen.values()):
        chosen[UPGRADE] = find_fault(UPGRADE)
    return tuple(chosen)
