"""Read the facts about a running cluster, in few requests, without any change.

The requests are ApiVersions, Metadata, DescribeConfigs and, on KRaft, DescribeQuorum. ``unseen``
has a sentence about each fact that the user is not authorized to read.
"""

import contextlib
import fnmatch
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from highwater.clusters.admin.kafka_protocol import BrokerConnection, Request, Response
from highwater.clusters.admin.metadata import quorum_request
from highwater.clusters.core.addresses import Address, Connector
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.external.release_ranges import at_least, release_range
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.wording import count
from highwater.harness.releases.cluster_facts import (
    OWN_TOPICS,
    POSITIONS_RETENTION,
    PROTOCOL,
    UNCLEAN,
    VERIFICATION,
    BrokerFacts,
    ClusterFacts,
    ReleaseRange,
    Settings,
    TopicFacts,
)

_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0
_TOPICS_AT_ONCE: Final = 500

_API_VERSIONS, _DESCRIBE_CONFIGS, _DESCRIBE_QUORUM = 18, 32, 55
_WITH_FEATURES: Final = 3
_METADATA: Final = 2
"""The first Metadata version with the cluster's id (0.10.1). Every later release supports it."""
_TOPIC, _BROKER = 2, 4
_WITH_NODES: Final = 2
"""The first DescribeQuorum version with the controllers' addresses (3.9, KIP-853)."""
_INHERITED: Final = (2, 4, 5)
"""Kafka's codes for the sources of a setting that may differ from broker to broker: set for one
broker only, set in the broker's file, or Kafka's default."""

_TOPIC_SETTINGS: Final = (
    "remote.storage.enable",
    "retention.bytes",
    "min.insync.replicas",
    UNCLEAN,
    "message.format.version",
    "cleanup.policy",
    "retention.ms",
    "delete.retention.ms",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
)
_BROKER_SETTINGS: Final = (PROTOCOL, VERIFICATION, POSITIONS_RETENTION)

_CERTIFICATE_ALERTS: Final = (
    "CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA",
    "HANDSHAKE_FAILURE",
)  # fmt: skip
"""Parts of OpenSSL's names for the alerts of a server that got no certificate which it trusts."""

_REFUSALS: Final = {
    29: "the user is not authorized to describe it",
    31: "the user is not authorized to describe the cluster",
}


class _Versions:
    """A broker's newest supported version of each API, and its levels of each feature."""

    def __init__(self, apis: Response, features: Response | None) -> None:
        self.apis = {api.api_key: api.max_version for api in apis.api_keys}
        supported = features.supported_features if features is not None else None
        finalized = features.finalized_features if features is not None else None
        self.supported = {feature.name: feature.max_version for feature in supported or ()}
        self.finalized = (
            {feature.name: feature.max_version_level for feature in finalized or ()}
            if features is not None
            else None
        )


class ClusterSurvey:
    """Reads the facts about one cluster.

    Args:
        bootstrap: ``host:port``, or several, separated by commas.
        dial: opens a connection, with TLS and SASL if needed.
        named: the release of all brokers, if the user has named it.
    """

    def __init__(self, bootstrap: str, dial: Connector, named: ReleaseRange | None = None) -> None:
        self._bootstrap = bootstrap
        self._dial = dial
        self._named = named
        self._requests: Counter[str] = Counter()
        self._unseen: list[str] = []
        self._inherited: dict[str, frozenset[str]] = {}

    def read(self, *, pattern: str = "*", internal: bool = False) -> ClusterFacts:
        """Return the facts about the cluster.

        Args:
            pattern: pattern for topic names, with ``*`` and ``?``.
            internal: whether to read Kafka's own topics, too.

        Raises:
            HarnessError: no broker responds.
            UsageError: no topic's name matches the pattern.
        """
        connection, versions = self._first()
        with contextlib.closing(connection):
            [metadata] = self._ask(connection, MetadataRequest(version=_METADATA, topics=None))
            topics = self._topics(metadata, pattern, internal=internal)
            own_topics = [_facts(topic) for topic in metadata.topics if topic.name in OWN_TOPICS]
            names = dict.fromkeys(topic.name for topic in (*topics, *own_topics))
            settings = self._topic_settings(connection, versions, [*names])
            kraft = _DESCRIBE_QUORUM in versions.apis
            controllers, quorum = self._controllers(connection, versions) if kraft else (None, [])
        brokers = tuple(
            self._broker(broker) for broker in sorted(metadata.brokers, key=lambda b: b.node_id)
        )
        return ClusterFacts(
            cluster_id=metadata.cluster_id or "",
            coordination="kraft" if kraft else "zookeeper",
            brokers=brokers,
            topics=self._with_settings(topics, settings),
            controllers=controllers,
            features=versions.finalized,
            own_topics=self._with_settings(own_topics, settings),
            unclean_controllers=self._unclean_controllers(quorum),
            unseen=tuple(self._unseen),
            requests=dict(self._requests),
        )

    def _first(self) -> tuple[BrokerConnection, _Versions]:
        failures = []
        for text in self._bootstrap.split(","):
            try:
                address = replace(Address.parse(text.strip()), dial=self._dial)
            except ValueError as error:
                raise UsageError(
                    f"--bootstrap {text!r} is not an address", hint="Write HOST:PORT,HOST:PORT."
                ) from error
            try:
                connection = BrokerConnection(address, timeout_s=_CONNECT_S)
                versions = self._versions(connection)
            except UnreachableError as error:
                failures.append(error.message)
            else:
                connection.set_timeout(_ANSWER_S)
                return connection, versions
        raise HarnessError(
            f"no broker of the cluster responds: {'; '.join(failures)}",
            hint="Check --bootstrap. For TLS and SASL, also check --command-config.",
        )

    def _ask(self, connection: BrokerConnection, *requests: Request) -> list[Response]:
        self._requests.update(type(request).__name__ for request in requests)
        return connection.ask(*requests)

    def _versions(self, connection: BrokerConnection) -> _Versions:
        [apis] = self._ask(connection, ApiVersionsRequest(version=0))
        newest = {api.api_key: api.max_version for api in apis.api_keys}
        if newest.get(_API_VERSIONS, 0) < _WITH_FEATURES:
            return _Versions(apis, None)
        request = ApiVersionsRequest(
            version=_WITH_FEATURES,
            client_software_name="highwater",
            client_software_version="1",
        )
        return _Versions(apis, self._ask(connection, request)[0])

    def _topics(self, metadata: Response, pattern: str, *, internal: bool) -> list[TopicFacts]:
        visible = [
            topic
            for topic in metadata.topics
            if internal or not (topic.is_internal or topic.name in OWN_TOPICS)
        ]
        matching = [topic for topic in visible if fnmatch.fnmatchcase(topic.name, pattern)]
        if visible and not matching:
            raise UsageError(
                f"no topic matches {pattern!r}",
                hint=f"The user is authorized to see {count(len(visible), 'topic')}.",
            )
        return [_facts(topic) for topic in sorted(matching, key=lambda topic: topic.name)]

    def _topic_settings(
        self, connection: BrokerConnection, versions: _Versions, names: Sequence[str]
    ) -> dict[str, Settings]:
        if _DESCRIBE_CONFIGS not in versions.apis:
            self._unseen.append("settings: the brokers are too old to return them (before 0.11)")
            return {}
        settings: dict[str, Settings] = {}
        refused: dict[str, list[str]] = {}
        for start in range(0, len(names), _TOPICS_AT_ONCE):
            request = _configs(
                versions, _TOPIC, names[start : start + _TOPICS_AT_ONCE], _TOPIC_SETTINGS
            )
            [response] = self._ask(connection, request)
            for result in response.results:
                if result.error_code:
                    refused.setdefault(_refusal(result), []).append(result.resource_name)
                else:
                    settings[result.resource_name] = _values(result)
                    self._inherited[result.resource_name] = frozenset(
                        entry.name for entry in result.configs if entry.config_source in _INHERITED
                    )
        for why, topics in refused.items():
            more = f" and {len(topics) - 1:,} more" if len(topics) > 1 else ""
            self._unseen.append(f"settings of topic {topics[0]}{more}: {why}")
        return settings

    def _controllers(
        self, connection: BrokerConnection, versions: _Versions
    ) -> tuple[int | None, list[Any]]:
        """Return the number of the quorum's voters, and its nodes with addresses (3.9 or later)."""
        version = min(_WITH_NODES, versions.apis[_DESCRIBE_QUORUM])
        [response] = self._ask(connection, quorum_request(version=version))
        partitions = [part for topic in response.topics for part in topic.partitions]
        codes = [response.error_code, *(part.error_code for part in partitions)]
        if code := next((code for code in codes if code), 0):
            why = _REFUSALS.get(code, f"error {code}")
            self._unseen.append(f"the controllers: {why}")
            return None, []
        nodes = response.nodes if version >= _WITH_NODES else []
        return len(partitions[0].current_voters) if partitions else None, nodes or []

    def _unclean_controllers(self, nodes: Sequence[Any]) -> bool | None:
        """Return whether a controller allows unclean elections.

        None if not all controllers respond.
        """
        values = set()
        for node in nodes:
            listener = node.listeners[0]
            address = Address(host=listener.host, port=listener.port, dial=self._dial)
            try:
                with contextlib.closing(
                    BrokerConnection(address, timeout_s=_CONNECT_S)
                ) as connection:
                    versions = self._versions(connection)
                    settings = self._broker_settings(
                        connection, versions, node.node_id, "controller", (UNCLEAN,)
                    )
            except UnreachableError as error:
                self._unseen.append(f"controller {node.node_id}: {_no_controller(address, error)}")
                settings = None
            values.add((settings or {}).get(UNCLEAN))
        return True if "true" in values else False if values == {"false"} else None

    def _broker(self, described: Any) -> BrokerFacts:  # noqa: ANN401 - kafka-python's
        address = Address(host=described.host, port=described.port, dial=self._dial)
        release, settings = self._named, None
        try:
            with contextlib.closing(BrokerConnection(address, timeout_s=_CONNECT_S)) as connection:
                versions = self._versions(connection)
                settings = self._broker_settings(connection, versions, described.node_id)
                release = release or at_least(
                    release_range(versions.apis, versions.supported),
                    (settings or {}).get(PROTOCOL, ""),
                )
        except UnreachableError as error:
            self._unseen.append(f"broker {described.node_id}: {error.message}")
        return BrokerFacts(
            id=described.node_id,
            address=str(address),
            rack=described.rack,
            release=release,
            settings=settings,
        )

    def _with_settings(
        self, topics: Sequence[TopicFacts], settings: Mapping[str, Settings]
    ) -> tuple[TopicFacts, ...]:
        return tuple(
            replace(
                topic,
                settings=settings.get(topic.name),
                inherits=self._inherited.get(topic.name, frozenset()),
            )
            for topic in topics
        )

    def _broker_settings(
        self,
        connection: BrokerConnection,
        versions: _Versions,
        node: int,
        role: str = "broker",
        names: Sequence[str] = _BROKER_SETTINGS,
    ) -> Settings | None:
        if _DESCRIBE_CONFIGS not in versions.apis:
            return None
        request = _configs(versions, _BROKER, [str(node)], names)
        [response] = self._ask(connection, request)
        [result] = response.results
        if result.error_code:
            self._unseen.append(f"settings of {role} {node}: {_refusal(result)}")
            return None
        return _values(result)


def _no_controller(address: Address, error: UnreachableError) -> str:
    """Return why a controller does not respond, and how the user can state its setting instead.

    A controller's listener may have other security settings than those of the brokers: Strimzi's
    requires TLS with a client certificate. Java and OpenSSL refuse a client without one by
    different alerts, or close the connection.
    """
    cause = error.__cause__
    instead = "or state the controllers' setting with --controller-unclean"
    reason = (cause.reason or "") if isinstance(cause, ssl.SSLError) else ""
    if any(alert in reason for alert in _CERTIFICATE_ALERTS):
        return (
            f"{address} requires a client certificate that it trusts: add ssl.keystore.location to"
            f" --command-config, {instead}"
        )
    if isinstance(cause, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError) or (
        isinstance(cause, ValueError) and not isinstance(cause, ssl.SSLError)
    ):
        return (
            f"{address} refuses connections with the brokers' security settings. It may require TLS"
            f" with a client certificate: use these settings in --command-config, {instead}"
        )
    return error.message


def _facts(topic: Any) -> TopicFacts:  # noqa: ANN401 - kafka-python's
    return TopicFacts(
        name=topic.name,
        partitions=len(topic.partitions),
        replicas=min((len(part.replica_nodes) for part in topic.partitions), default=0),
        settings=None,
    )


def _configs(
    versions: _Versions, kind: int, names: Sequence[str], settings: Sequence[str]
) -> Request:
    resource: Any = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        version=min(1, versions.apis[_DESCRIBE_CONFIGS]),
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=[*settings])
            for name in names
        ],
        include_synonyms=False,
    )


def _values(result: Any) -> Mapping[str, str]:  # noqa: ANN401 - kafka-python's
    return {entry.name: entry.value for entry in result.configs if entry.value is not None}


def _refusal(result: Any) -> str:  # noqa: ANN401 - kafka-python's
    code: int = result.error_code
    return _REFUSALS.get(code) or result.error_message or f"error {code}"
