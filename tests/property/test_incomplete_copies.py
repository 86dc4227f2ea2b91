"""Copies of sound replicas from which files were left out, or with other files in a log's place.

Never is one corrupt or a fork, and none agrees where it shows that something is missing. The test
knows what was left out, and which of what is left shows it. ``HIGHWATER_COPIES`` is the number of
copies, ``HIGHWATER_SEED`` the seed of the dice.
"""

import gzip
import io
import lzma
import os
import random
import shutil
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import cramjam
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.inspection.inspect import inspect
from highwater.checkers.inspection.replica_findings import LATE_START
from highwater.checkers.inspection.report_types import InspectedPartition
from highwater.checkers.kafka_files.checkpoints import HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from tests.support.logdirs import Broker, Record, batch, brokers

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT: Final = int(os.environ.get("HIGHWATER_COPIES", "60"))
SEED: Final = int(os.environ.get("HIGHWATER_SEED", "0"))
BATCH: Final = 250
"""Copies that are inspected at once, as topics of one cluster."""

CLEANED: Final = "cleaner-offset-checkpoint"


def _tar(log: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("p-0/")
        entry.size = len(log)
        archive.addfile(entry, io.BytesIO(log))
    return out.getvalue()


def _zip(log: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("0.log", log)
    return out.getvalue()


FOREIGN: Final[dict[str, Callable[[bytes, random.Random], bytes]]] = {
    "pointer": lambda *_: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "annex": lambda *_: b"/annex/objects/SHA256E-s53321--0000.log\n",
    "text": lambda *_: "Kopie fehlgeschlagen: Zugriff verweigert für orders\n".encode(),
    "word": lambda *_: b"404\n",
    "html": lambda *_: b"\n<!DOCTYPE html><html><body>502 Bad Gateway</body></html>",
    "xml": lambda *_: b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    "utf-16": lambda *_: "Zugriff verweigert".encode("utf-16"),
    "latin-1": lambda *_: "Die Kopie schlug fehl für orders".encode("latin-1"),
    "response": lambda log, _: b"HTTP/1.1 200 OK\r\n\r\n" + log,
    "cpio": lambda log, _: b"070701" + b"0" * 104 + b"0.log\0" + log,
    "image": lambda _, dice: bytes(1500) + dice.randbytes(300),
    "gzip": lambda log, _: gzip.compress(log),
    "xz": lambda log, _: lzma.compress(log),
    "zstd": lambda log, _: bytes(cramjam.zstd.compress(log)),
    "zip": lambda log, _: _zip(log),
    "tar": lambda log, _: _tar(log),
    "encrypted": lambda log, dice: dice.randbytes(len(log) + 16),
    "openssl": lambda log, dice: b"Salted__" + dice.randbytes(len(log) + 8),
}
BLANK: Final[dict[str, Callable[[bytes, random.Random], bytes]]] = {
    "empty": lambda *_: b"",
    "zeros": lambda log, _: bytes(len(log) or 99),
}
"""Files that a broker itself may leave in the place of its last segment."""


@dataclass(slots=True, kw_only=True)
class Replica:
    """One replica as its broker would leave it, and what was done to the copy of it.

    Attributes:
        bases: of its segments; ``files`` has the content of each file in its folder by name.
        leo: its log end offset, as ``hw`` its high watermark.
        start: its log start offset.
        cleaned: up to where its log was compacted.
        epochs: its leader-epoch-checkpoint.
        strange: base of a segment to what lies in its place.
        cut: base of a segment without its end to its next offset, and whether a batch is torn.
    """

    broker: int
    bases: list[int]
    leo: int
    hw: int
    start: int
    cleaned: int
    epochs: list[tuple[int, int]]
    files: dict[str, bytes]
    strange: dict[int, str] = field(default_factory=dict)
    cut: dict[int, tuple[int, bool]] = field(default_factory=dict)

    @property
    def logs(self) -> list[int]:
        """The segments of which the copy has the logs."""
        return [base for base in self.bases if log(base) in self.files]


@dataclass(slots=True, kw_only=True)
class Copy:
    """The replicas of one partition, with what is left of them."""

    replicas: list[Replica]
    compacted: bool
    touched: bool = False


def log(base: int) -> str:
    return f"{base:020d}.log"


def written(dice: random.Random, *, compacted: bool) -> list[tuple[int, int, list[Record]]]:
    """A log's batches: base offset, leader epoch and records."""
    batches, offset, epoch = [], 0, dice.choice((0, 0, 3))
    for _ in range(dice.randint(2, 9)):
        size = dice.randint(1, 3)
        keys = [b"k%d" % dice.randint(0, 2) if compacted else None for _ in range(size)]
        records: list[Record] = [
            (key, None if key and dice.random() < 0.2 else b"v%d" % (offset + at))
            for at, key in enumerate(keys)
        ]
        batches.append((offset, epoch, records))
        offset += size
        epoch += dice.random() < 0.3
    return batches


def sound(dice: random.Random, sides: Sequence[Broker]) -> Copy:
    """Replicas of one log that agree or lag, in several segments, some begun by retention."""
    compacted = dice.random() < 0.2
    batches = written(dice, compacted=compacted)
    end = batches[-1][0] + len(batches[-1][2])
    ends = [*(base for base, *_ in batches[1:]), end]
    codec = dice.choice((0, 0, 0, 1, 2, 3, 4))
    cleaned = dice.choice([base for base, *_ in batches]) if compacted else 0
    chosen = sorted(dice.sample(range(len(sides)), dice.choice((1, 2, 3, 3, 3))))
    leos = {at: end if dice.random() < 0.7 else dice.choice(ends) for at in chosen}
    hw = dice.choice([0, *(reached for reached in ends if reached <= min(leos.values()))])
    return Copy(
        replicas=[
            replica(dice, batches, leo=leos[at], hw=hw, codec=codec, cleaned=cleaned, broker=at + 1)
            for at in chosen
        ],
        compacted=compacted,
    )


def replica(
    dice: random.Random,
    batches: Sequence[tuple[int, int, list[Record]]],
    *,
    leo: int,
    hw: int,
    codec: int,
    cleaned: int,
    broker: int,
) -> Replica:
    held = [each for each in batches if each[0] < leo]
    bases = [0, *sorted(dice.sample([at for at, *_ in held[1:]], dice.randint(0, len(held) - 1)))]
    if dice.random() < 0.2 and leo not in bases:
        bases.append(leo)  # rolled, and nothing written since
    first = dice.choice((0, 0, 0, *bases[1:]))  # the segments before it are deleted
    bases = [base for base in bases if base >= first]
    start = dice.choice((first, first, dice.randint(first, leo)))
    last = {key: at + place for at, _, some in held for place, (key, _) in enumerate(some)}
    files: dict[str, bytes] = {"partition.metadata": b"version: 0\ntopic_id: same\n"}
    for base, following in zip(bases, [*bases[1:], leo + 1], strict=True):
        data = b""
        for at, epoch, some in held:
            if not base <= at < following:
                continue
            kept = [
                place
                for place, (key, _) in enumerate(some)
                if at + place >= cleaned or (last[key] == at + place and some[place][1] is not None)
            ]
            if kept:
                records = [some[place] for place in kept]
                data += batch(at, records, epoch=epoch, codec=codec, deltas=kept)
        files |= {log(base): data, f"{base:020d}.index": b"", f"{base:020d}.timeindex": b""}
        if base:
            files[f"{base:020d}.snapshot"] = b"\0\1"
    epochs: dict[int, int] = {}
    for at, epoch, _ in held:
        epochs.setdefault(epoch, at)
    listed = [(epoch, max(at, start)) for epoch, at in epochs.items()]
    listed = [
        each
        for each, after in zip(listed, [*listed[1:], (0, leo + 1)], strict=True)
        if after[1] > each[1]
    ]
    text = "".join(f"{epoch} {at}\n" for epoch, at in listed)
    files["leader-epoch-checkpoint"] = f"0\n{len(listed)}\n{text}".encode()
    return Replica(
        broker=broker,
        bases=bases,
        leo=leo,
        hw=max(hw, start),
        start=start,
        cleaned=cleaned,
        epochs=listed,
        files=files,
    )


def spoil(dice: random.Random, copy: Copy) -> None:
    """Leave files of a copy out, by chance or by a rule, or put other files in a log's place."""
    whole = [(side, name) for side in copy.replicas for name in side.files]
    ways = ("none", "few", "many", "suffix", "logs", "last", "end", "folder", "foreign", "foreign")
    match dice.choice(ways):
        case "few":
            gone = dice.sample(whole, min(len(whole), dice.randint(1, 3)))
        case "many":
            gone = [each for each in whole if dice.random() < 0.5]
        case "suffix":
            end = dice.choice((".log", ".index", ".timeindex", ".snapshot", "checkpoint", "data"))
            sides = dice.sample(copy.replicas, dice.randint(1, len(copy.replicas)))
            gone = [each for each in whole if each[0] in sides and each[1].endswith(end)]
        case "logs":
            side = dice.choice(copy.replicas)
            base = f"{dice.choice(side.bases):020d}."
            gone = [each for each in whole if each[0] is side and each[1].startswith(base)]
            if dice.random() < 0.3:  # and all that tells of it
                gone += [each for each in whole if each[0] is side and "checkpoint" in each[1]]
        case "last":  # of all replicas, or of one
            sides = dice.choice((copy.replicas, [dice.choice(copy.replicas)]))
            begins = {side.broker: f"{side.bases[-1]:020d}." for side in sides}
            gone = [each for each in whole if each[1].startswith(begins.get(each[0].broker, "-"))]
        case "folder":
            side = dice.choice(copy.replicas)
            gone = [each for each in whole if each[0] is side]
        case "foreign" | "end" as way:
            gone = []
            _change(dice, copy, dice.choice(copy.replicas), cut=way == "end")
        case _:
            gone = []
    for side, name in gone:
        side.files.pop(name, None)
    copy.touched |= bool(gone)


def _change(dice: random.Random, copy: Copy, side: Replica, *, cut: bool) -> None:
    """Cut off the end of a segment, or put another file in its place."""
    base = dice.choice(side.bases)
    data = side.files[log(base)]
    if cut:
        data = data[: dice.randrange(max(1, len(data)))]
        side.cut[base] = _ended(data, base)
    else:
        side.strange[base] = kind = dice.choice([*FOREIGN, *BLANK])
        data = (FOREIGN | BLANK)[kind](data, dice)
    side.files[log(base)] = data
    copy.touched = True


def _ended(data: bytes, base: int) -> tuple[int, bool]:
    """The offset behind the last whole batch, and whether another one begins."""
    end, at = base, 0
    while at + 12 <= len(data) and (size := 12 + int.from_bytes(data[at + 8 : at + 12])) <= (
        len(data) - at
    ):
        end = int.from_bytes(data[at : at + 8]) + int.from_bytes(data[at + 23 : at + 27]) + 1
        at += size
    return end, at < len(data)


def lay_out(
    folder: Path, copies: dict[str, Copy], dice: random.Random, *, spare: bool
) -> dict[int, set[str]]:
    """Write copies as topics of one cluster; return the files that each broker's folder lacks."""
    lacks: dict[int, set[str]] = {}
    for broker in brokers(folder):
        mine = {
            (name, copy.compacted): side
            for name, copy in copies.items()
            for side in copy.replicas
            if side.broker == broker.broker
        }
        for (name, _), side in mine.items():
            if side.files:
                (broker.path / name).mkdir()
            for file, data in side.files.items():
                (broker.path / name / file).write_bytes(data)
        of_file = {
            HIGH_WATERMARK: {name: side.hw for (name, _), side in mine.items()},
            RECOVERY_POINT: {name: side.bases[-1] for (name, _), side in mine.items()},
            LOG_START: {
                name: side.start for (name, _), side in mine.items() if side.start > side.bases[0]
            },
            CLEANED: {name: side.cleaned for (name, compacted), side in mine.items() if compacted},
        }
        for file, offsets in of_file.items():
            broker.checkpoint(file, offsets)
        gone = {name for name in (*of_file, "meta.properties") if not spare and dice.random() < 0.3}
        for name in gone:
            (broker.path / name).unlink()
        lacks[broker.broker] = gone
    return lacks


def shows(side: Replica, lacks: set[str], ends: Sequence[int], *, compacted: bool) -> bool:
    """Whether what is left of a replica shows that something of it is missing.

    Compaction, too, leaves a range of offsets in no segment.
    """
    if not side.files:
        return HIGH_WATERMARK not in lacks
    logs = side.logs
    if not logs or any(kind in FOREIGN for kind in side.strange.values()):
        return True
    indexed = {int(name[:20]) for name in side.files if name.endswith("index")}
    if indexed - set(logs):
        return True
    if any(_lacking(side, base, compacted=compacted) for base in side.bases if base < logs[-1]):
        return True
    listed = side.epochs if "leader-epoch-checkpoint" in side.files else []
    if any(start < logs[0] for _, start in listed[:1]):
        return True
    snapshots = [int(name[:20]) for name in side.files if name.endswith(".snapshot")]
    reached = [*snapshots, *(start for _, start in listed[-1:])]
    reached += [side.hw] if HIGH_WATERMARK not in lacks else []
    if LOG_START not in lacks and side.start > side.bases[0]:
        reached.append(side.start)
    return max(reached, default=0) > end_of(side) and max(reached) > max(ends)


def _lacking(side: Replica, base: int, *, compacted: bool) -> bool:
    """Whether it shows that a segment between others is not all there."""
    if base < side.logs[0] or not _held(side, base):
        return False
    gone = base not in side.logs or base in side.strange or base in side.cut
    _, torn = side.cut.get(base, (0, False))
    return torn or (gone and not compacted)


def _held(side: Replica, base: int) -> bool:
    """Whether a segment had any offset."""
    return base < ([*side.bases, side.leo][side.bases.index(base) + 1])


def end_of(side: Replica) -> int:
    """The log end offset that is left to a copy."""
    logs = side.logs
    if not logs:
        return 0
    if logs[-1] in side.strange:
        return logs[-1]
    if logs[-1] in side.cut:
        return side.cut[logs[-1]][0]
    return [*side.bases[1:], side.leo][side.bases.index(logs[-1])]


def expected(copy: Copy, lacks: dict[int, set[str]]) -> set[str]:
    """The verdicts that are right.

    What compaction removed is not told from what is missing without the cleaner's checkpoint.
    """
    if not copy.touched:
        behind = len({side.leo for side in copy.replicas}) > 1
        right = {"alone" if len(copy.replicas) == 1 else "lag" if behind else "agree"}
        told = not any(CLEANED in lacks[side.broker] for side in copy.replicas)
        return right if told or not copy.compacted else {*right, "unknown"}
    ends = [end_of(side) for side in copy.replicas if side.files]
    if any(
        shows(side, lacks[side.broker], ends, compacted=copy.compacted) for side in copy.replicas
    ):
        return {"unknown"}
    return {"agree", "lag", "alone", "unknown"}


def doubted(copy: Copy, lacks: dict[int, set[str]]) -> set[int]:
    """The brokers whose logs begin late, though nothing that is left says why."""
    starts = {side.broker: _starts(side, lacks[side.broker]) for side in copy.replicas}
    reached = max((start for of_side in starts.values() for start in of_side), default=0)
    return {
        side.broker
        for side in copy.replicas
        if not starts[side.broker] and side.logs and side.logs[0] > reached
        if any(side.strange.get(base) not in FOREIGN for base in side.logs)
    }


def _starts(side: Replica, lacks: set[str]) -> list[int]:
    """Where a log begins, by each file that is left and says so."""
    if not side.files and HIGH_WATERMARK in lacks:
        return []
    listed = side.epochs if "leader-epoch-checkpoint" in side.files else []
    told = LOG_START not in lacks and side.start > side.bases[0]
    return [*(start for _, start in listed[:1]), *([side.start] if told else [])]


def told(found: InspectedPartition, copy: Copy, lacks: dict[int, set[str]]) -> str:
    """What was said of a copy, and what was left of it."""
    lines = [f"seed {SEED}: {found.verdict}, {found.says}"]
    lines += [f"{each.broker}: {[*map(str, each.findings)]}" for each in found.replicas]
    lines += [
        f"{side.broker}: {side.bases} leo {side.leo} hw {side.hw} start {side.start}"
        f" epochs {side.epochs} {side.strange} {sorted(side.files)} without {lacks[side.broker]}"
        for side in copy.replicas
    ]
    return "\n".join(lines)


def inspected(
    folder: Path, count: int, dice: random.Random, spark: SparkSession
) -> Counter[tuple[str, bool]]:
    sides = [Broker(folder, broker) for broker in (1, 2, 3)]
    copies = {f"t{number}-0": sound(dice, sides) for number in range(count)}
    for copy in copies.values():
        spoil(dice, copy)
    lacks = lay_out(folder, copies, dice, spare=dice.random() < 0.2)
    said: Counter[tuple[str, bool]] = Counter()
    wrong: list[str] = []
    partitions: dict[str, InspectedPartition] = {
        f"{each.topic}-{each.partition}": each for each in inspect([folder], spark).partitions
    }
    for name, copy in copies.items():
        if (found := partitions.get(name)) is None:
            assert not any(side.files for side in copy.replicas), name
            continue
        right = expected(copy, lacks)
        late = {
            each.broker
            for each in found.replicas
            if any(finding.kind == LATE_START for finding in each.findings)
        }
        if found.verdict not in right or late != doubted(copy, lacks):
            wrong.append(f"{folder.name}, {name}: not {right}, {late}. {told(found, copy, lacks)}")
        said[found.verdict, copy.touched] += 1
    assert not wrong, f"{len(wrong)} of {count}:\n\n" + "\n\n".join(wrong[:5])
    return said


@pytest.mark.parametrize("count", [COUNT, pytest.param(2000, marks=pytest.mark.nightly)])
def test_what_is_left_out_is_never_an_accusation(
    count: int, tmp_path: Path, spark: SparkSession
) -> None:
    dice = random.Random(SEED)  # noqa: S311 - no secret
    said: Counter[tuple[str, bool]] = Counter()
    for begin in range(0, count, BATCH):
        folder = tmp_path / str(begin)
        said += inspected(folder, min(BATCH, count - begin), dice, spark)
        shutil.rmtree(folder)
    assert {word for word, _ in said} <= {"agree", "alone", "lag", "unknown"}
    assert said["unknown", True] > count // 4, "hardly a copy shows that it is incomplete"
    assert said["agree", False], "no sound set agrees"
