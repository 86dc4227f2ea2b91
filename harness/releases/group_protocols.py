"""Protocols of groups, and the broker settings that shorten the groups' timeouts."""

from typing import Final, Literal

GroupProtocol = Literal["classic", "consumer"]
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The protocols of consumer groups: ``classic``, and ``consumer`` (KIP-848)."""

CONSUMER_SINCE: Final = (4, 0)
"""The first release in which a group member may use the protocol ``consumer`` (KIP-848)."""

SESSION_S: Final = 2.0
"""The session timeout in seconds: a member must send a heartbeat within this time. Kafka's default
is 45 s."""

LEAST_SESSION_S: Final = 6.0
LEAST_LOCK_S: Final = 15.0
"""Kafka's defaults of ``group.min.session.timeout.ms`` and
``group.share.min.record.lock.duration.ms``, which brokers of an external cluster may enforce."""

_SESSION_MS: Final = str(int(SESSION_S * 1000))
_HEARTBEAT_MS: Final = "500"

CONSUMER_SETTINGS: Final = {
    "group.consumer.min.session.timeout.ms": _SESSION_MS,
    "group.consumer.session.timeout.ms": _SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": _HEARTBEAT_MS,
    "group.consumer.heartbeat.interval.ms": _HEARTBEAT_MS,
}
"""Timeouts of KIP-848 groups, which brokers set. In classic groups, clients request their
timeouts."""

SHARE_SINCE: Final = (4, 1)
"""The first release with share groups (KIP-932). In this release, share groups are a preview that a
feature enables."""

SHARE_BY_DEFAULT: Final = (4, 2)
"""The first release in which every new cluster has share groups."""

SHARE_FEATURES: Final = {"share.version": 1}
"""The feature that enables share groups, and its level."""

LOCK_S: Final = 5.0
"""Time in seconds for which a record is locked for a member of a share group. Kafka's default is 30
s."""

DELIVERIES_MOST: Final = 5
"""The greatest number of deliveries of one record (Kafka's default of
``group.share.delivery.count.limit``)."""

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
"""The timeouts of share groups, and a shorter lock of records."""

SHARE_STATE_REPLICAS: Final = "share.coordinator.state.topic.replication.factor"

SHARE_GROUP: Final = {"share.auto.offset.reset": "earliest"}
"""Settings of a share group: a new group reads each partition from its beginning."""

SHARE_LOCK: Final = "share.record.lock.duration.ms"
