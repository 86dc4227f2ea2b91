"""Prepare log directories as evidence: keep only the files that the judge reads."""

import contextlib
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from highwater.harness.base.errors import HarnessError
from highwater.harness.runs.broker_log_dirs import copy_broker_file, log_dirs
from highwater.harness.runs.store import (
    COORDINATOR_TOPICS,
    COORDINATORS_FOLDER,
    MORE_LOG_DIRS,
    REMOTE_TIER,
)
from highwater.harness.runs.topics.remote_tier import remote_partition

# Prefix of Kafka's internal topics and of brokers' copies of the controllers' metadata log.
_INTERNAL = "__"
_METADATA_LOG = "__cluster_metadata-0"
# Preallocated files that are derived from the segments.
_DERIVED = {".index", ".timeindex", ".txnindex"}


def prune(replicas: Path, coordination: Path) -> Path:
    """Remove internal topics and index files below ``replicas/<broker id>``. Return ``replicas``.

    The function first copies the used topics of coordinators (such as ``__transaction_state``) to a
    folder beside ``replicas``. It also removes index files from metadata logs and the remote tier.

    Raises:
        HarnessError: a file cannot be removed.
    """
    try:
        _copy_coordinators(replicas, replicas.parent)
        for internal in replicas.glob(f"*/{_INTERNAL}*/"):
            shutil.rmtree(internal)
        for root in (replicas, coordination, replicas.parent):
            folders = f"{REMOTE_TIER}/*" if root == replicas.parent else "*/*"
            for file in root.glob(f"{folders}/*index"):
                if file.suffix in _DERIVED:
                    file.unlink()
    except OSError as error:
        raise HarnessError(
            f"the replicas in {replicas} cannot be prepared: {error.strerror} ({error.filename})"
        ) from error
    return replicas


def merge_log_dirs(replicas: Path) -> None:
    """Move the content of the brokers' additional log directories to ``replicas/<broker id>``.

    A broker's checkpoint files have the same names in all its log directories. The function joins
    their lines. Every other file is in only one directory.

    Raises:
        HarnessError: a file cannot be moved.
    """
    try:
        for broker, folder in log_dirs(replicas):
            target = replicas / broker
            for entry in sorted(folder.iterdir()) if folder != target else ():
                if entry.is_dir():
                    shutil.move(entry, target / entry.name)
                else:
                    copy_broker_file(entry, target / entry.name)
    except OSError as error:  # includes shutil.Error
        raise HarnessError(
            f"the log directories beside {replicas} cannot be merged: {error.strerror or error}"
        ) from error
    shutil.rmtree(replicas.parent / MORE_LOG_DIRS, ignore_errors=True)


def copy_topics(replicas: Path, topics: Collection[str], target: Path) -> None:
    """Copy the topics' replicas, and each broker's own files, to ``target/<broker id>``.

    The sources are below ``replicas``. The function copies coordinators' topics and the topics'
    remote tier to directories next to ``target``.

    Raises:
        HarnessError: a file cannot be copied.
    """
    folders = re.compile(rf"({'|'.join(map(re.escape, topics))})-\d+")
    try:
        for broker, folder in log_dirs(replicas):
            for entry in sorted(folder.iterdir()):
                copy = target / broker / entry.name
                if entry.is_file():
                    copy_broker_file(entry, copy)
                elif folders.fullmatch(entry.name):
                    shutil.copytree(entry, copy, ignore=_ignore_derived)
        _copy_coordinators(replicas, target.parent)
        for folder in sorted((replicas.parent / REMOTE_TIER).glob("*/")):
            if any(remote_partition(folder.name, topic) is not None for topic in topics):
                copy = target.parent / REMOTE_TIER / folder.name
                shutil.copytree(folder, copy, ignore=_ignore_derived)
    except OSError as error:  # includes shutil.Error
        names = ", ".join(topics)
        raise HarnessError(
            f"the replicas of {names} in {replicas} cannot be copied: {error.strerror or error}"
        ) from error


def copy_metadata_logs(coordination: Path, target: Path) -> None:
    """Copy the metadata logs of KRaft controllers, which may be running, to the folder ``target``.

    Raises:
        HarnessError: a file cannot be copied.
    """
    try:
        for log in sorted(coordination.glob(f"controller*/{_METADATA_LOG}/")):
            copy = target / log.relative_to(coordination)
            copy.mkdir(parents=True, exist_ok=True)
            for pattern in (
                "*.log",
                "*.checkpoint",
            ):  # Kafka writes a snapshot before it deletes segments
                for file in log.glob(pattern):
                    with contextlib.suppress(FileNotFoundError):
                        shutil.copy2(file, copy / file.name)
    except OSError as error:
        raise HarnessError(
            f"the metadata logs in {coordination} cannot be copied: {error.strerror or error}"
        ) from error


def _copy_coordinators(replicas: Path, parent: Path) -> None:
    """Copy the used topics of coordinators, and their brokers' checkpoint files.

    Every broker has a replica of a used topic. So with several brokers, a topic with one replica
    was not used.
    """
    target = parent / COORDINATORS_FOLDER
    folders_of_brokers = list(log_dirs(replicas))
    lone = len({broker for broker, _ in folders_of_brokers}) == 1
    for topic in COORDINATOR_TOPICS:
        folders = [
            (broker, log_dir / f"{topic}-0")
            for broker, log_dir in folders_of_brokers
            if (log_dir / f"{topic}-0").is_dir()
        ]
        for broker, folder in folders if lone or len(folders) > 1 else ():
            copy = target / broker
            shutil.copytree(folder, copy / folder.name, ignore=_ignore_derived)
            for entry in folder.parent.iterdir():
                if entry.is_file():
                    copy_broker_file(entry, copy / entry.name)


def _ignore_derived(_: str, names: list[str]) -> set[str]:
    return {name for name in names if Path(name).suffix in _DERIVED}
