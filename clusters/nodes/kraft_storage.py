"""What ``StorageTool format`` leaves in a KRaft node's log directory, without a JVM each time.

A broker gets ``meta.properties`` alone. A controller also gets ``bootstrap.checkpoint``: the
features that a new cluster begins with (``clusters.nodes.kraft_features``), and nothing of the
cluster itself.
"""

import base64
import uuid
from pathlib import Path

from highwater.clusters.nodes import config_files


def kafka_uuid() -> str:
    """A random identity as Kafka writes it: url-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would take it for an option
            return text


def format_node(folder: Path, identity: int, cluster_id: str) -> None:
    """Make the node of that id a member of a cluster; the folder is there and empty."""
    properties = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(identity),
        "directory.id": kafka_uuid(),
    }
    (folder / "meta.properties").write_text(config_files.text(properties), encoding="ascii")
