"""Lies about a run that was frozen: what an honest judge must refuse to explain.

Each takes a run directory and dice, changes one thing in it, and says what. Checksums are right
afterwards: a lie that a checksum gives away is no lie.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.record._crecords import crc32c_cython as crc32c

from highwater.harness.runs.history import FINAL, OK, READ, SEND, TABLES
from highwater.harness.runs.store import Run

_MAGIC_AT: Final = 16
_EPOCH_AT: Final = 12
_WITH_EPOCHS: Final = 2
"""The format of records that bears leader epochs."""

_RECORD: Final = re.compile(rb"p\d+-\d+\|")

Lie = Callable[[Run, Random], str]


def _rows(run: Run, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run.table(name).to_pylist()
    return rows


def _put(run: Run, name: str, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[name]), run.parquet(name))


def _drop(run: Run, dice: Random, chosen: Callable[[dict[str, Any]], bool]) -> str:
    rows = _rows(run, "history/ops")
    row = dice.choice([row for row in rows if chosen(row) and row["process"] != "fence"])
    _put(run, "history/ops", [one for one in rows if one is not row])
    return f"the {row['phase']} {row['kind']} of {row['value']} was dropped"


def drop_read(run: Run, dice: Random) -> str:
    """The final reader received a record, and the history does not say so any more."""
    return _drop(run, dice, lambda row: row["kind"] == READ and row["phase"] == FINAL)


def drop_acknowledgement(run: Run, dice: Random) -> str:
    """A record that is there was acknowledged, and the history does not say so any more."""
    read = {row["value"] for row in _rows(run, "history/ops") if row["phase"] == FINAL}
    return _drop(
        run,
        dice,
        lambda row: row["kind"] == SEND and row["outcome"] == OK and row["value"] in read,
    )


def _batches(data: bytes) -> list[bytes]:
    """The batches of a segment, or its messages before format 2."""
    found, at = [], 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        if length <= 0:
            break
        found.append(data[at : at + 12 + length])
        at += 12 + length
    return found


def _segments(run: Run) -> Iterator[Path]:
    topic = run.plan().topic.name
    for path in sorted(run.replicas.glob(f"*/{topic}-*/*.log")):
        if len(_batches(path.read_bytes())) > 2:
            yield path


def _signed(batch: bytes) -> bytes:
    """The batch with its checksum made right."""
    data = bytearray(batch)
    if data[_MAGIC_AT] >= _WITH_EPOCHS:
        data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    else:
        data[12:16] = struct.pack(">I", zlib.crc32(bytes(data[16:])))
    return bytes(data)


def _edit(run: Run, dice: Random, change: Callable[[list[bytes]], str]) -> str:
    path = dice.choice(list(_segments(run)))
    batches = _batches(path.read_bytes())
    says = change(batches)
    path.write_bytes(b"".join(batches))
    return f"in {path.parent.parent.name}/{path.parent.name}, {says}"


def cut_out(run: Run, dice: Random) -> str:
    """A replica lacks something in its middle."""

    def change(batches: list[bytes]) -> str:
        index = dice.randrange(1, len(batches) - 1)
        return f"batch {index} is gone, {len(batches.pop(index))} bytes"

    return _edit(run, dice, change)


def cut_off(run: Run, dice: Random) -> str:
    """A replica lacks its end."""

    def change(batches: list[bytes]) -> str:
        return f"the last batch is gone, {len(batches.pop())} bytes"

    return _edit(run, dice, change)


def change_value(run: Run, dice: Random) -> str:
    """A replica holds another record somewhere, one that was sent as well, maybe."""

    def change(batches: list[bytes]) -> str:
        index = dice.choice([n for n, one in enumerate(batches) if _RECORD.search(one)])
        found = dice.choice(list(_RECORD.finditer(batches[index])))
        name = bytearray(found[0])
        digit = dice.choice([n for n in range(len(name)) if chr(name[n]).isdecimal()])
        name[digit] = ord(dice.choice(sorted({*"0123456789"} - {chr(name[digit])})))
        data = batches[index]
        batches[index] = _signed(data[: found.start()] + bytes(name) + data[found.end() :])
        return f"{found[0].decode()} became {name.decode()}"

    return _edit(run, dice, change)


def swap_epochs(run: Run, dice: Random) -> str:
    """Two batches of a replica have exchanged their leader epochs, which no checksum covers."""
    found = []
    for path in _segments(run):
        batches = _batches(path.read_bytes())
        epochs = [one[_EPOCH_AT : _EPOCH_AT + 4] for one in batches]
        if len(set(epochs)) > 1 and batches[0][_MAGIC_AT] >= _WITH_EPOCHS:
            found.append((path, epochs))
    path, epochs = dice.choice(found)
    first = dice.randrange(len(epochs))
    second = dice.choice([n for n, epoch in enumerate(epochs) if epoch != epochs[first]])
    edited = [bytearray(one) for one in _batches(path.read_bytes())]
    edited[first][_EPOCH_AT : _EPOCH_AT + 4] = epochs[second]
    edited[second][_EPOCH_AT : _EPOCH_AT + 4] = epochs[first]
    path.write_bytes(b"".join(edited))
    return f"in {path.parent.parent.name}/{path.parent.name}, batches {first} and {second}"


def feign_cut(run: Run, dice: Random) -> str:
    """A broker's log tells of a cut that there never was."""
    marks = [row for row in _rows(run, "events/replicas") if (row["leo"] or 0) > 1]
    mark = dice.choice(marks)
    offset = dice.randrange(1, mark["leo"])
    lines = _rows(run, "events/log_lines")
    name = f"{mark['topic']}-{mark['partition']}"
    lines.append(
        {
            "time_ns": mark["time_ns"] + dice.randrange(50_000_000),
            "broker": mark["broker"],
            "kind": "truncation",
            "topic": mark["topic"],
            "partition": mark["partition"],
            "offset": offset,
            "line": f"INFO Truncating log {name} to offset {offset}. (kafka.log.Log)",
        }
    )
    _put(run, "events/log_lines", lines)
    return f"broker {mark['broker']} is said to have cut {name} to {offset}"


def hide_election(run: Run, _: Random) -> str:
    """Nobody was seen to be elected: what followed from that has lost a link."""
    rows = _rows(run, "events/partitions")
    _put(run, "events/partitions", [row for row in rows if row["leader_epoch"] == 0])
    lines = _rows(run, "events/log_lines")
    _put(run, "events/log_lines", [row for row in lines if row["kind"] != "leader"])
    return "every election was dropped"


LIES: Final[dict[str, Lie]] = {
    "drop-read": drop_read,
    "drop-acknowledgement": drop_acknowledgement,
    "cut-out": cut_out,
    "cut-off": cut_off,
    "change-value": change_value,
    "swap-epochs": swap_epochs,
    "feign-cut": feign_cut,
}
"""Every lie, by name."""
