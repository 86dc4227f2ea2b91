"""Features of a KRaft cluster: metadata.version, and later features (KIP-584).

Kafka's own tool decides the features of a release's new cluster. Up to 4.3 the tool writes them to
``bootstrap.checkpoint``, since 4.4 to the first snapshot of the metadata log (KAFKA-19648). Both
files are batches of the same records. A controller of any release with an empty log reads
``bootstrap.checkpoint``. The harness runs the tool once for each release, and caches the file. An
upgraded cluster gets the same features as with ``kafka-features upgrade --release-version``.
"""

import contextlib
import struct
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from kafka.protocol.admin import UpdateFeaturesRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.record import MemoryRecords

from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.clusters.core.java_properties import to_properties
from highwater.clusters.nodes import config_files, jvm
from highwater.clusters.relay.rules import FIRST_CONTROLLER
from highwater.clusters.releases.jars import classpath, lock_file
from highwater.clusters.releases.software_level import Level
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.files import write_whole
from highwater.harness.base.jvm_class_archive import exclusive
from highwater.harness.base.scratch import temporary
from highwater.harness.base.user_dirs import cache_directory
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.catalogue import metadata_release
from highwater.harness.releases.release import Release

CHECKPOINT: Final = "bootstrap.checkpoint"
_TOOL: Final = "kafka.tools.StorageTool"
_TOOL_S: Final = 120.0
_UPGRADE: Final = 1
_ANSWER_S: Final = 10.0
_PROPAGATION_S: Final = 30.0
_LEVEL: Final = struct.Struct(">h")
_T = TypeVar("_T")


def checkpoint(release: Release) -> bytes:
    """Return the content of a release's ``bootstrap.checkpoint``, the same for all clusters.

    Raises:
        HarnessError: the jars are missing, or the tool fails. The message has the end of the tool's
            output.
    """
    jars = sha256(lock_file(release).read_bytes()).hexdigest()[:12]
    cached = cache_directory() / "archives" / f"features-{release.name}-{jars}.checkpoint"
    with contextlib.suppress(OSError):
        if _is_whole(content := cached.read_bytes()):
            return content
    content = _ask_tool(release, _written_checkpoint)
    with contextlib.suppress(OSError):  # a cache that cannot be written is not an error
        cached.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(cached.with_suffix(".lock")):
            write_whole(cached, content)
    return content


def _is_whole(content: bytes) -> bool:
    """Return whether the content consists of complete record batches with correct checksums."""
    batches, count = MemoryRecords(content), 0
    while (batch := batches.next_batch()) is not None:
        if not batch.validate_crc():
            return False
        count += 1
    return count > 0 and batches.valid_bytes() == len(content)


def initial_quorum(release: Release, voters: Mapping[int, str]) -> dict[str, bytes]:
    """Return path -> content of the checkpoints with which every voter of a new quorum starts.

    The checkpoints contain the features and the voters. Voters can be added and removed later
    (KIP-853).

    Args:
        voters: controller id to ``host:port:directory id``, including the first controller.

    Raises:
        HarnessError: the jars are missing, or the tool fails, as it does before 3.9.
    """
    listed = ",".join(f"{id_}@{place}" for id_, place in voters.items())
    return _ask_tool(release, _written_checkpoints, "--initial-controllers", listed)


def features(release: Release) -> dict[str, int]:
    """Return feature name -> level of a release's new cluster."""
    batches = MemoryRecords(checkpoint(release))
    levels: dict[str, int] = {}
    while (batch := batches.next_batch()) is not None:
        if not batch.is_control_batch:
            levels.update(_feature(record.value) for record in batch)
    return levels


def _feature(record: bytes) -> tuple[str, int]:
    """Decode a FeatureLevelRecord: frame, kind, version, compact string, int16, tags."""
    end = 3 + record[3]
    (level,) = _LEVEL.unpack_from(record, end)
    return record[4:end].decode("ascii"), level


def source(level: Level) -> Release:
    """Return the release of the level's protocol: the node's release, or an older release."""
    release = level.release
    return release if release.protocol == level.protocol else metadata_release(level.protocol)


def finalize_features(brokers: Mapping[int, Address], target: Mapping[str, int]) -> None:
    """Finalize features at these levels or higher, and wait until every broker has them.

    Args:
        brokers: id to address of all running brokers.
        target: feature name to level.

    Raises:
        HarnessError: the controller refuses.
        WaitTimeoutError: a broker does not get the features in time.
    """
    with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
        before = _finalized(client, *brokers)
        raised = {name: level for name, level in target.items() if before.get(name, 0) < level}
        if raised:
            _send(client, tuple(brokers), raised)
        for broker in brokers:
            await_condition(
                partial(_finalized, client, broker),
                lambda finalized: all(
                    finalized.get(name, 0) >= level for name, level in target.items()
                ),
                what=f"broker {broker} to have the features {', '.join(target)}",
                limit_s=_PROPAGATION_S,
                passing=(UnreachableError,),
            )


def finalized_features(brokers: Mapping[int, Address]) -> dict[str, int]:
    """Return the finalized features with their levels, from any of these brokers."""
    with contextlib.closing(ProtocolClient(brokers, timeout_s=_ANSWER_S)) as client:
        return _finalized(client, *brokers)


def _finalized(client: ProtocolClient, *brokers: int) -> dict[str, int]:
    request: Any = ApiVersionsRequest(
        version=3, client_software_name="highwater", client_software_version="1"
    )
    [response] = client.ask_any(brokers, request)
    return {
        feature.name: feature.max_version_level for feature in response.finalized_features or ()
    }


def _send(client: ProtocolClient, brokers: tuple[int, ...], raised: Mapping[str, int]) -> None:
    request: Any = UpdateFeaturesRequest(
        version=1,
        timeout_ms=int(_ANSWER_S * 1000),
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(
                feature=name, max_version_level=level, upgrade_type=_UPGRADE
            )
            for name, level in raised.items()
        ],
        validate_only=False,
    )
    [response] = client.ask_any(brokers, request)
    results = [response, *(response.results or ())]
    if errors := [result for result in results if result.error_code]:
        reason = errors[0].error_message or f"error {errors[0].error_code}"
        raise HarnessError(
            f"the controller does not upgrade the features {', '.join(raised)}: {reason}"
        )


def _ask_tool(release: Release, read: Callable[[Path], _T], *initial: str) -> _T:
    """Format a log directory with Kafka's tool, and return ``read(log directory)``.

    Args:
        initial: the option that names a quorum's voters; empty if the settings name them.
    """
    with temporary("features") as folder:
        unused_address = Address(host="127.0.0.1", port=1)
        settings = config_files.controller(
            release,
            FIRST_CONTROLLER,
            unused_address,
            voters={FIRST_CONTROLLER: unused_address},
            log_directory=folder / "log",
            overrides={},
        )
        if initial:
            settings = config_files.dynamic_quorum(settings)
        file = folder / "controller.properties"
        file.write_text(to_properties(settings), encoding="ascii")
        jars = tuple(str(path) for path in classpath(release))
        command = jvm.command(
            jvm.Runtime(java=str(jvm.java()), jars=jars, sharing=()),
            _TOOL,
            ["format", *initial, "-t", config_files.kafka_uuid(), "-c", str(file)],
            heap_mb=128,
            properties={"java.io.tmpdir": str(folder)},
        )
        try:
            subprocess.run(
                command,
                env=jvm.environment(),
                capture_output=True,
                text=True,
                timeout=_TOOL_S,
                check=True,
            )
            return read(folder / "log")
        except (OSError, subprocess.SubprocessError) as error:
            output = (getattr(error, "stderr", None) or "").strip() or str(error)
            raise HarnessError(
                f"Kafka {release.name}'s tool wrote no features: {output.splitlines()[-1]}"
            ) from error


def _written_checkpoint(log_directory: Path) -> bytes:
    """Return the only checkpoint below a formatted log directory.

    Raises:
        FileNotFoundError: there is no checkpoint, or there are several checkpoints.
    """
    files = _written_checkpoints(log_directory)
    if len(files) != 1:
        names = ", ".join(Path(path).name for path in files) or "none"
        raise FileNotFoundError(f"Kafka's tool must write one checkpoint, but wrote: {names}")
    return next(iter(files.values()))


def _written_checkpoints(log_directory: Path) -> dict[str, bytes]:
    """Return relative path -> content of every checkpoint below a formatted log directory."""
    return {
        str(file.relative_to(log_directory)): file.read_bytes()
        for file in sorted(log_directory.rglob("*.checkpoint"))
    }
