"""Read the stored record at an anomaly's offset from each replica's segment, field by field.

The section shows the file and the byte at which the record's batch begins, for tools such as
``kafka-dump-log`` or ``xxd``.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka.record.memory_records import MemoryRecords

from highwater.checkers.kafka_files.reader import read_partition
from highwater.harness.base.errors import HighwaterError
from highwater.harness.base.wording import count
from highwater.harness.runs.partition_trace import Partition
from highwater.harness.runs.store import Run
from highwater.reports.replica_contents import replica_folders

BYTES_MAX: Final = 96
"""Maximum number of shown bytes of a key, a value or a header."""
HEADERS_MAX: Final = 8
_BATCH_MAX: Final = 1 << 20
"""Maximum size in bytes of a batch that is read again for its headers."""
_V2: Final = 2
_LENGTH_AT: Final = 12
"""The size of the fields offset and length at the start of a batch, in any format. The length
counts the bytes after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a record on the page."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """A replica's record at an offset; it has no fields if the replica has no record there.

    Attributes:
        file: path of the segment below the run directory.
        position: byte in that file at which the record's batch begins.
    """

    broker: int
    file: str = ""
    position: int | None = None
    fields: tuple[Field, ...] = ()


Raws: TypeAlias = Mapping[int, Sequence[RawRecord]]
"""By offset, the record of each replica, by broker id."""


def read_raw(
    run: Run,
    partition: Partition,
    offsets: Collection[int],
    missing: list[str],
    without: Collection[str] = (),
) -> dict[int, list[RawRecord]]:
    """Read each replica's record at each of the offsets, from the disks after the run.

    Args:
        missing: a list to which a sentence is added for each replica that cannot be read.
    """
    records: dict[int, list[RawRecord]] = {offset: [] for offset in offsets}
    for folder in replica_folders(run, partition, without) if offsets else ():
        broker = int(folder.parent.name)
        there: dict[int, RawRecord] = {}
        try:
            for row in _rows(folder, offsets):
                there[row["offset"]] = _raw(run, folder, broker, row)
        except (HighwaterError, OSError, pa.ArrowException, ValueError) as error:
            missing.append(f"The records of broker {broker} cannot be read: {error}")
            continue
        for offset in offsets:
            records[offset].append(there.get(offset, RawRecord(broker=broker)))
    return {offset: sorted(raws, key=lambda raw: raw.broker) for offset, raws in records.items()}


def _rows(folder: Path, offsets: Collection[int]) -> Iterator[dict[str, Any]]:
    wanted_offsets = pa.array(sorted(offsets), pa.int64())
    for batch in read_partition(folder):
        yield from batch.filter(pc.is_in(batch["offset"], wanted_offsets)).to_pylist()


def _raw(run: Run, folder: Path, broker: int, row: dict[str, Any]) -> RawRecord:
    path = folder / f"{row['segment']:020}.log"
    position = row["position"]
    labels = {
        "leader epoch": row["leader_epoch"],
        "timestamp": _timestamp(row),
        "key": _bytes(row["key"]),
        "value": _bytes(row["value"]),
        "headers": _headers(path, position, row),
        "producer": _producer(row),
        "batch": _batch(row),
        "checksum": _checksum(row),
    }
    fields = (
        Field(name=name, value=str(value))
        for name, value in labels.items()
        if value not in (None, "")
    )
    return RawRecord(
        broker=broker,
        file=path.relative_to(run.path).as_posix(),
        position=position,
        fields=tuple(fields),
    )


def _timestamp(row: Mapping[str, Any]) -> str:
    if row["timestamp_ms"] is None:
        return "none"
    whose = "broker" if row["log_append_time"] else "producer"
    return f"{row['timestamp_ms']} ms, by the {whose}'s clock"


def _producer(row: Mapping[str, Any]) -> str:
    if row["producer_id"] is None:
        return "not idempotent"
    producer = f"id {row['producer_id']}, epoch {row['producer_epoch']}, sequence {row['sequence']}"
    return f"{producer}, transactional" if row["transactional"] else producer


def _batch(row: Mapping[str, Any]) -> str:
    control = f", {row['control_type']} marker" if row["control"] else ""
    return (
        f"offsets {row['base_offset']} to {row['last_offset']}, format v{row['magic']},"
        f" compression {row['compression']}{control}"
    )


def _checksum(row: Mapping[str, Any]) -> str:
    stored = "" if row["crc"] is None else f"{row['crc']:#010x}, "
    return stored + {True: "matches", False: "DOES NOT MATCH", None: "none to check"}[row["crc_ok"]]


def _bytes(data: object) -> str:
    """Format bytes as Python does: escape all but printable ASCII; truncate with an ellipsis."""
    if not isinstance(data, bytes):
        return "null"
    printable = repr(data[:BYTES_MAX])[2:-1]
    more = f"… ({count(len(data), 'byte')})" if len(data) > BYTES_MAX else ""
    return f"{printable}{more}" if data else "empty"


def _headers(path: Path, position: int, row: Mapping[str, Any]) -> str:
    """Read a record's headers from the file; only format v2 has headers."""
    if row["magic"] != _V2:
        return ""
    with path.open("rb") as file:
        file.seek(position)
        head = file.read(_LENGTH_AT)
        size = int.from_bytes(head[8:], "big")
        if not 0 < size <= _BATCH_MAX:
            return f"not read: the batch has {count(size, 'byte')}"
        records = MemoryRecords(head + file.read(size)).next_batch()
    headers = next((record.headers for record in records if record.offset == row["offset"]), ())
    printable = [
        f"{_bytes(name.encode())}: {_bytes(value)}" for name, value in headers[:HEADERS_MAX]
    ]
    more = [f"and {len(headers) - HEADERS_MAX} more"] if len(headers) > HEADERS_MAX else []
    return "; ".join([*printable, *more]) or "none"
