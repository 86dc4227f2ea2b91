"""Builds controllers' metadata logs by hand: records as Kafka writes them, in batches on a disk."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.logdirs import batch

TOPIC_ID: Final = bytes(range(16))
_LEADER_CHANGE: Final = (b"\0\0\0\2", b"\0\0\0\0\0\x64\0\0")
Record = tuple[bytes | None, bytes]


def varint(number: int) -> bytes:
    """An unsigned varint."""
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def text(words: str | None) -> bytes:
    """A compact string."""
    return varint(0) if words is None else varint(len(words.encode()) + 1) + words.encode()


def brokers(ids: Sequence[int]) -> bytes:
    """A compact array of broker ids."""
    return varint(len(ids) + 1) + b"".join(struct.pack(">i", number) for number in ids)


def framed(kind: int, version: int, fields: bytes, tags: Mapping[int, bytes] = {}) -> bytes:
    """A record's value: its frame, its fields, and its tagged fields."""
    tagged = b"".join(varint(tag) + varint(len(data)) + data for tag, data in tags.items())
    return bytes([1]) + varint(kind) + varint(version) + fields + varint(len(tags)) + tagged


def topic(name: str = "events", topic_id: bytes = TOPIC_ID) -> bytes:
    """A TopicRecord."""
    return framed(2, 0, text(name) + topic_id)


def partition(
    number: int = 0,
    *,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] = (1, 2, 3),
    leader: int = 1,
    epoch: int = 0,
    version: int = 2,
    topic_id: bytes = TOPIC_ID,
) -> bytes:
    """A PartitionRecord; from version 1 on it has the log directory of each replica."""
    fields = struct.pack(">i", number) + topic_id + brokers(replicas) + brokers(isr)
    fields += brokers([]) + brokers([]) + struct.pack(">iii", leader, epoch, 0)
    if version:
        fields += varint(len(replicas) + 1) + bytes(16 * len(replicas))
    return framed(3, version, fields)


def change(
    number: int = 0,
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    replicas: Sequence[int] | None = None,
    version: int = 2,
    topic_id: bytes = TOPIC_ID,
) -> bytes:
    """A PartitionChangeRecord; a leader that is named gets a new epoch."""
    tags: dict[int, bytes] = {}
    if isr is not None:
        tags[0] = brokers(isr)
    if leader is not None:
        tags[1] = struct.pack(">i", leader)
    if replicas is not None:
        tags[2] = brokers(replicas)
    return framed(5, version, struct.pack(">i", number) + topic_id, tags)


def setting(name: str, value: str | None, *, resource: str = "events", kind: int = 2) -> bytes:
    """A ConfigRecord, of a topic unless told."""
    return framed(4, 0, bytes([kind]) + text(resource) + text(name) + text(value))


def feature(name: str, level: int) -> bytes:
    """A FeatureLevelRecord."""
    return framed(12, 0, text(name) + struct.pack(">h", level))


def nothing() -> bytes:
    """A NoOpRecord."""
    return framed(20, 0, b"")


def voters(*ids: int) -> bytes:
    """A VotersRecord, with one endpoint of each voter; its frame is that of a control record."""
    endpoint = text("CONTROLLER") + text("127.0.0.5") + struct.pack(">H", 2181) + varint(0)
    speaks = struct.pack(">hh", 0, 1) + varint(0)
    each = [struct.pack(">i", id_) + bytes(16) + varint(2) + endpoint + speaks for id_ in ids]
    tagged = b"".join(voter + varint(0) for voter in each)
    return struct.pack(">h", 0) + varint(len(ids) + 1) + tagged + varint(0)


def vote(offset: int, *ids: int, epoch: int = 1) -> bytes:
    """A batch with a VotersRecord alone."""
    return batch(offset, [(b"\0\0\0\6", voters(*ids))], epoch=epoch, control=True)


def log(records: Iterable[tuple[int, bytes]], *, base: int = 0) -> list[bytes]:
    """Batches of one record each, from ``base`` on, each with its epoch.

    Every epoch begins with the leader's control record, as Kafka's do.
    """
    batches: list[bytes] = []
    last = -1
    for epoch, value in records:
        if epoch != last:
            batches.append(batch(base + len(batches), [_LEADER_CHANGE], epoch=epoch, control=True))
            last = epoch
        batches.append(batch(base + len(batches), [(None, value)], epoch=epoch))
    return batches


def write(
    run: Path,
    controller: int | None,
    batches: Iterable[bytes],
    *,
    base: int = 0,
    snapshots: Mapping[tuple[int, int], Sequence[bytes]] = {},
) -> Path:
    """Write a controller's log where a run has it; None: it is alone.

    Args:
        base: the first offset of its segment.
        snapshots: end offset and epoch to the records of a snapshot.

    Returns:
        The folder of the log.
    """
    name = "controller" if controller is None else f"controller-{controller}"
    folder = run / "coordination" / name / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
    for (end, epoch), values in snapshots.items():
        data = batch(0, [(None, value) for value in values], epoch=epoch)
        (folder / f"{end:020d}-{epoch:010d}.checkpoint").write_bytes(data)
    return folder
