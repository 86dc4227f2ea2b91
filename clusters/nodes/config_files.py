"""Configuration files of brokers, controllers and ZooKeeper, with the reason for each setting."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from highwater.clusters.core.addresses import (
    BROKER_PORT,
    CONTROLLER_LISTENER,
    Address,
    EnsemblePorts,
)
from highwater.clusters.core.java_properties import to_properties
from highwater.clusters.releases.software_level import METADATA
from highwater.harness.releases.catalogue import Release

_CONTROLLER_ADVERTISES = (3, 9)
_HAS_SHARE_GROUPS = (4, 1)
_VOTERS = "controller.quorum.voters"
_BOOTSTRAP = "controller.quorum.bootstrap.servers"
Settings = dict[str, str]

_PROTOCOLS = ",".join(
    f"{name}:PLAINTEXT" for name in (CONTROLLER_LISTENER, "PLAINTEXT", "EXTERNAL", "INTERNAL")
)


def broker(
    release: Release,
    broker_id: int,
    *,
    public: Address,
    inside: Address,
    advertised: Address,
    log_directories: Sequence[Path],
    coordination: Mapping[int, Address],
    overrides: Mapping[str, str],
) -> Settings:
    """Return a broker's settings. The release's settings and ``overrides`` have priority.

    Args:
        public: address for clients.
        inside: address at which the broker listens for other brokers. In a container or with a
            relay, it differs from ``public``.
        advertised: address to which other brokers connect: ``inside``, or the relay's address for
            this broker.
        coordination: controller id to the address of that ZooKeeper or controller.
    """
    settings = {
        "log.dirs": ",".join(str(path.absolute()) for path in log_directories),
        **_listeners(public, inside, advertised),
        **_SMALL,
        **_PLAIN,
        **_FAST_RECOVERY,
    }
    if release.number >= _HAS_SHARE_GROUPS:
        settings |= _SHARE_GROUPS
    if release.coordination == "zookeeper":
        hosts = ",".join(map(str, coordination.values()))
        settings |= {"broker.id": str(broker_id), "zookeeper.connect": hosts}
        settings |= _ZOOKEEPER_CLIENT
    else:
        settings |= {"process.roles": "broker", "node.id": str(broker_id)}
        settings |= _quorum(coordination) | _KRAFT_SESSION
    return settings | dict(release.config) | _node_settings(overrides)


def controller(
    release: Release,
    controller_id: int,
    address: Address,
    *,
    voters: Mapping[int, Address],
    log_directory: Path,
    overrides: Mapping[str, str],
) -> Settings:
    """Return a KRaft controller's settings.

    A controller also gets the brokers' ``overrides``, because it decides elections. Since 3.9 a
    controller advertises its address (KIP-853). Older releases refuse that setting.

    Args:
        address: address at which the controller listens.
        voters: controller id to the address at which other nodes reach that voter.
    """
    advertised = voters[controller_id]
    settings = {
        "process.roles": "controller",
        "node.id": str(controller_id),
        "log.dirs": str(log_directory.absolute()),
        "listeners": f"{CONTROLLER_LISTENER}://{address}",
        **_quorum(voters),
        **_KRAFT_SESSION,
        **_SMALL,
        **_PLAIN,
    }
    if release.number >= _CONTROLLER_ADVERTISES and advertised != address:
        settings["advertised.listeners"] = f"{CONTROLLER_LISTENER}://{advertised}"
    return settings | _node_settings(overrides)


def zookeeper(
    address: Address, *, directory: Path, servers: Mapping[int, str] = MappingProxyType({})
) -> Settings:
    """Return the settings for a ZooKeeper.

    Args:
        servers: id to the result of ``server_entry``; empty for a single ZooKeeper.
    """
    ensemble = _ENSEMBLE | {f"server.{id_}": entry for id_, entry in servers.items()}
    return {
        "dataDir": str(directory.absolute()),
        "clientPort": str(address.port),
        "clientPortAddress": address.host,
        "tickTime": "200",  # sessions end on a tick; short ticks keep their ends apart
        "minSessionTimeout": "1000",
        "maxSessionTimeout": "60000",
        "maxClientCnxns": "0",
        "forceSync": "no",  # no fault here loses the page cache, and fsync is slow on CI machines
        "admin.enableServer": "false",
        **(ensemble if servers else {}),
    }


def server_entry(host: str, ports: EnsemblePorts) -> str:
    """Return the value ``host:quorum port:election port`` of the setting ``server.N``."""
    return f"{host}:{ports.quorum}:{ports.election}"


def _node_settings(overrides: Mapping[str, str]) -> Settings:
    """Return settings without ``metadata.version``, which is a feature and no setting."""
    return {name: value for name, value in overrides.items() if name != METADATA}


def _listeners(public: Address, inside: Address, advertised: Address) -> Settings:
    """Return settings for one listener, or for two: EXTERNAL for clients, INTERNAL for brokers."""
    if public == inside:
        return {
            "listeners": f"PLAINTEXT://{public}",
            "advertised.listeners": f"PLAINTEXT://{advertised}",
        }
    here = public.host == inside.host
    external = public if here else Address(host=inside.host, port=BROKER_PORT)
    return {
        "listeners": f"EXTERNAL://{external},INTERNAL://{inside}",
        "advertised.listeners": f"EXTERNAL://{public},INTERNAL://{advertised}",
        "listener.security.protocol.map": _PROTOCOLS,
        "inter.broker.listener.name": "INTERNAL",
    }


def remote_tier(directory: Path, *, brokers: int, two_listeners: bool) -> Settings:
    """Return a broker's settings for a remote tier below a directory (KIP-405).

    The remote tier is LocalTieredStorage from Kafka's own tests; its metadata is in a topic.

    Args:
        brokers: number of brokers.
        two_listeners: whether brokers reach each other at a listener of their own.
    """
    topic = "rlmm.config.remote.log.metadata.topic"
    return {
        **TIERED,
        "remote.log.storage.manager.class.name": _LOCAL_TIERED_STORAGE,
        "rsm.config.dir": str(directory.absolute()),
        "remote.log.metadata.manager.listener.name": "INTERNAL" if two_listeners else "PLAINTEXT",
        f"{topic}.num.partitions": "1",
        f"{topic}.replication.factor": str(min(brokers, 3)),
        "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "200",
        "remote.log.manager.task.interval.ms": str(int(TIER_TASK_S * 1000)),
    }


def dynamic_quorum(settings: Mapping[str, str]) -> Settings:
    """Return KRaft settings for a quorum whose voters are in the metadata log (KIP-853)."""
    servers = ",".join(voter.partition("@")[2] for voter in settings[_VOTERS].split(","))
    return {_BOOTSTRAP: servers} | {
        name: value for name, value in settings.items() if name != _VOTERS
    }


def _quorum(voters: Mapping[int, Address]) -> Settings:
    return {
        _VOTERS: ",".join(f"{id_}@{voters[id_]}" for id_ in voters),
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": _PROTOCOLS,
    }


def kafka_uuid() -> str:
    """Return a random id in Kafka's text form: url-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would read "-…" as an option
            return text


def format_node(
    folder: Path, node_id: int, cluster_id: str, *, directory_id: str | None = None
) -> None:
    """Format a KRaft node's existing, empty folder, as ``StorageTool format`` does.

    A controller also needs ``bootstrap.checkpoint`` (``clusters.nodes.kraft_features``).

    Args:
        directory_id: id for the folder (KIP-853, KIP-858). None means a new id.
    """
    properties = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": directory_id or kafka_uuid(),
    }
    (folder / "meta.properties").write_text(to_properties(properties), encoding="ascii")


TIER_TASK_S = 10.0
"""The interval, in seconds, at which brokers copy segments and remove expired segments. Kafka's
default is 30 s."""

TIERED: Mapping[str, str] = MappingProxyType({"remote.log.storage.system.enable": "true"})
"""Settings for every node in a cluster with a remote tier."""

_LOCAL_TIERED_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"

# Several brokers share two cores and little memory.
_SMALL: Settings = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2097152",  # default 128 MiB: half of our heap
    "log.index.size.max.bytes": "1048576",  # default 10 MiB, preallocated for each segment
}

# Kafka's internal topics get one replica and one partition. Brokers create no topics by themselves.
_PLAIN: Settings = {
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # a record that retention deletes would look lost
    "unclean.leader.election.enable": "false",  # true by default up to 0.10.2
}

# The same settings for the share groups' topic (KIP-932), which has 50 partitions by default.
_SHARE_GROUPS: Settings = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

# Shorter timeouts: recovery is slow if nodes wait for nodes that a fault has paused or killed.
_FAST_RECOVERY: Settings = {
    "group.min.session.timeout.ms": "1000",  # default 6 s: no member reads a dead one's partitions
    # How late a coordinator notices a transaction's timeout; default 60 s up to 2.x, now 10 s.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.max.retries": "2",
    "controlled.shutdown.retry.backoff.ms": "500",  # default 5 s, even if no controller runs
    "controller.socket.timeout.ms": "3000",  # default 30 s: wait for a paused broker
    "replica.socket.timeout.ms": "6000",  # default 30 s: a fetcher's wait for a paused leader
    "replica.fetch.backoff.ms": "200",  # default 1 s: wait before a fetcher retries
}

_ZOOKEEPER_CLIENT: Settings = {
    "zookeeper.session.timeout.ms": "2000",  # default 6 s: a dead broker stays leader until then
    "zookeeper.connection.timeout.ms": "30000",  # brokers start at the same time as ZooKeeper
}

# Ticks of 0.2 s. A follower or leader without a response for a session timeout is removed.
_ENSEMBLE: Settings = {
    "syncLimit": "10",
    "initLimit": "50",  # time to read the leader's data while brokers start on this machine
}

_KRAFT_SESSION: Settings = {
    "broker.session.timeout.ms": "2000",  # default 9 s: as long as the ZooKeeper session
    "broker.heartbeat.interval.ms": "400",
}
