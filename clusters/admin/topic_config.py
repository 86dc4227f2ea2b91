"""Change the settings of a topic that is in use, or of a group, as ``kafka-configs`` does.

On ZooKeeper (0.9 to 3.9) the change is written to the topic's node, with a notification
(``AdminUtils.changeEntityConfig``, ``DynamicConfigManager``). On KRaft the change is a request
(KIP-339). Groups have settings only on KRaft (KIP-848, KIP-932).
"""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import ZooKeeperView
from highwater.clusters.core.addresses import Address
from highwater.harness.base.errors import HarnessError
from highwater.harness.releases.release import Release

Changes = Mapping[str, str | None]
"""Name of each setting to its new value. None restores the brokers' default."""

_TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
"""Kafka's codes for two kinds of resources: topics and groups."""

_SET, _DELETE = 0, 1
_ANSWER_S: Final = 5.0
_BY_PATH: Final = (0, 10, 1)
"""The first release whose notifications contain the path of the changed topic. Notifications of
older releases contain the kind (topic) and the topic's name."""


def write(view: ZooKeeperView, release: Release, topic: str, changes: Changes) -> None:
    """Change a topic's settings in ZooKeeper, and notify the brokers.

    Raises:
        UnreachableError: ZooKeeper does not respond, or the topic does not exist.
    """

    def change(node: dict[str, Any]) -> None:
        config = {**node["config"], **changes}
        node["config"] = {name: value for name, value in config.items() if value is not None}

    view.update(f"/config/topics/{topic}", change)
    by_path = release.number >= _BY_PATH
    notice = (
        {"version": 2, "entity_path": f"topics/{topic}"}
        if by_path
        else {"version": 1, "entity_type": "topics", "entity_name": topic}
    )
    view.append("/config/changes/config_change_", notice)


def request(
    brokers: Mapping[int, Address], name: str, changes: Changes, *, kind: int = _TOPIC
) -> None:
    """Send the changes to a running broker. The broker forwards them to the KRaft controller.

    Args:
        name: name of the topic, or of another resource such as a group.
        kind: kind of the resource.

    Raises:
        UnreachableError: no broker responded.
        HarnessError: the controller refuses.
    """
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    alteration: Any = IncrementalAlterConfigsRequest(
        version=0,
        resources=[
            resource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    resource.AlterableConfig(
                        name=name, config_operation=_DELETE if value is None else _SET, value=value
                    )
                    for name, value in changes.items()
                ],
            )
        ],
        validate_only=False,
    )
    with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
        [response] = client.ask_any(tuple(brokers), alteration)
    for result in response.responses:
        if result.error_code:
            raise HarnessError(f"Kafka refuses to set {dict(changes)}: {result.error_message}")
