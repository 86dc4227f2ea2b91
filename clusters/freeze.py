"""Make killed log directories into evidence: what a judge needs stays, the rest goes."""

import shutil
from pathlib import Path

from harness.errors import HarnessError

# Kafka's own topics, and its metadata log, whose original is the controller's.
_INTERNAL = "__"
# Preallocated, and derived from the segments.
_DERIVED = {".index", ".timeindex", ".txnindex"}


def prune(replicas: Path, coordination: Path) -> Path:
    """Remove internal topics below ``replicas/<broker id>``, and index files everywhere.

    Raises:
        HarnessError: a file cannot be removed.
    """
    try:
        for internal in replicas.glob(f"*/{_INTERNAL}*/"):
            shutil.rmtree(internal)
        for root in (replicas, coordination):
            for file in root.glob("*/*/*index"):
                if file.suffix in _DERIVED:
                    file.unlink()
    except OSError as error:
        raise HarnessError(
            f"the replicas in {replicas} cannot be frozen: {error.strerror} ({error.filename})"
        ) from error
    return replicas
