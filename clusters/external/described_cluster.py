"""Read the facts about a cluster from its configuration files, without a running broker.

The files are ``server.properties``, Strimzi's ``Kafka``, ``KafkaNodePool`` and ``KafkaTopic``
resources, and compose files whose services have ``KAFKA_…`` in their environment. If no file has a
setting, Kafka's default is used.
"""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from highwater.clusters.core.java_properties import from_properties
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.cluster_facts import (
    POSITIONS,
    POSITIONS_RETENTION,
    PROTOCOL,
    REMOTE_TIER,
    SHARE_GROUPS,
    TRANSACTIONS,
    UNCLEAN,
    VERIFICATION,
    BrokerFacts,
    ClusterFacts,
    Number,
    ReleaseRange,
    Settings,
    TopicFacts,
    dotted,
    metadata_of,
    numbers,
    successor,
)
from highwater.harness.releases.release import Coordination

DEFAULTS: Final = "any topic with the brokers' defaults"
"""The name for all topics that are in no file. Such topics have the brokers' defaults."""

_MIN_ISR: Final = "min.insync.replicas"
_RETENTION: Final = "retention.bytes"
_TIERED: Final = "remote.storage.enable"
_FORMAT: Final = "message.format.version"
_REPLICAS: Final = "default.replication.factor"
_PARTITIONS: Final = "num.partitions"
_TIER: Final = "remote.log.storage.system.enable"
_VOTERS: Final = "controller.quorum.voters"
_RETENTION_MS: Final = "retention.ms"
_TOMBSTONES: Final = "delete.retention.ms"
_TIMESTAMP_LIMITS: Final = (
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
)
_BROKERS_NAME: Final = {
    name: f"log.{name}"
    for name in (
        *(_RETENTION, _RETENTION_MS, _FORMAT, "cleanup.policy", "message.timestamp.type"),
        *_TIMESTAMP_LIMITS,
    )
} | {_TOMBSTONES: "log.cleaner.delete.retention.ms"}
"""Name of a topic setting to the name of the broker setting that is its default, if the names
differ."""


class _InternalTopic(NamedTuple):
    """The brokers' settings for one of Kafka's internal topics.

    Attributes:
        replicas: the setting for its number of replicas, 3 by default.
        min_isr: the setting for its min.insync.replicas, 2 by default. For some topics it is the
            brokers' ``min.insync.replicas``.
        since: the first release that has the topic.
    """

    replicas: str
    min_isr: str
    since: Number


_INTERNAL: Final[Mapping[str, _InternalTopic]] = {
    POSITIONS: _InternalTopic("offsets.topic.replication.factor", _MIN_ISR, (0, 8)),
    TRANSACTIONS: _InternalTopic(
        "transaction.state.log.replication.factor", "transaction.state.log.min.isr", (0, 11)
    ),
    SHARE_GROUPS: _InternalTopic(
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        (4, 0),
    ),
    REMOTE_TIER: _InternalTopic(
        "rlmm.config.remote.log.metadata.topic.replication.factor",
        "rlmm.config.remote.log.metadata.topic.min.isr",
        (3, 6),
    ),
}
_OWN_REPLICAS: Final = "3"
_OWN_MIN_ISR: Final = "2"
_RENEWED_TIER: Final = (4, 3)
"""From this release on, the remote tier's metadata topic has its own setting for
min.insync.replicas (KIP-1235)."""
_CLEAN_FROM: Final = (0, 11)
"""From this release on, unclean elections are off by default (KIP-106)."""
_VERIFIED_FROM: Final = (3, 6)
_POSITIONS_KEPT_LONGER: Final = (2, 0)
_POSITIONS_KEPT: Final = "10080"
_POSITIONS_KEPT_BEFORE_2_0: Final = "1440"
_RETENTION_UNITS_MS: Final = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
_DAY_MS: Final = 24 * 3_600_000
_WEEK_MS: Final = 168 * 3_600_000
_NO_FORMAT_FROM: Final = (4, 0)
_NO_ZOOKEEPER_FROM: Final = (4, 0)

_DOCUMENTS: Final = re.compile(r"(?m)^---(?:[ \t].*)?$")
_VARIABLE: Final = re.compile(r"\$\{?\w+(?::?-(?P<default>[^}]*))?\}?")
_PREFIX: Final = re.compile(r"KAFKA_(?:CFG_)?")
_TAG: Final = re.compile(r"(?:^|[-:v])(\d+\.\d+(?:\.\d+)*)")
_CONFLUENT: Final = {5: 2, 6: 2, 7: 3, 8: 4}
"""Confluent Platform's major version to Kafka's major version. From 7 on, both have the same minor
version. 6.x has Kafka 2.6 and later."""
_MINOR_OF_6: Final = 6


@dataclass(kw_only=True)
class _Files:
    """The files' contents. Settings have Kafka's names."""

    nodes: list["_Node"] = field(default_factory=list)
    topics: list[tuple[str, int | None, int | None, Settings]] = field(default_factory=list)
    voters: int | None = None
    in_pools: int = 0
    """Number of brokers in Strimzi's node pools."""
    zookeeper: bool = False
    features: dict[str, int] = field(default_factory=dict)
    controllers: list[Settings] = field(default_factory=list)
    """The settings of nodes that are controllers, or may be controllers."""
    unseen: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Node:
    """One broker, or a group of equal brokers."""

    where: str
    settings: Settings
    open: frozenset[str] = frozenset()
    """Names of settings whose values are unknown, because environment variables contain them."""
    release: ReleaseRange | None = None


def read_files(
    paths: Sequence[Path],
    named: ReleaseRange | None = None,
    *,
    pattern: str = "*",
    internal: bool = False,
) -> ClusterFacts:
    """Return the facts about the cluster that files describe.

    Args:
        paths: the files, all of one cluster.
        named: the release of the brokers, if the user has named it.
        pattern: pattern for topic names, with ``*`` and ``?``.
        internal: whether to include Kafka's internal topics.

    Raises:
        UsageError: a file cannot be read, no file describes a broker, or no topic's name matches.
    """
    files = _Files()
    for path in paths:
        _read(path, files)
    if not files.nodes:
        raise UsageError(
            f"{', '.join(map(str, paths))}: no file has settings of a broker",
            hint="Give server.properties, Strimzi's Kafka resource or a compose file.",
        )
    alike = max(files.in_pools, 1) if len(files.nodes) == 1 else 1
    nodes = [replace(node, release=named or node.release) for node in files.nodes * alike]
    defaults = _BrokerDefaults(nodes)
    own_topics = [_internal(name, defaults) for name in _INTERNAL if defaults.may_have(name)]
    topics = [_topic(row, defaults) for row in files.topics or [(DEFAULTS, None, None, {})]]
    topics = [
        topic
        for topic in (*topics, *(own_topics if internal else ()))
        if fnmatch.fnmatchcase(topic.name, pattern)
    ]
    if not topics:
        names = ", ".join(row[0] for row in files.topics) or "no topics, only defaults"
        raise UsageError(f"no topic matches {pattern!r}", hint=f"The files have {names}.")
    return ClusterFacts(
        cluster_id=f"of {', '.join(path.name for path in paths)}",
        coordination=_coordination(files, nodes),
        brokers=tuple(_broker(at, node) for at, node in enumerate(nodes, 1)),
        topics=tuple(topics),
        controllers=files.voters,
        features=files.features or None,
        own_topics=tuple(own_topics),
        unseen=tuple(files.unseen),
        requests={},
        running=False,
        defaults=defaults.used,
        unclean_controllers=(
            any(settings.get(UNCLEAN) == "true" for settings in files.controllers)
            if files.controllers
            else None
        ),
    )


class _BrokerDefaults:
    """The brokers' settings. If a setting is missing, Kafka's default is used.

    Attributes:
        used: the defaults that were used, because no file has the setting.
    """

    def __init__(self, nodes: Sequence[_Node]) -> None:
        self._nodes = nodes
        self.release = next((node.release for node in nodes if node.release), None)
        self.used: dict[str, str] = {}

    def before(self, line: Number) -> bool:
        """Return whether the brokers are certainly older than a release."""
        return self.release is not None and self.release.first < line

    def may_have(self, topic: str) -> bool:
        """Return whether the brokers may have one of Kafka's internal topics."""
        tiered = topic != REMOTE_TIER or self.value(_TIER, "false") != "false"
        return tiered and not self.before(_INTERNAL[topic].since)

    def value(self, name: str, default: str) -> str | None:
        """Return the weakest value of a setting on any broker; None if the value is unknown."""
        if any(name in node.open for node in self._nodes):
            return None
        values = {node.settings.get(name, default) for node in self._nodes}
        if not any(name in node.settings for node in self._nodes):
            self.used[name] = default
        return max(values) if values <= {"true", "false"} else min(values)

    def number(self, name: str, default: str) -> int:
        """Return the brokers' smallest value of a setting that is a number.

        Raises:
            UsageError: the value is not a number.
        """
        return _number(name, self.value(name, default) or default)

    def settings(self, given: Settings) -> dict[str, str]:
        """Return a topic's effective settings: its own settings and the brokers' defaults."""
        kafka = {
            _MIN_ISR: "1",
            UNCLEAN: "true" if self.before(_CLEAN_FROM) else "false",
            _RETENTION: "-1",
            _RETENTION_MS: self._retention_ms(),
            _TOMBSTONES: str(_DAY_MS),
            "cleanup.policy": "delete",
            "message.timestamp.type": "CreateTime",
        }
        kafka |= {name: "" for name in _TIMESTAMP_LIMITS if self._has(_BROKERS_NAME[name])}
        if self.before(_NO_FORMAT_FROM) and self.release is not None:
            kafka[_FORMAT] = self.value(PROTOCOL, dotted(self.release.first)) or ""
        of_brokers = {
            name: self.value(_BROKERS_NAME.get(name, name), default)
            for name, default in kafka.items()
            if name not in given
        }
        in_force = {name: value for name, value in of_brokers.items() if value}
        return {_TIERED: "false", **in_force, **given}

    def _has(self, name: str) -> bool:
        return any(name in node.settings for node in self._nodes)

    def _retention_ms(self) -> str:
        """Return the default of ``log.retention.ms``.

        Minutes have priority over hours (KafkaConfig).
        """
        for name, unit_ms in _RETENTION_UNITS_MS.items():
            if self._has(name):
                return str(max(self.number(name, "-1") * unit_ms, -1))
        return str(_WEEK_MS)


def _topic(
    row: tuple[str, int | None, int | None, Settings], defaults: _BrokerDefaults
) -> TopicFacts:
    name, partitions, replicas, given = row
    return TopicFacts(
        name=name,
        partitions=partitions or defaults.number(_PARTITIONS, "1"),
        replicas=replicas or defaults.number(_REPLICAS, "1"),
        settings=defaults.settings(given),
        inherits=frozenset({UNCLEAN} - given.keys()),
    )


def _internal(name: str, defaults: _BrokerDefaults) -> TopicFacts:
    replicas, min_isr, _ = _INTERNAL[name]
    renewed = name != REMOTE_TIER or not defaults.before(_RENEWED_TIER)
    given: dict[str, str] = {}
    if min_isr != _MIN_ISR:
        value = defaults.value(min_isr, _OWN_MIN_ISR) if renewed else defaults.value(_MIN_ISR, "1")
        given = {_MIN_ISR: value} if value else {}
    return TopicFacts(
        name=name,
        partitions=50,
        replicas=defaults.number(replicas, _OWN_REPLICAS),
        settings=defaults.settings(given),
        inherits=frozenset({UNCLEAN}),
    )


def _broker(at: int, node: _Node) -> BrokerFacts:
    settings = {name: node.settings[name] for name in (PROTOCOL,) if name in node.settings}
    if node.release is not None and node.release.first >= _VERIFIED_FROM:
        settings[VERIFICATION] = node.settings.get(VERIFICATION, "true")
    old = node.release is not None and node.release.first < _POSITIONS_KEPT_LONGER
    default = _POSITIONS_KEPT_BEFORE_2_0 if old else _POSITIONS_KEPT
    if POSITIONS_RETENTION not in node.open:
        settings[POSITIONS_RETENTION] = node.settings.get(POSITIONS_RETENTION, default)
    return BrokerFacts(
        id=_number("node.id", node.settings.get("node.id") or node.settings.get("broker.id") or at),
        address=node.where,
        rack=node.settings.get("broker.rack"),
        release=node.release,
        settings=settings,
    )


def _coordination(files: _Files, nodes: Sequence[_Node]) -> Coordination:
    kraft = any("process.roles" in node.settings for node in nodes) or files.voters is not None
    if kraft or any(node.release and node.release.first >= _NO_ZOOKEEPER_FROM for node in nodes):
        return "kraft"
    if files.zookeeper or any("zookeeper.connect" in node.settings for node in nodes):
        return "zookeeper"
    files.unseen.append("no file says whether the cluster uses KRaft; KRaft is assumed")
    return "kraft"


def _read(path: Path, files: _Files) -> None:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix not in {".yaml", ".yml"}:
            _add(files, path.name, from_properties(text))
            return
        documents = [msgspec.yaml.decode(part) for part in _DOCUMENTS.split(text) if part.strip()]
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("services"), dict):
            _compose(path.name, document["services"], files)
        elif isinstance(document, dict):
            _resource(path.name, document, files)


def _add(
    files: _Files,
    where: str,
    given: Mapping[str, Any],
    release: ReleaseRange | None = None,
    count: int = 1,
) -> None:
    """Add brokers with these settings, unless the node is only a controller."""
    settings = {name: _plain(value) for name, value in given.items()}
    opened = frozenset(name for name, value in settings.items() if _VARIABLE.search(value))
    files.unseen += [f"{where}: {name} is {settings[name]}" for name in sorted(opened)]
    settings = {name: value for name, value in settings.items() if name not in opened}
    if voters := settings.get(_VOTERS):
        files.voters = len(voters.split(","))
    roles = settings.get("process.roles", "broker")
    if "controller" in roles:
        files.controllers.append(settings)
    if roles == "controller":
        return
    node = _Node(where=where, settings=settings, open=opened, release=release)
    files.nodes += [node] * count


def _number(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        raise UsageError(f"{name} is {value!r}, which is not a number") from error


def _plain(value: object) -> str:
    """Return a value as Kafka reads it. A variable with a default becomes its default."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _VARIABLE.sub(lambda match: match["default"] or match[0], text)


def _resource(where: str, document: Mapping[str, Any], files: _Files) -> None:
    """Read one of Strimzi's resources."""
    kind, spec = document.get("kind"), document.get("spec") or {}
    name = (document.get("metadata") or {}).get("name", "?")
    if kind == "Kafka":
        kafka = spec.get("kafka") or {}
        files.zookeeper |= "zookeeper" in spec
        version = _release(str(kafka.get("version", "")))
        files.features |= metadata_of(str(kafka.get("metadataVersion", "")))
        if rack := kafka.get("rack"):
            files.unseen.append(f"{name}: racks come from node {rack.get('topologyKey', 'labels')}")
        replicas = _number("replicas", kafka.get("replicas") or 1)
        config = kafka.get("config") or {}
        _add(files, name, config, version, replicas)
        files.controllers.append({UNCLEAN: _plain(config.get(UNCLEAN, False))})
    elif kind == "KafkaNodePool":
        if "controller" in (spec.get("roles") or ()):
            files.voters = (files.voters or 0) + _number("replicas", spec.get("replicas") or 0)
        if "broker" in (spec.get("roles") or ()):
            files.in_pools += _number("replicas", spec.get("replicas") or 0)
    elif kind == "KafkaTopic":
        config = {key: _plain(value) for key, value in (spec.get("config") or {}).items()}
        sizes = [
            spec.get(size) and _number(size, spec[size]) for size in ("partitions", "replicas")
        ]
        files.topics.append((spec.get("topicName") or name, sizes[0], sizes[1], config))
    else:
        files.unseen.append(f"{where}: {kind or 'a document'} {name} is not supported")


def _compose(where: str, services: Mapping[str, Any], files: _Files) -> None:
    """Read the services of a compose file that are brokers or controllers."""
    for name, service in services.items():
        settings = dict(_settings(service.get("environment") or {}))
        if settings:
            release = _release(str(service.get("image", "")))
            _add(files, f"{name} in {where}", settings, release)


def _settings(environment: Mapping[str, Any] | Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield Kafka's settings from a container's environment, as its image reads it."""
    pairs: list[Any] = (
        [*environment.items()]
        if isinstance(environment, Mapping)
        else [entry.split("=", 1) for entry in environment if "=" in entry]
    )
    for name, value in pairs:
        if match := _PREFIX.match(name):
            rest = name[match.end() :].lower().replace("___", "-").replace("__", "\0")
            yield rest.replace("_", ".").replace("\0", "_"), "" if value is None else value


def _release(text: str) -> ReleaseRange | None:
    """Return the release in a version or an image's tag. None if the text has no release."""
    tags = _TAG.findall(text)
    if not tags:
        return None
    number = numbers(tags[-1])
    if "confluent" in text and number[0] in _CONFLUENT:
        minor = number[1] + (_MINOR_OF_6 if number[0] == _MINOR_OF_6 else 0)
        number = (_CONFLUENT[number[0]], minor)
    exact = len(number) > 2  # noqa: PLR2004 - a line has two parts
    return ReleaseRange(first=number, below=None if exact else successor(number), exact=exact)
