"""What ``StorageTool format`` leaves in a KRaft node's log directory, without a JVM each time.

A broker gets ``meta.properties`` alone. A controller also gets ``bootstrap.checkpoint``: the
features that a new cluster of its release starts with, and nothing of the cluster itself. Kafka's
own tool decides those, once a release; its file is kept in the cache for all later clusters.
"""

import base64
import contextlib
import os
import shutil
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Final

from clusters import config
from clusters.distribution import lock_file
from clusters.release import Release
from harness.places import cache_directory

_FEATURES: Final = "bootstrap.checkpoint"


def kafka_uuid() -> str:
    """A random identity as Kafka writes it: url-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's tools would take it for an option
            return text


def format_broker(folder: Path, identity: int, cluster_id: str) -> None:
    """Make the node of that id a member of a cluster; the folder is there and empty."""
    properties = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(identity),
        "directory.id": kafka_uuid(),
    }
    (folder / "meta.properties").write_text(config.text(properties), encoding="ascii")


def format_controller(release: Release, folder: Path, cluster_id: str) -> bool:
    """Format the controller's folder, if the release's features are known; else touch nothing."""
    try:
        features = _kept(release).read_bytes()
    except OSError:
        return False
    folder.mkdir()
    (folder / _FEATURES).write_bytes(features)
    format_broker(folder, config.CONTROLLER_ID, cluster_id)
    return True


def keep_features(release: Release, folder: Path) -> None:
    """Remember what Kafka's own tool wrote; a cache that cannot be written is no failure."""
    kept = _kept(release)
    aside = kept.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / _FEATURES, aside)
        aside.replace(kept)


def _kept(release: Release) -> Path:
    jars = sha256(lock_file(release).read_bytes()).hexdigest()[:12]
    return cache_directory() / "archives" / f"features-{release.name}-{jars}.checkpoint"
