"""Protocols of groups, and the settings of brokers that make their timeouts short."""

from typing import Final, Literal

GroupProtocol = Literal["classic", "consumer"]
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""Of a consumer group: the one that clients agree on, and the brokers' own (KIP-848)."""

CONSUMER_SINCE: Final = (4, 0)
"""The first release in which a member of a group may ask for the brokers' own protocol."""

SESSION_S: Final = 2.0
"""How long a member may be silent; 45 s by default."""

_SESSION_MS: Final = str(int(SESSION_S * 1000))
_HEARTBEAT_MS: Final = "500"

CONSUMER_SETTINGS: Final = {
    "group.consumer.min.session.timeout.ms": _SESSION_MS,
    "group.consumer.session.timeout.ms": _SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": _HEARTBEAT_MS,
    "group.consumer.heartbeat.interval.ms": _HEARTBEAT_MS,
}
"""The same as clients ask for in the classic protocol: here brokers decide."""

SHARE_SINCE: Final = (4, 1)
"""The first release with share groups (KIP-932): a preview, which a feature enables."""

SHARE_BY_DEFAULT: Final = (4, 2)
"""The first release that has them in every new cluster."""

SHARE_FEATURES: Final = {"share.version": 1}
"""The feature of brokers with share groups, and the level at which it has them."""

LOCK_S: Final = 5.0
"""How long a member of a share group has for a record it was given; 30 s by default."""

DELIVERIES_MOST: Final = 5
"""How often a record is given out at most (``group.share.delivery.count.limit``, by default)."""

_LOCK_MS: Final = str(int(LOCK_S * 1000))

SHARE_SETTINGS: Final = {
    "group.share.min.session.timeout.ms": _SESSION_MS,
    "group.share.session.timeout.ms": _SESSION_MS,
    "group.share.min.heartbeat.interval.ms": _HEARTBEAT_MS,
    "group.share.heartbeat.interval.ms": _HEARTBEAT_MS,
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": _LOCK_MS,
    "group.share.delivery.count.limit": str(DELIVERIES_MOST),
}
"""The same for share groups, and a shorter lock."""

SHARE_STATE_REPLICAS: Final = "share.coordinator.state.topic.replication.factor"

SHARE_GROUP: Final = {"share.auto.offset.reset": "earliest"}
"""Settings of a share group: a new one begins where partitions begin, not where they end."""
