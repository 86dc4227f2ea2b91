"""Copy an existing topic for a run: its settings, its number of partitions and their brokers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.base.errors import StoreError, UsageError
from highwater.harness.runs.likeness import Likeness
from highwater.harness.runs.plan import Plan, Topic

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
ALWAYS: Final = frozenset(Topic().settings())
"""Settings that every run's topic has. The harness must know their values in the existing topic."""

_OPTIONS: Final = {
    MIN_ISR: "--min-isr",
    UNCLEAN: "--unclean or --clean",
    "partitions": "--partitions",
}
_DAY_MS: Final = 86_400_000
_RECORD_OVERHEAD: Final = 200
"""An upper bound for the size of a batch with one record, without the record's value."""

_REMOTE: Final = "a copy of a broker's disk has no records of the remote tier"
_THROTTLE: Final = "a throttle applies only to that topic's replicas"
_NEVER: Final[Mapping[str, str]] = {
    "remote.storage.enable": _REMOTE,
    "remote.log.copy.disable": _REMOTE,
    "remote.log.delete.on.disable": _REMOTE,
    "local.retention.ms": _REMOTE,
    "local.retention.bytes": _REMOTE,
    "leader.replication.throttled.replicas": _THROTTLE,
    "follower.replication.throttled.replicas": _THROTTLE,
    "message.format.version": "the harness knows only the formats of brokers",
}
"""Settings that are never copied from the existing topic, and the reasons."""

_ANY_AGE: Final = str((1 << 63) - 1)
_FIT_FOR_KEYS: Final[Mapping[str, str]] = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.difference.max.ms": _ANY_AGE,
    "message.timestamp.before.max.ms": _ANY_AGE,
}
"""Kafka's default settings with which a broker accepts timestamps of 2004."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTopic:
    """A topic that exists, or existed when a plan was made.

    Attributes:
        replicas: brokers of each partition, the preferred leader first.
        settings: the settings that the topic or its brokers set. ``ALWAYS`` names settings that are
            included even with Kafka's default.
        overrides: the names of settings that the topic itself sets.
        not_taken: setting name to the reason why an earlier plan did not copy it.
    """

    name: str
    replicas: tuple[tuple[int, ...], ...]
    settings: Mapping[str, str]
    overrides: frozenset[str]
    not_taken: Mapping[str, str] = field(default_factory=dict)


def of_plan(path: Path) -> ExistingTopic:
    """Return the existing topic that a saved plan has copied, with its settings at that time."""
    try:
        topic = Plan.from_json(path.read_bytes()).topic
    except OSError as error:
        raise UsageError(
            f"the plan {path} cannot be read: {error.strerror}",
            hint="Write the path of a run's plan.json, or the name of a topic (without a slash).",
        ) from error
    except StoreError as error:
        raise UsageError(f"{path} is not a plan: {error.message}") from error
    if topic.like is None:
        raise UsageError(f"the run of {path} did not copy an existing topic")
    return ExistingTopic(
        name=topic.like.topic,
        replicas=topic.like.replicas,
        settings=topic.settings(),
        overrides=frozenset(topic.like.overrides),
        not_taken=topic.like.not_taken,
    )


def likened(plan: Plan, existing: ExistingTopic, given: Mapping[str, str]) -> Plan:
    """Return a plan for an external cluster whose topic copies an existing topic.

    Args:
        plan: the plan with the topic's name and the workload.
        given: settings and ``partitions`` from the command line, which replace the existing
            topic's.

    Raises:
        UsageError: the topic's placement or settings do not suit the workload or the inventory.
    """
    count = int(given.get("partitions", len(existing.replicas)))
    replicas = tuple(existing.replicas[n % len(existing.replicas)] for n in range(count))
    _check_placement(plan, existing)
    reasons = {
        name: why
        for name, value in existing.settings.items()
        if (why := _why_not(plan, name, value))
    }
    carried = {name: value for name, value in existing.settings.items() if name not in reasons}
    _check_records(plan, existing.name, carried)
    there = {**existing.settings, "partitions": str(len(existing.replicas))}
    instead = {
        name: f"{there[name]}: {_OPTIONS[name]} sets {value}"
        for name, value in given.items()
        if value != there[name]
    }
    settings = carried | {name: value for name, value in given.items() if name in carried}
    topic = msgspec.structs.replace(
        _described(plan.topic, replicas, settings),
        like=Likeness(
            topic=existing.name,
            replicas=replicas,
            overrides=tuple(sorted(existing.overrides & carried.keys())),
            not_taken={
                **existing.not_taken,
                **{
                    name: f"{existing.settings[name]}: {why}"
                    for name, why in reasons.items()
                    if name not in _NEVER
                    or name in existing.overrides
                    or existing.settings[name] == "true"
                },
                **instead,
            },
        ),
    )
    return msgspec.structs.replace(plan, topic=topic)


def only_read(plan: Plan, existing: ExistingTopic) -> Plan:
    """Return a plan for an external cluster that only reads an existing topic.

    Raises:
        UsageError: the topic is compacted, or its placement does not suit the inventory.
    """
    settings = existing.settings
    _check_placement(plan, existing)
    if "compact" in settings["cleanup.policy"]:
        raise UsageError(
            f"topic {existing.name} is compacted: a record that compaction removes would look lost",
            hint="Choose a topic with cleanup.policy=delete.",
        )
    topic = _described(Topic(name=existing.name), existing.replicas, settings)
    return msgspec.structs.replace(plan, topic=topic)


def _described(
    topic: Topic, replicas: Sequence[Sequence[int]], settings: Mapping[str, str]
) -> Topic:
    """Return a topic with these partitions (the brokers of each) and settings."""
    standard = Topic().settings()
    return msgspec.structs.replace(
        topic,
        partitions=len(replicas),
        replication_factor=len(replicas[0]),
        min_insync_replicas=int(settings[MIN_ISR]),
        unclean_leader_election=settings[UNCLEAN] == "true",
        config={
            name: value
            for name, value in settings.items()
            if name not in {MIN_ISR, UNCLEAN} and standard.get(name) != value
        },
    )


def _check_placement(plan: Plan, existing: ExistingTopic) -> None:
    ours = set(plan.broker_ids)
    if foreign := sorted({broker for on in existing.replicas for broker in on} - ours):
        raise UsageError(
            f"topic {existing.name} has replicas on broker {foreign[0]}, which is not in the"
            " inventory",
            hint=f"Add [brokers.{foreign[0]}] to the inventory, or choose another topic.",
        )
    sizes = sorted({len(on) for on in existing.replicas})
    if len(sizes) > 1:
        raise UsageError(
            f"the partitions of topic {existing.name} have {sizes[0]} to {sizes[-1]} replicas",
            hint="Choose a topic whose partitions have the same number of replicas, or wait until a"
            " reassignment has ended.",
        )


def _why_not(plan: Plan, name: str, value: str) -> str:
    """Return why a setting is not copied; empty if it is copied."""
    if name in _NEVER:
        return _NEVER[name]
    if name == "retention.ms" and value != "-1":
        kept_ms = _DAY_MS + plan.duration_s * 1000
        if plan.workload.keys:
            return "tombstones of the workload have timestamps of 2004 and would expire"
        return "" if int(value) >= kept_ms else "a record that expires would look lost"
    if name == "retention.bytes" and value != "-1":
        return "a record that is deleted would look lost"
    if plan.workload.keys and value != _FIT_FOR_KEYS.get(name, value):
        return "timestamps of the workload's tombstones encode names and must not change"
    return ""


def _check_records(plan: Plan, name: str, settings: Mapping[str, str]) -> None:
    """Raise an error if the topic would reject the workload's records."""
    compacted = "compact" in settings.get("cleanup.policy", "")
    if compacted and not plan.workload.keys:
        raise UsageError(
            f"topic {name} is compacted, and rejects records without a key",
            hint="Add --keys, such as --keys 100.",
        )
    most = settings.get("max.message.bytes")
    if most is not None and plan.workload.record_bytes + _RECORD_OVERHEAD > int(most):
        raise UsageError(
            f"topic {name} rejects records of {plan.workload.record_bytes} bytes:"
            f" its max.message.bytes is {most}",
            hint="Choose a smaller --record-bytes.",
        )
