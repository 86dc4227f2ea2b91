"""Format a KRaft node's log directory as ``StorageTool format`` does, without starting a JVM.

A broker gets ``meta.properties`` alone. A controller also gets ``bootstrap.checkpoint``: the
features that a new cluster begins with (``clusters.nodes.kraft_features``), the same for every
cluster.
"""

import base64
import uuid
from pathlib import Path

from highwater.clusters.nodes import config_files


def kafka_uuid() -> str:
    """Return a random id as Kafka writes it: url-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would take it for an option
            return text


def format_node(folder: Path, node_id: int, cluster_id: str) -> None:
    """Format a node of a cluster; its folder exists and is empty."""
    properties = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": kafka_uuid(),
    }
    (folder / "meta.properties").write_text(config_files.text(properties), encoding="ascii")
